/* Encoding: the steps listed in tokenizer.h, for one text or a pair. */
#include "tokenizer/tokenizer.h"

#include "base/mem.h"
#include "base/str.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

#include <string.h>

static int encode_words(struct encoder *e, struct text text)
{
    const struct steps *splits = &e->t->steps[STEP_PRE_TOKENIZER];
    const struct step *model = e->t->steps[STEP_MODEL].list;
    if (!splits->n)
        return model->type->encode(model->state, e, text);
    struct words w = {.text = text};
    words_begin(e, &w);
    TRY(words_add(e, &w, (struct span){0, text.n, e->begins}));
    words_end(e, &w);
    for (size_t i = 0; i < splits->n; i++)
        TRY(splits->list[i].type->split(splits->list[i].state, e, &w));
    for (size_t i = 0; i < w.n; i++)
        TRY(model->type->encode(model->state, e, word_text(&w, i)));
    return 0;
}

typedef int encode_between(struct encoder *e, struct text text);

/* The ids of the added tokens of `set` in the text, and what `between` makes of the text between them. */
static int encode_around(struct encoder *e, const struct added_set *set, struct text text, encode_between *between)
{
    if (!set->trie.n_nodes)
        return text.n ? between(e, text) : 0;
    struct added_scan scan = {.set = set, .flags = e->t->flags, .text = text.s, .bytes = text.n};
    struct added_match m;
    size_t from = 0;
    bool begins = e->begins;
    while (added_next(&scan, &m)) {
        e->begins = begins && from == 0;
        if (from < m.start)
            TRY(between(e, text_part(text, from, m.start)));
        if (m.start < m.end)
            TRY(push_token(e, m.id, text, m.start, m.end));
        from = m.end;
    }
    e->begins = begins && from == 0;
    TRY(from < text.n ? between(e, text_part(text, from, text.n)) : 0);
    e->begins = begins;
    return 0;
}

int tokenizer_normalize(struct encoder *e, struct text in, struct text *out)
{
    const struct steps *steps = &e->t->steps[STEP_NORMALIZER];
    *out = in;
    for (size_t i = 0; i < steps->n; i++) {
        struct text_buf *to = &e->s->normal[i % 2];
        text_start(to, e->placed);
        TRY(steps->list[i].type->normalize(steps->list[i].state, e, *out, to));
        *out = text_done(to);
    }
    return 0;
}

static int encode_normal(struct encoder *e, struct text text)
{
    struct text normal;
    TRY(tokenizer_normalize(e, text, &normal));
    return encode_around(e, &e->t->normal, normal, encode_words);
}

/* The user's text, with the place of each of its characters where places are asked for. */
static int encode_text(struct encoder *e, const char *s, size_t n)
{
    struct text text = {s, n, NULL};
    struct text_buf *given = &e->s->given;
    if (e->placed) {
        if (!MEM_GROW(given->from, given->from_cap, n))
            return err_no_memory(e->err, n * sizeof *given->from);
        for (size_t i = 0, bytes; i < n; i += bytes) {
            bytes = (size_t)utf8_sequence(s + i, n - i);
            for (size_t k = i; k < i + bytes; k++)
                given->from[k] = (struct text_place){i, i + bytes};
        }
        text.from = given->from;
    }
    return encode_around(e, &e->t->raw, text, encode_normal);
}

static int check_utf8(const char *text, size_t bytes, struct snug_err *err)
{
    for (size_t i = 0; i < bytes;) {
        uint64_t eight;
        if (i + sizeof eight <= bytes && (memcpy(&eight, text + i, sizeof eight), !(eight & 0x8080808080808080u))) {
            i += sizeof eight;
            continue;
        }
        int n = utf8_sequence(text + i, bytes - i);
        if (!n)
            return err_set(err, SNUG_ERR_INPUT, "the text is not UTF-8: byte %zu is 0x%02X; convert it to UTF-8", i,
                           (unsigned char)text[i]);
        i += (size_t)n;
    }
    return 0;
}

/* Lengths after cutting to `room` in all. The longer text is cut until both are equal; then both are, and the one that
 * was longer keeps the odd token, the second if they were equal. As truncate_encodings of the tokenizers library. */
static void cut_longest_first(size_t length[2], size_t room)
{
    int longer = length[0] > length[1] ? 0 : 1, shorter = 1 - longer;
    if (length[shorter] <= room / 2) {
        length[longer] = room - length[shorter];
    } else {
        length[shorter] = room / 2;
        length[longer] = room - room / 2;
    }
}

/* Of each text kept[text] pieces from first[text] on. */
static int fill_template(const struct template *form, const size_t first[2], const size_t kept[2], bool words,
                         struct token_buf *out, struct snug_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < form->n_parts; i++) {
        const struct template_part *p = &form->parts[i];
        size_t more = p->kind == PART_SPECIAL ? p->n_ids : kept[p->kind];
        if (!MEM_GROW(out->ids, out->ids_cap, n + more) || !MEM_GROW(out->type_ids, out->type_ids_cap, n + more) ||
            (words && !MEM_GROW(out->words, out->words_cap, n + more)))
            return err_no_memory(err, (n + more) * sizeof *out->ids);
        const int32_t *from = p->ids;
        if (p->kind != PART_SPECIAL && more) /* a first text without pieces has no memory for them */
            from = out->pieces + first[p->kind];
        for (size_t k = 0; k < more; k++) {
            out->ids[n + k] = from[k];
            out->type_ids[n + k] = p->type_id;
            if (words)
                out->words[n + k] = p->kind == PART_A ? out->piece_words[from - out->pieces + (ptrdiff_t)k] : -1;
        }
        n += more;
    }
    out->n = n;
    return 0;
}

/* Of texts of `whole` pieces `kept`, cut on the tokenizer's side. */
static int fill_cut(const struct tokenizer *t, const struct template *form, const size_t whole[2], const size_t kept[2],
                    bool words, struct token_buf *out, struct snug_err *err)
{
    size_t left = t->truncate_left ? 1 : 0;
    size_t first[2] = {left * (whole[0] - kept[0]), whole[0] + left * (whole[1] - kept[1])};
    return fill_template(form, first, kept, words, out, err);
}

static int start(const struct template *form, const char *what, int64_t max_length, struct token_buf *out,
                 struct snug_err *err)
{
    if (max_length < 0 || (max_length && max_length <= form->added))
        return err_set(err, SNUG_ERR_USAGE,
                       "--max-length %lld: leaves no room beside the %d special tokens of a %s; use at least %d",
                       (long long)max_length, form->added, what, form->added + 1);
    out->n = out->n_pieces = 0;
    out->truncated = false;
    return scratch_get(out, err);
}

static int encode(const struct tokenizer *t, const struct template *form, bool target, const char *text, size_t bytes,
                  const char *pair, size_t pair_bytes, int64_t max_length, struct token_buf *out, struct snug_err *err)
{
    TRY(start(form, pair ? "pair" : "text", max_length, out, err));
    TRY(check_utf8(text, bytes, err));
    if (pair)
        TRY(check_utf8(pair, pair_bytes, err));
    struct encoder e = {.t = t, .out = out, .s = out->scratch, .err = err, .begins = true, .target = target};
    TRY(encode_text(&e, text, bytes));
    size_t whole[2] = {out->n_pieces, 0};
    if (pair)
        TRY(encode_text(&e, pair, pair_bytes));
    whole[1] = out->n_pieces - whole[0];

    size_t kept[2] = {whole[0], whole[1]}, room = (size_t)(max_length - form->added);
    if (max_length && out->n_pieces > room) {
        out->truncated = true;
        if (pair)
            cut_longest_first(kept, room);
        else
            kept[0] = room;
    }
    return fill_cut(t, form, whole, kept, false, out, err);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                     int64_t max_length, struct token_buf *out, struct snug_err *err)
{
    return encode(t, pair ? &t->pair : &t->single, false, text, bytes, pair, pair_bytes, max_length, out, err);
}

int tokenizer_encode_target(const struct tokenizer *t, const char *text, size_t bytes, int64_t max_length,
                            struct token_buf *out, struct snug_err *err)
{
    return encode(t, t->target.n_parts ? &t->target : &t->single, true, text, bytes, NULL, 0, max_length, out, err);
}

int tokenizer_encode_words(const struct tokenizer *t, const struct token_word *words, size_t n, int64_t max_length,
                           struct token_buf *out, struct snug_err *err)
{
    TRY(start(&t->single, "text", max_length, out, err));
    struct encoder e = {.t = t, .out = out, .s = out->scratch, .err = err, .begins = true, .apart = true};
    for (size_t i = 0; i < n; i++) {
        size_t first = out->n_pieces;
        TRY(check_utf8(words[i].text, words[i].bytes, err));
        TRY(encode_text(&e, words[i].text, words[i].bytes));
        if (!MEM_GROW(out->piece_words, out->piece_words_cap, out->n_pieces))
            return err_no_memory(err, out->n_pieces * sizeof *out->piece_words);
        for (size_t k = first; k < out->n_pieces; k++)
            out->piece_words[k] = k == first ? (int32_t)i : -1;
    }
    size_t whole[2] = {out->n_pieces, 0}, kept[2] = {out->n_pieces, 0}, room = (size_t)(max_length - t->single.added);
    out->truncated = max_length && out->n_pieces > room;
    kept[0] = out->truncated ? room : whole[0];
    return fill_cut(t, &t->single, whole, kept, true, out, err);
}

/* Blanks that a token begins or ends with, as ByteLevel writes them. */
static size_t blanks(const char *token, bool at_end)
{
    static const char blank[] = "\xC4\xA0";
    size_t n = 0, left = strlen(token);
    for (; left >= 2 && !memcmp(at_end ? token + left - 2 : token, blank, 2); left -= 2, n++)
        token += at_end ? 0 : 2;
    return n;
}

static bool is_space_at(const struct tokenizer *t, const char *at)
{
    uint32_t c;
    utf8_decode(at, &c);
    return char_flags(t->flags, c) & CHAR_SPACE;
}

/* An added token can have white space of the text around it, a token of ByteLevel writes its own. As process_offsets of the
 * library's ByteLevel. */
static void trim_place(const struct tokenizer *t, const char *text, const char *token, bool first,
                       struct text_place *place)
{
    bool added = trie_find(&t->added_ids, token, strlen(token)) >= 0;
    size_t start = place->start, end = place->end, before = blanks(token, false), behind = blanks(token, true);
    if (added)
        for (before = behind = 0; start + before < end && is_space_at(t, text + start + before); before++)
            ;
    if (before && t->trims_but_one && (first || start == 0))
        before--;
    for (; before && place->start < end; before--)
        place->start += (size_t)utf8_sequence(text + place->start, end - place->start);
    for (; behind && place->end > place->start; behind--)
        place->end -= (size_t)utf8_back(text, place->end);
}

static void trim_places(const struct tokenizer *t, const char *text, struct token_buf *out, size_t from)
{
    for (size_t i = from; t->trims_places && i < out->n_pieces; i++)
        trim_place(t, text, t->tokens[out->pieces[i]], i == from, &out->piece_places[i]);
}

int tokenizer_encode_whole(const struct tokenizer *t, const char *text, size_t bytes, const char *pair,
                           size_t pair_bytes, struct token_buf *out, size_t *n_first, struct snug_err *err)
{
    TRY(start(&t->pair, "pair", 0, out, err));
    TRY(check_utf8(text, bytes, err));
    TRY(check_utf8(pair, pair_bytes, err));
    struct encoder e = {.t = t, .out = out, .s = out->scratch, .err = err, .begins = true, .placed = true};
    TRY(encode_text(&e, text, bytes));
    *n_first = out->n_pieces;
    trim_places(t, text, out, 0);
    TRY(encode_text(&e, pair, pair_bytes));
    trim_places(t, pair, out, *n_first);
    return 0;
}

int tokenizer_window(const struct tokenizer *t, size_t n_first, size_t from, size_t to, struct token_buf *out,
                     size_t *at, struct snug_err *err)
{
    const size_t first[2] = {0, n_first + from}, kept[2] = {n_first, to - from};
    TRY(fill_template(&t->pair, first, kept, false, out, err));
    *at = 0;
    for (size_t i = 0; i < t->pair.n_parts && t->pair.parts[i].kind != PART_B; i++)
        *at += t->pair.parts[i].kind == PART_A ? n_first : t->pair.parts[i].n_ids;
    return 0;
}

int32_t tokenizer_vocab_size(const struct tokenizer *t)
{
    return (int32_t)t->n_tokens;
}

int32_t tokenizer_id(const struct tokenizer *t, const char *token)
{
    int32_t added = trie_find(&t->added_ids, token, strlen(token));
    return added >= 0 ? t->added[added].id : trie_find(&t->vocab, token, strlen(token));
}

const char *tokenizer_token(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->n_tokens ? t->tokens[id] : NULL;
}

int32_t tokenizer_special(const struct tokenizer *t, enum special_token which)
{
    return t->special[which];
}

int tokenizer_template_tokens(const struct tokenizer *t, bool pair)
{
    return pair ? t->pair.added : t->single.added;
}

int64_t tokenizer_max_length(const struct tokenizer *t)
{
    return t->max_length;
}

struct hash128 tokenizer_hash(const struct tokenizer *t)
{
    return t->hash;
}

const char *tokenizer_note(const struct tokenizer *t, size_t i)
{
    return i < t->n_notes ? t->notes[i] : NULL;
}

const char *tokenizer_unused(const struct tokenizer *t)
{
    return t->unused;
}
