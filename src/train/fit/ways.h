/* ways.h: the ways to run a step that was asked for in the memory that there is: how its rows are cut into micro-batches, what is
 * computed again, what else gives up time for room. All have the same mathematics. */
#ifndef TRAIN_FIT_WAYS_H
#define TRAIN_FIT_WAYS_H

#include "train/session/session.h"

struct way {
    int64_t rows, times; /* of a micro-batch, and how many make a step */
    struct choices choices;
    struct recompute_set *recompute; /* that choices points to; NULL: none */
    int layers;                      /* of which something is computed again */
    bool fits;
    int64_t bytes;      /* of the arena, */
    int64_t host_bytes; /* and in the host's memory, of what is offloaded */
    double seconds;     /* of a step, by rates (search/rates.h) */
};

enum { WAYS_MOST = 64 };

struct ways {
    struct way of[WAYS_MOST];
    int n;
};

/* Whether options leave it open how a step is cut: they ask for that, or there is a budget, or a GPU to plan for, and no number of
 * micro-batches. */
bool ways_may_cut(const struct options *o);
/* Whether nothing that the options say keeps a way from being taken: neither the cut nor what is computed again. */
bool ways_are_all(const struct options *o);
/* Whether there is more than one way. */
bool ways_are_open(const struct session *s);

/* The best way with an arena of at most `limit` bytes, and at most `host` bytes offloaded, for each size of micro-batches that cuts a
 * step: what was asked for, if that fits as it is; then those that fit, the fastest first; then the others. Rates are not measured, so
 * that another run chooses the same. ways_free also after a failure. */
int ways_find(const struct session *s, int64_t limit, int64_t host, struct ways *ways, struct snug_err *err);
const struct way *ways_least(const struct ways *ways); /* of the least bytes */
void ways_free(struct ways *ways);

#endif
