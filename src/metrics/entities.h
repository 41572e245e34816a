/* entities.h: stretches of words that tags such as B-PER and I-PER name, counted as the library seqeval does in its default
 * mode (Ramshaw and Marcus, cmp-lg/9505040, as CoNLL's conlleval reads them). */
#ifndef METRICS_ENTITIES_H
#define METRICS_ENTITIES_H

#include "metrics/metrics.h"

/* A tag: its first character, and which type the rest names. */
struct tag {
    uint32_t mark; /* a code point: 'B', 'I', 'E', 'S', 'O', or any other */
    int32_t type;  /* an index of the types; negative: that of O, which no other tag names */
};

/* The types of `n` labels, in the order of their names, into names (n), and the tag of each label into tags (n). Gives how many
 * types there are. */
int32_t entity_types(const char *const *labels, int32_t n, const char **names, struct tag *tags);

/* Adds the entities of a row's `n` words to the counts of the types: by `actual` tags, by `predicted` ones, and those that
 * are both. Words with a negative actual label are left out. */
void entities_count(const struct tag *tags, const int32_t *actual, const int32_t *predicted, int64_t n,
                    struct label_counts *types);

#endif
