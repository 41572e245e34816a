/* Looking for added tokens in text, as AddedVocabulary::find_matches of the tokenizers library does. */
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"

int added_set_add(struct added_set *set, const char *pattern, size_t bytes, size_t index, struct snug_err *err)
{
    set->starts[(unsigned char)pattern[0]] = true;
    return trie_add(&set->trie, pattern, bytes, (int32_t)index, err);
}

/* The longest member that starts at `from`: its index, -1 for none. */
static int32_t longest(const struct added_scan *s, size_t from, size_t *end)
{
    const struct trie *trie = &s->set->trie;
    int32_t found = -1;
    uint32_t node = TRIE_ROOT;
    for (size_t i = from; i < s->bytes && (node = trie_step(trie, node, (unsigned char)s->text[i])); i++)
        if (trie->values[node] >= 0) {
            found = trie->values[node];
            *end = i + 1;
        }
    return found;
}

static bool has_flag_before(const struct added_scan *s, size_t at, enum char_flag flag)
{
    uint32_t c;
    if (at == 0)
        return false;
    utf8_decode(s->text + at - utf8_back(s->text, at), &c);
    return char_flags(s->flags, c) & flag;
}

static bool has_flag_at(const struct added_scan *s, size_t at, enum char_flag flag)
{
    uint32_t c;
    if (at == s->bytes)
        return false;
    utf8_decode(s->text + at, &c);
    return char_flags(s->flags, c) & flag;
}

/* End of the white space from `at` on. Remembered, so that tokens inside one long stretch do not each walk it. */
static size_t skip_space(struct added_scan *s, size_t at)
{
    if (at < s->space_end)
        return s->space_end;
    uint32_t c;
    while (has_flag_at(s, at, CHAR_SPACE))
        at += (size_t)utf8_decode(s->text + at, &c);
    return s->space_end = at;
}

bool added_next(struct added_scan *s, struct added_match *m)
{
    while (s->at < s->bytes) {
        size_t start = s->at, end = start;
        int32_t index = s->set->starts[(unsigned char)s->text[start]] ? longest(s, start, &end) : -1;
        if (index < 0) {
            s->at++;
            continue;
        }
        s->at = end; /* also when it is not taken below: a shorter one inside it gets no chance */
        const struct added_token *token = &s->set->tokens[index];
        if (token->single_word && (has_flag_before(s, start, CHAR_WORD) || has_flag_at(s, end, CHAR_WORD)))
            continue;
        if (token->lstrip) {
            while (start > s->taken && has_flag_before(s, start, CHAR_SPACE))
                start -= (size_t)utf8_back(s->text, start);
            start = start < s->taken ? s->taken : start;
        }
        if (token->rstrip)
            end = skip_space(s, end);
        *m = (struct added_match){start, end, token->id};
        s->taken = end;
        return true;
    }
    return false;
}
