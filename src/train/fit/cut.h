/* cut.h: --auto-find-batch-size. */
#ifndef TRAIN_FIT_CUT_H
#define TRAIN_FIT_CUT_H

#include "train/session/session.h"

/* A way to run the steps that were asked for: micro-batches and what of the choices saves time, with what fits then. */
struct cut {
    int64_t rows, times; /* of a micro-batch, and how many make a step */
    struct choices choices;
    struct recompute_set *recompute; /* that choices points to; NULL: none */
    bool fits;
    int64_t bytes;  /* of the arena */
    double seconds; /* of a step, by rates (search/rates.h) */
};

enum { CUTS_MOST = 64 };

/* The ways with an arena of at most `limit` bytes, one for each size of micro-batches that cuts those asked for, the fastest first; then
 * those that do not fit. Rates are not measured, so that another run chooses the same. cuts_free also after a failure. */
int cuts_find(const struct session *s, int64_t limit, struct cut cuts[CUTS_MOST], int *n, struct snug_err *err);
void cuts_free(struct cut *cuts, int n);

#endif
