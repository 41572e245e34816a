/* table.h: what `snug plan --memory-budget` shows: the ways that fit, and what changes of the mathematics would give. */
#ifndef TRAIN_FIT_TABLE_H
#define TRAIN_FIT_TABLE_H

#include "base/str.h"
#include "train/fit/ways.h"

/* A run with another precision, optimizer or adapter, in the way that fits and is fastest; if none fits, in the smallest. */
struct offer {
    const char *options;
    bool fits;
    int64_t rows, times, bytes, besides_bytes; /* as in struct way; besides: as in needs_bytes, without the arena */
    double seconds;
};

enum { OFFERS_MOST = 4 };

struct fit_table {
    int64_t limit, besides_bytes;
    struct ways ways;
    struct offer offers[OFFERS_MOST];
    int n_offers;
};

/* Adds the offers to a table with ways. */
int table_offers(const struct session *s, const struct choices *asked, struct fit_table *t, struct snug_err *err);
void table_free(struct fit_table *t); /* NULL is fine */

/* Nothing where the session has no table. */
void table_text(const struct session *s, struct str *out);
void table_json(const struct session *s, struct str *out); /* members, with a comma behind */

#endif
