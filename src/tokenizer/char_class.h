/* char_class.h: sets of code points as the tokenizers library has them, beside the flags of unicode.h (see class_tables.py). */
#ifndef TOKENIZER_CHAR_CLASS_H
#define TOKENIZER_CHAR_CLASS_H

#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct char_range {
    uint32_t first, last;
};

enum char_class {
    CLASS_NUMERIC,   /* Digits */
    CLASS_ACCENT,    /* removed by StripAccents */
    CLASS_COMPAT,    /* has a compatibility decomposition */
    CLASS_EXTENDERS, /* one grapheme cluster with the character before it */
};
bool char_in_class(uint32_t c, enum char_class class);

/* What a general category ("Lu"), or all that begin with a letter ("L"), has beyond Unicode 14: the k-th range, NULL after the last. */
const struct char_range *char_newer(const char *category, size_t k);

struct hash128 char_class_hash(void); /* changes when the tables do */

#endif
