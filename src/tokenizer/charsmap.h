/* charsmap.h: the rules of normalization in a model of SentencePiece: what a text may begin with, and what takes its place. They are
 * a double-array trie (darts-clone) whose leaves are places in a text of replacements. */
#ifndef TOKENIZER_CHARSMAP_H
#define TOKENIZER_CHARSMAP_H

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

struct charsmap {
    uint32_t *units; /* (n) */
    size_t n;
    char *texts; /* (n_texts), each ends in a 0 byte, the last one too */
    size_t n_texts;
};

/* From base64, in memory of `a`. *good: it is what sentencepiece writes. */
int charsmap_read(struct charsmap *m, struct arena *a, const char *text, bool *good, struct snug_err *err);
/* The replacement of the shortest or longest rule that begins `s`, and how many bytes of it go; NULL: none. */
const char *charsmap_find(const struct charsmap *m, const char *s, size_t n, bool longest, size_t *length);

#endif
