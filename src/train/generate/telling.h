/* telling.h: the text of tokens that become more, in pieces that together are what decoding all of them gives. */
#ifndef TRAIN_GENERATE_TELLING_H
#define TRAIN_GENERATE_TELLING_H

#include "base/str.h"
#include "tokenizer/tokenizer.h"

/* A tokenizer's text of a token depends on its neighbours: blanks at the beginning, characters that are spread over several tokens. So
 * tokens are decoded together with those before them, but not from the first one on: [from, settled) are enough, whose text ends with
 * a whole character. Zero at the start. */
struct telling {
    int64_t from, settled;
    int64_t whole; /* tokens of which all text is told, and ends with a whole character; 0: it does not */
    int64_t seen;  /* tokens that `open` takes into account */
    bool begun;    /* the prompt's text is known */
    bool open;     /* the last token with a text is a byte of its own, which others may join */
    /* With fewer tokens than these nothing is decoded: a long text that ends with a broken character is not decoded at
     * each token. */
    int64_t retry;
    size_t told;     /* bytes of the text of [from, …) */
    struct str text; /* of [from, n) */
};

/* The text that has become certain: `ids` has n tokens, of which the first n_prompt are not told. ended: there will be no others. *piece
 * lives until the next call. */
int telling_next(struct telling *t, const struct tokenizer *tokenizer, const int32_t *ids, int64_t n_prompt, int64_t n,
                 bool ended, const char **piece, size_t *bytes, struct snug_err *err);

/* Also before other tokens. */
void telling_free(struct telling *t);

#endif
