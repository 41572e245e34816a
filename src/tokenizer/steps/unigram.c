/* Unigram (Kudo, ACL 2018): of all ways to cut a word into tokens the one with the highest sum of scores, log-probabilities, found by
 * dynamic programming over where tokens end (Viterbi). A character that no token covers alone costs 10 more than the worst token;
 * neighbours of that kind are one unknown token. Time: word length times the length of the longest token. */
#include "base/mem.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/word_cache.h"

#include <math.h>
#include <string.h>

static const double unknown_penalty = 10;

struct unigram {
    double *scores; /* (n_vocab) */
    size_t n;
    double unk_score;
    int32_t unk; /* -1: none */
    bool byte_fallback;
    int32_t bytes[256];
};

static int read_token(struct tokenizer *t, struct unigram *u, json_t *row, size_t i, struct snug_err *err)
{
    char text[64];
    const char *token = json_string_value(json_array_get(row, 0));
    json_t *score = json_array_get(row, 1);
    if (json_array_size(row) != 2 || !token || !json_is_number(score))
        return err_set(err, SNUG_ERR_INPUT, "%s: model.vocab[%zu] is %s; [\"token\", score] was expected", t->path, i,
                       json_value_text(row, text));
    int32_t twin = trie_find(&t->vocab, token, strlen(token));
    if (twin >= 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: token \"%s\" is model.vocab[%d] and [%zu]; remove one", t->path, token,
                       twin, i);
    u->scores[i] = json_number_value(score);
    return tokenizer_set_token(t, i, token, err);
}

static int read_vocab(struct tokenizer *t, struct unigram *u, json_t *vocab, struct snug_err *err)
{
    json_t *row;
    size_t i;
    if (!json_is_array(vocab))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: model.vocab is not an array of tokens and scores; is the file complete?", t->path);
    u->n = json_array_size(vocab);
    TRY(tokenizer_start_vocab(t, u->n, err));
    u->scores = arena_alloc(&t->arena, u->n * sizeof *u->scores);
    if (!u->scores)
        return err_no_memory(err, u->n * sizeof *u->scores);
    double lowest = INFINITY;
    json_array_foreach(vocab, i, row)
    {
        TRY(read_token(t, u, row, i, err));
        lowest = u->scores[i] < lowest ? u->scores[i] : lowest;
    }
    u->unk_score = lowest - unknown_penalty;
    return 0;
}

int model_Unigram_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct unigram *u = step_state(t, sizeof *u, state, err);
    int64_t unk = -1;
    if (!u)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "model", err, "unk_id", "vocab", "byte_fallback"));
    TRY(read_vocab(t, u, json_object_get(o, "vocab"), err));
    TRY(json_get_int(o, t->path, "unk_id", false, 0, (int64_t)u->n - 1, &unk, err));
    TRY(json_get_bool(o, t->path, "byte_fallback", false, &u->byte_fallback, err));
    u->unk = (int32_t)unk;
    t->special[TOKEN_UNK] = u->unk;
    step_byte_tokens(t, u->byte_fallback, u->bytes);
    return 0;
}

static void offer(struct lattice_node *to, double score, size_t from, int32_t id)
{
    if (to->from == SIZE_MAX || score > to->score)
        *to = (struct lattice_node){score, from, id};
}

static int no_unknown(struct encoder *e)
{
    return err_set(e->err, SNUG_ERR_INPUT, "the text holds a character that %s does not know, and it has no unk_id",
                   e->t->path);
}

/* Fills the lattice: (word.n + 1) nodes. */
static int find_paths(const struct unigram *u, struct encoder *e, struct text word)
{
    const struct trie *vocab = &e->t->vocab;
    struct lattice_node *nodes = e->s->lattice;
    for (size_t i = 0; i <= word.n; i++)
        nodes[i] = (struct lattice_node){0, SIZE_MAX, -1};
    for (size_t at = 0, bytes; at < word.n; at += bytes) {
        bytes = (size_t)utf8_sequence(word.s + at, word.n - at);
        bool alone = false;
        double before = nodes[at].score;
        uint32_t node = TRIE_ROOT;
        for (size_t i = at; i < word.n && (node = trie_step(vocab, node, (unsigned char)word.s[i])); i++) {
            int32_t id = vocab->values[node];
            if (id < 0)
                continue;
            offer(&nodes[i + 1], u->scores[id] + before, at, id);
            alone = alone || i + 1 - at == bytes;
        }
        if (alone)
            continue;
        if (u->unk < 0)
            return no_unknown(e);
        offer(&nodes[at + bytes], u->unk_score + before, at, u->unk);
    }
    return 0;
}

/* What is unknown: the token that it happens to be, its bytes, or the unknown token. */
static int push_unknown(const struct unigram *u, struct encoder *e, struct text what)
{
    int32_t id = trie_find(&e->t->vocab, what.s, what.n);
    if (id >= 0)
        return push_token(e, id, what, 0, what.n);
    bool all = u->byte_fallback;
    for (size_t i = 0; all && i < what.n; i++)
        all = u->bytes[(unsigned char)what.s[i]] >= 0;
    if (!all)
        return push_token(e, u->unk, what, 0, what.n);
    for (size_t i = 0; i < what.n; i++)
        TRY(push_token(e, u->bytes[(unsigned char)what.s[i]], what, 0, what.n));
    return 0;
}

static int encode_word(const void *state, struct encoder *e, struct text word)
{
    const struct unigram *u = state;
    struct scratch *s = e->s;
    if (!MEM_GROW(s->lattice, s->lattice_cap, word.n + 1))
        return err_no_memory(e->err, (word.n + 1) * sizeof *s->lattice);
    TRY(find_paths(u, e, word));
    /* The path is known from its end. Turned round: a node on it then has where its token ends, and the id of that. */
    size_t next = SIZE_MAX;
    int32_t next_id = -1;
    for (size_t at = word.n;;) {
        struct lattice_node *node = &s->lattice[at];
        size_t from = node->from;
        int32_t id = node->id;
        node->from = next;
        node->id = next_id;
        next = at;
        next_id = id;
        if (at == 0)
            break;
        at = from;
    }
    for (size_t at = 0; at < word.n;) {
        size_t to = s->lattice[at].from;
        int32_t id = s->lattice[at].id;
        while (id == u->unk && to < word.n && s->lattice[to].id == u->unk)
            to = s->lattice[to].from;
        TRY(id == u->unk ? push_unknown(u, e, text_part(word, at, to)) : push_token(e, id, word, at, to));
        at = to;
    }
    return 0;
}

int model_Unigram_run(const void *state, struct encoder *e, struct text word)
{
    return word.n ? word_cache_encode(e, word, encode_word, state) : 0;
}

void model_Unigram_hash(const void *state, struct hash_state *h)
{
    const struct unigram *u = state;
    hash_add(h, u->scores, u->n * sizeof *u->scores);
    hash_add(h, &u->unk, sizeof u->unk);
    hash_add(h, u->bytes, sizeof u->bytes);
}
