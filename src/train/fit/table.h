/* table.h: what `snug plan --memory-budget` shows: the ways that fit, and what changes of the mathematics would give. */
#ifndef TRAIN_FIT_TABLE_H
#define TRAIN_FIT_TABLE_H

#include "base/str.h"
#include "train/fit/offers.h"
#include "train/fit/ways.h"

struct fit_table {
    int64_t limit, besides_bytes;
    struct ways ways;
    struct offers offers;
};

void table_free(struct fit_table *t); /* NULL is fine */

/* Nothing where the session has no table. */
void table_text(const struct session *s, struct str *out);
void table_json(const struct session *s, struct str *out); /* members, with a comma behind */

#endif
