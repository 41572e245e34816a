/* WordPiece (Schuster and Nakajima, "Japanese and Korean voice search", ICASSP 2012), as BERT uses it: the longest
 * token that begins the word, then the longest "##" token that continues it, and so on; one [UNK] for the whole word
 * when a rest matches nothing. Time: word length times the length of the longest token. */
#include "tokenizer/parts.h"

#include <string.h>

static bool longer_than(const char *word, size_t bytes, int64_t max_chars)
{
    if (bytes <= (uint64_t)max_chars)
        return false;
    int64_t chars = 0;
    for (size_t i = 0; i < bytes; i++)
        chars += ((unsigned char)word[i] & 0xC0) != 0x80;
    return chars > max_chars;
}

static int encode(const struct tokenizer *t, const char *word, size_t bytes, struct token_buf *out,
                  struct snug_err *err)
{
    const struct wordpiece *w = t->model_state;
    if (longer_than(word, bytes, w->max_chars))
        return push_piece(out, w->unk, err);
    size_t before = out->n_pieces;
    for (size_t start = 0, end = 0; start < bytes; start = end) {
        int32_t found = -1;
        uint32_t node = start ? w->prefix_node : TRIE_ROOT;
        bool possible = !start || w->has_continuations;
        for (size_t i = start; possible && i < bytes; i++) {
            node = trie_step(&t->vocab, node, (unsigned char)word[i]);
            if (!node)
                break;
            if (t->vocab.values[node] >= 0) {
                found = t->vocab.values[node];
                end = i + 1;
            }
        }
        if (found < 0) {
            out->n_pieces = before;
            return push_piece(out, w->unk, err);
        }
        TRY(push_piece(out, found, err));
    }
    return 0;
}

static void hash(const struct tokenizer *t, struct hash_state *h)
{
    const struct wordpiece *w = t->model_state;
    hash_add(h, &w->unk, sizeof w->unk);
    hash_add(h, w->prefix, strlen(w->prefix) + 1);
    hash_add(h, &w->max_chars, sizeof w->max_chars);
}

const struct token_model wordpiece_model = {"WordPiece", encode, hash};

int wordpiece_init(struct tokenizer *t, const char *unk, const char *prefix, int64_t max_chars, struct snug_err *err)
{
    struct wordpiece *w = arena_alloc(&t->arena, sizeof *w);
    char *kept = arena_strdup(&t->arena, prefix);
    if (!w || !kept)
        return err_no_memory(err, sizeof *w + strlen(prefix));
    *w = (struct wordpiece){.unk = trie_find(&t->vocab, unk, strlen(unk)), .prefix = kept, .max_chars = max_chars};
    if (w->unk < 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: the vocabulary lacks the unknown token \"%s\"; add it", t->path, unk);
    w->has_continuations = true;
    for (const char *p = prefix; *p && w->has_continuations; p++) {
        w->prefix_node = trie_step(&t->vocab, w->prefix_node, (unsigned char)*p);
        w->has_continuations = w->prefix_node != 0;
    }
    t->model = &wordpiece_model;
    t->model_state = w;
    t->special[TOKEN_UNK] = w->unk;
    return 0;
}
