/* word_cache.h: the ids of words that were seen not long ago. Text repeats its words, and looking one up is far less than
 * merging its characters. A table of fixed size, a place a word; the newest word takes the place. */
#ifndef TOKENIZER_WORD_CACHE_H
#define TOKENIZER_WORD_CACHE_H

#include "base/hash.h"

#include <stdbool.h>

enum { CACHE_WORDS = 1 << 14, CACHE_BYTES = 30, CACHE_IDS = 8 };

struct cached_word {
    uint8_t bytes, n_ids; /* bytes 0: nothing here */
    char word[CACHE_BYTES];
    int32_t ids[CACHE_IDS];
};
struct word_cache {
    struct hash128 owner; /* of the tokenizer whose ids these are */
    struct cached_word words[CACHE_WORDS];
};

struct encoder;
struct text;
typedef int encode_word_fn(const void *state, struct encoder *e, struct text word);

/* Appends the ids of a word to e->out->pieces: those that are kept, or what `encode` makes of it. Words and lists of ids that are too
 * long are not kept. */
int word_cache_encode(struct encoder *e, struct text word, encode_word_fn *encode, const void *state);

#endif
