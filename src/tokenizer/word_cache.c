#include "tokenizer/word_cache.h"

#include "base/mem.h"
#include "tokenizer/steps/step.h"

#include <string.h>

/* The place for a word, with the word in it or another one; NULL: too long, or memory is out, which costs time only. */
static struct cached_word *find_place(struct encoder *e, struct text word)
{
    struct word_cache **c = &e->s->words;
    if (word.n == 0 || word.n > CACHE_BYTES || (!*c && !(*c = mem_alloc(sizeof **c))))
        return NULL;
    const struct hash128 *owner = &e->t->hash;
    if ((*c)->owner.high != owner->high || (*c)->owner.low != owner->low) {
        memset(*c, 0, sizeof **c);
        (*c)->owner = *owner;
    }
    return &(*c)->words[hash_bytes(word.s, word.n).low & (CACHE_WORDS - 1)];
}

int word_cache_encode(struct encoder *e, struct text word, encode_word_fn *encode, const void *state)
{
    struct cached_word *c = e->placed ? NULL : find_place(e, word); /* it does not keep where tokens end */
    struct token_buf *out = e->out;
    if (c && c->bytes == word.n && !memcmp(c->word, word.s, word.n)) {
        for (int i = 0; i < c->n_ids; i++)
            TRY(push_piece(out, c->ids[i], e->err));
        return 0;
    }
    size_t before = out->n_pieces;
    TRY(encode(state, e, word));
    size_t n = out->n_pieces - before;
    if (!c || n > CACHE_IDS)
        return 0;
    c->bytes = (uint8_t)word.n;
    c->n_ids = (uint8_t)n;
    memcpy(c->word, word.s, word.n);
    if (n)
        memcpy(c->ids, out->pieces + before, n * sizeof *c->ids);
    return 0;
}
