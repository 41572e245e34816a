/* Byte-pair encoding (Sennrich et al., ACL 2016): a word begins as its characters; of the neighbours that have a merge, the pair
 * with the lowest rank, leftmost first, becomes one symbol, until none has. A heap holds the pairs, and pairs that are gone are
 * passed over when they come up: O(n log n) for a word of n characters, for a model without pre-tokenizer has one word a text. */
#include "base/mem.h"
#include "tokenizer/steps/merge.h"
#include "tokenizer/unicode.h"
#include "tokenizer/word_cache.h"

#include <stdio.h>
#include <string.h>

struct pair {
    uint64_t key; /* left id + 1 << 32 | right id; 0: a free place */
    int32_t rank, id;
};

struct bpe {
    struct pair *pairs; /* (mask + 1) open addressing */
    size_t mask;
    int32_t unk; /* -1: unknown characters are left out */
    bool fuse_unk, ignore_merges;
    int32_t bytes[256];          /* tokens <0x00> to <0xFF>, -1 for none; where byte_fallback is off, all are -1 */
    const char *prefix, *suffix; /* continuing_subword_prefix and end_of_word_suffix, "" for none */
};

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(left + 1) << 32 | (uint32_t)right;
}

static struct pair *pair_place(const struct bpe *b, uint64_t key)
{
    size_t i = (size_t)((key * 0x9E3779B97F4A7C15u) >> 32) & b->mask;
    while (b->pairs[i].key && b->pairs[i].key != key)
        i = (i + 1) & b->mask;
    return &b->pairs[i];
}

/* A merge is "left right" or ["left", "right"]. */
static int split_merge(const struct tokenizer *t, json_t *m, size_t i, const char *side[2], size_t n[2],
                       struct snug_err *err)
{
    const char *s = json_string_value(m), *blank = s ? strchr(s, ' ') : NULL;
    if (blank && !strchr(blank + 1, ' ')) {
        side[0] = s;
        n[0] = (size_t)(blank - s);
        side[1] = blank + 1;
        n[1] = strlen(side[1]);
        return 0;
    }
    for (size_t k = 0; k < 2; k++) {
        side[k] = json_array_size(m) == 2 ? json_string_value(json_array_get(m, k)) : NULL;
        if (!side[k])
            return err_set(err, SNUG_ERR_INPUT, "%s: model.merges[%zu] is not a pair of tokens; correct the file",
                           t->path, i);
        n[k] = strlen(side[k]);
    }
    return 0;
}

static int read_merge(struct tokenizer *t, struct bpe *b, json_t *m, size_t i, struct snug_err *err)
{
    const char *side[2];
    size_t n[2], skip = strlen(b->prefix);
    int32_t id[3];
    TRY(split_merge(t, m, i, side, n, err));
    char *whole = mem_alloc(n[0] + n[1] + 1);
    if (!whole)
        return err_no_memory(err, n[0] + n[1] + 1);
    skip = skip < n[1] ? skip : n[1];
    memcpy(whole, side[0], n[0]);
    memcpy(whole + n[0], side[1] + skip, n[1] - skip);
    for (int k = 0; k < 2; k++)
        id[k] = trie_find(&t->vocab, side[k], n[k]);
    id[2] = trie_find(&t->vocab, whole, n[0] + n[1] - skip);
    mem_free(whole);
    if (id[0] < 0 || id[1] < 0 || id[2] < 0)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: model.merges[%zu]: \"%.*s\" and \"%.*s\", or both together, are not in the vocabulary; is the file "
            "complete?",
            t->path, i, (int)n[0], side[0], (int)n[1], side[1]);
    uint64_t key = pair_key(id[0], id[1]);
    *pair_place(b, key) = (struct pair){key, (int32_t)i, id[2]};
    return 0;
}

static int read_merges(struct tokenizer *t, struct bpe *b, json_t *merges, struct snug_err *err)
{
    size_t n = json_array_size(merges), i;
    json_t *m;
    if (!json_is_array(merges) || n >= INT32_MAX)
        return err_set(err, SNUG_ERR_INPUT, "%s: model.merges is not an array; is the file complete?", t->path);
    for (b->mask = 15; b->mask < 2 * n; b->mask = 2 * b->mask + 1)
        ;
    b->pairs = arena_alloc(&t->arena, (b->mask + 1) * sizeof *b->pairs);
    if (!b->pairs)
        return err_no_memory(err, (b->mask + 1) * sizeof *b->pairs);
    json_array_foreach(merges, i, m) TRY(read_merge(t, b, m, i, err));
    return 0;
}

void step_byte_tokens(const struct tokenizer *t, bool fallback, int32_t bytes[256])
{
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        bytes[i] = fallback ? trie_find(&t->vocab, name, 6) : -1;
    }
}

int model_BPE_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct bpe *b = step_state(t, sizeof *b, state, err);
    const char *unk = NULL;
    bool fallback = false;
    double dropout = 0;
    if (!b)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "model", err, "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"));
    b->prefix = b->suffix = "";
    TRY(json_get_real(o, t->path, "dropout", false, 0, 1, &dropout, err));
    if (dropout > 0)
        return step_not_supported(t, "model.dropout", json_object_get(o, "dropout"), "null, 0", err);
    TRY(step_get_string(t, o, "continuing_subword_prefix", false, &b->prefix, err));
    TRY(step_get_string(t, o, "end_of_word_suffix", false, &b->suffix, err));
    TRY(json_get_bool(o, t->path, "fuse_unk", false, &b->fuse_unk, err));
    TRY(json_get_bool(o, t->path, "byte_fallback", false, &fallback, err));
    TRY(json_get_bool(o, t->path, "ignore_merges", false, &b->ignore_merges, err));
    TRY(json_get_string(o, t->path, "unk_token", false, &unk, err));
    TRY(tokenizer_read_ids(t, json_object_get(o, "vocab"), err));
    b->unk = unk ? trie_find(&t->vocab, unk, strlen(unk)) : -1;
    if (unk && b->unk < 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: the vocabulary lacks the unknown token \"%s\"; add it", t->path, unk);
    t->special[TOKEN_UNK] = b->unk;
    step_byte_tokens(t, fallback, b->bytes);
    return read_merges(t, b, json_object_get(o, "merges"), err);
}

/* The id of a character with what a word's first and last ones lack and have; -1: unknown. */
static int32_t char_id(const struct bpe *b, const struct trie *vocab, struct text c, bool first, bool last)
{
    const char *parts[3] = {first ? "" : b->prefix, c.s, last ? b->suffix : ""};
    size_t n[3] = {strlen(parts[0]), c.n, strlen(parts[2])};
    uint32_t node = TRIE_ROOT;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < n[k]; i++)
            if (!(node = trie_step(vocab, node, (unsigned char)parts[k][i])))
                return -1;
    return vocab->n_nodes ? vocab->values[node] : -1;
}

/* All bytes of an unknown character as tokens; false where one of them has none. As in the library, the bytes of prefix and suffix
 * count too. */
static bool has_bytes(const struct bpe *b, struct text c)
{
    bool all = true;
    for (size_t i = 0; i < c.n; i++)
        all = all && b->bytes[(unsigned char)c.s[i]] >= 0;
    return all;
}

/* `end`: of the first byte in the word. */
static int push_bytes(const struct bpe *b, struct encoder *e, struct text c, size_t end, size_t step, size_t *n)
{
    for (size_t i = 0; i < c.n; i++)
        TRY(symbol_push(e, n, b->bytes[(unsigned char)c.s[i]], end + i * step));
    return 0;
}

/* The word's characters as symbols. An unknown one waits, so that the next can be fused with it. */
static int first_symbols(const struct bpe *b, struct encoder *e, struct text word, size_t *n)
{
    bool waits = false;
    for (size_t i = 0, bytes; i < word.n; i += bytes) {
        bytes = (size_t)utf8_sequence(word.s + i, word.n - i);
        struct text c = text_part(word, i, i + bytes);
        bool first = i == 0, last = i + bytes == word.n;
        int32_t id = char_id(b, &e->t->vocab, c, first, last);
        struct text prefix = {b->prefix, first ? 0 : strlen(b->prefix), NULL},
                    suffix = {b->suffix, last ? strlen(b->suffix) : 0, NULL};
        if (id < 0 && has_bytes(b, prefix) && has_bytes(b, c) && has_bytes(b, suffix)) {
            TRY(push_bytes(b, e, prefix, i, 0, n));
            TRY(push_bytes(b, e, c, i + 1, 1, n));
            TRY(push_bytes(b, e, suffix, i + bytes, 0, n));
            continue;
        }
        if (waits && (id >= 0 || !b->fuse_unk)) {
            TRY(symbol_push(e, n, b->unk, i));
            waits = false;
        }
        if (id >= 0)
            TRY(symbol_push(e, n, id, i + bytes));
        else
            waits = b->unk >= 0;
    }
    return waits ? symbol_push(e, n, b->unk, word.n) : 0;
}

static bool find_merge(const void *state, struct text word, const struct symbol *s, int32_t at, struct merge *m)
{
    const struct bpe *b = state;
    const struct pair *p = pair_place(b, pair_key(s[at].id, s[s[at].next].id));
    (void)word;
    if (!p->key)
        return false;
    *m = (struct merge){p->rank, at, p->id};
    return true;
}

static int encode_word(const void *state, struct encoder *e, struct text word)
{
    const struct bpe *b = state;
    size_t n = 0;
    int32_t whole = b->ignore_merges ? trie_find(&e->t->vocab, word.s, word.n) : -1;
    if (whole >= 0)
        return push_token(e, whole, word, 0, word.n);
    TRY(first_symbols(b, e, word, &n));
    if (n == 0)
        return 0;
    TRY(merge_all(e, word, n, find_merge, b));
    size_t start = 0;
    for (int32_t i = 0; i >= 0; i = e->s->symbols[i].next) {
        TRY(push_token(e, e->s->symbols[i].id, word, start, e->s->symbols[i].end));
        start = e->s->symbols[i].end;
    }
    return 0;
}

int model_BPE_run(const void *state, struct encoder *e, struct text word)
{
    return word_cache_encode(e, word, encode_word, state);
}

void model_BPE_hash(const void *state, struct hash_state *h)
{
    const struct bpe *b = state;
    unsigned char switches[2] = {b->fuse_unk, b->ignore_merges};
    hash_add(h, &b->unk, sizeof b->unk);
    hash_add(h, switches, sizeof switches);
    hash_add(h, b->bytes, sizeof b->bytes);
    hash_add(h, b->prefix, strlen(b->prefix) + 1);
    hash_add(h, b->suffix, strlen(b->suffix) + 1);
    hash_add(h, b->pairs, (b->mask + 1) * sizeof *b->pairs);
}
