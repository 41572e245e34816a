/* WordPiece (Schuster and Nakajima, "Japanese and Korean voice search", ICASSP 2012), as BERT uses it: the longest
 * token that begins the word, then the longest "##" token that continues it, and so on; one [UNK] for the whole word
 * when a rest matches nothing. Time: word length times the length of the longest token. */
#include "tokenizer/steps/step.h"

#include <string.h>

struct wordpiece {
    int32_t unk;
    const char *prefix;   /* "##" of every piece but a word's first */
    uint32_t prefix_node; /* where it ends in t->vocab; 0 with has_continuations unset: nothing begins with it */
    bool has_continuations;
    int64_t max_chars; /* a longer word is unk */
};

int model_WordPiece_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct wordpiece *w = step_state(t, sizeof *w, state, err);
    if (!w)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "model", err, "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"));
    const char *unk;
    TRY(json_get_string(o, t->path, "unk_token", true, &unk, err));
    TRY(step_get_string(t, o, "continuing_subword_prefix", true, &w->prefix, err));
    TRY(json_get_int(o, t->path, "max_input_chars_per_word", true, 0, INT64_MAX, &w->max_chars, err));
    TRY(tokenizer_read_ids(t, json_object_get(o, "vocab"), err));
    w->unk = trie_find(&t->vocab, unk, strlen(unk));
    if (w->unk < 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: the vocabulary lacks the unknown token \"%s\"; add it", t->path, unk);
    w->has_continuations = true;
    for (const char *p = w->prefix; *p && w->has_continuations; p++) {
        w->prefix_node = trie_step(&t->vocab, w->prefix_node, (unsigned char)*p);
        w->has_continuations = w->prefix_node != 0;
    }
    t->special[TOKEN_UNK] = w->unk;
    return 0;
}

static bool longer_than(const char *word, size_t bytes, int64_t max_chars)
{
    if (bytes <= (uint64_t)max_chars)
        return false;
    int64_t chars = 0;
    for (size_t i = 0; i < bytes; i++)
        chars += ((unsigned char)word[i] & 0xC0) != 0x80;
    return chars > max_chars;
}

int model_WordPiece_run(const void *state, struct encoder *e, struct text text)
{
    const char *word = text.s;
    size_t bytes = text.n;
    const struct wordpiece *w = state;
    const struct trie *vocab = &e->t->vocab;
    struct token_buf *out = e->out;
    if (longer_than(word, bytes, w->max_chars))
        return push_token(e, w->unk, text, 0, bytes);
    size_t before = out->n_pieces;
    for (size_t start = 0, end = 0; start < bytes; start = end) {
        int32_t found = -1;
        uint32_t node = start ? w->prefix_node : TRIE_ROOT;
        bool possible = !start || w->has_continuations;
        for (size_t i = start; possible && i < bytes; i++) {
            node = trie_step(vocab, node, (unsigned char)word[i]);
            if (!node)
                break;
            if (vocab->values[node] >= 0) {
                found = vocab->values[node];
                end = i + 1;
            }
        }
        if (found < 0) {
            out->n_pieces = before;
            return push_token(e, w->unk, text, 0, bytes);
        }
        TRY(push_token(e, found, text, start, end));
    }
    return 0;
}

void model_WordPiece_hash(const void *state, struct hash_state *h)
{
    const struct wordpiece *w = state;
    hash_add(h, &w->unk, sizeof w->unk);
    hash_add(h, w->prefix, strlen(w->prefix) + 1);
    hash_add(h, &w->max_chars, sizeof w->max_chars);
}
