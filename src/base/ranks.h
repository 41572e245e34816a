/* ranks.h: ranks that are threads of one process, each with a copy of the model. They meet to exchange what they have: all of them come to
 * each meeting, and to all meetings in the same order. */
#ifndef BASE_RANKS_H
#define BASE_RANKS_H

#include "base/err.h"

#include <stdbool.h>

struct ranks;

/* One of them, 0 <= me < n; what it computes with knows no other. */
struct rank {
    struct ranks *all;
    int me, n;
};

int ranks_open(int n, struct ranks **out, struct snug_err *err);
void ranks_close(struct ranks *all); /* NULL: does nothing */

/* Waits until all ranks are here. Gives what each brought, in the order of ranks; that is valid until the meeting after the next. NULL: a
 * rank has left, so nobody may wait for it any more. */
void *const *ranks_meet(const struct rank *r, void *brought);

/* The first rank gets what each brought, in the order of ranks, valid until the meeting after the next; others get something that is not
 * NULL. `bytes`: of this rank's. NULL: a rank has left. */
void *const *ranks_gather(const struct rank *r, const void *brought, size_t bytes);
/* Whether any rank says yes: -1 where one has left. */
int ranks_any(const struct rank *r, bool yes);

/* Of a rank that has failed: this meeting and all later ones end at once. */
void ranks_leave(const struct rank *r);
int ranks_left(struct ranks *all); /* the first that did; -1: none */
/* *bell becomes 1 when a rank leaves: for those that wait elsewhere, such as on a GPU. One for all ranks, which ends after them. */
void ranks_ring(struct ranks *all, volatile int *bell);

#endif
