/* ranks.h: ranks that compute side by side, each with a copy of the model, and exchange what they have. All of them make the same calls in
 * the same order. They are threads of one process (ranks_open), or processes (ranks/processes.h), of one machine or several: what computes
 * with them need not know which. */
#ifndef RANKS_RANKS_H
#define RANKS_RANKS_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct ranks;

/* One of them, 0 <= me < n; what it computes with knows no other. */
struct rank {
    struct ranks *all;
    int me, n;
};

int ranks_open(int n, struct ranks **out, struct snug_err *err); /* threads */
void ranks_close(struct ranks *all);                             /* NULL: does nothing */

/* ---- Exchange. Waits until all ranks are here. Where one has left, nobody may wait any more: false, NULL or -1. ---- */

struct piece {
    void *data;
    size_t bytes;
};
/* out[k] goes to rank k, and in[k] comes from it, as many bytes as it sends; n pieces each. in[me] gets out[me]. */
bool ranks_exchange(const struct rank *r, const struct piece *out, const struct piece *in);
/* The first rank gets what each brought, in the order of ranks, valid until the exchange after the next; others get something that is not
 * NULL. `bytes`: of this rank's. */
void *const *ranks_gather(const struct rank *r, const void *brought, size_t bytes);
bool ranks_gather_all(const struct rank *r, const void *mine, size_t bytes,
                      void *all);                                 /* all: (n, bytes), on each rank */
bool ranks_share(const struct rank *r, void *data, size_t bytes); /* the first one's, to all */
int ranks_any(const struct rank *r, bool yes);                    /* whether one of them says yes */

/* Ranks in one memory: gives what each brought, in the order of ranks; that is valid until the meeting after the next. */
bool ranks_share_memory(const struct rank *r);
void *const *ranks_meet(const struct rank *r, void *brought);
/* Of any kind: each rank's `data` becomes that of rank `from`. */
void ranks_take(const struct rank *r, int from, void *data, size_t bytes);

/* Of any kind: each rank's `data` becomes that of all: of the n elements of a tensor, with what lies behind them up to `room`, each has its
 * shard (ranks/shard.h). */
void ranks_spread(const struct rank *r, void *data, int64_t n, int64_t room, int64_t chunk, enum dtype type);

/* A sum of what all ranks have, for ranks without a common memory. Each rank makes its shard of the n elements: add(ctx, of, count, me) has
 * `count` elements of each rank, and leaves their sum in of[me]. The sum comes into everybody's `data` (0), or into that of rank `to` alone,
 * counted from 1, or stays with those who made it; of the others' then only what each has added up is lost. */
enum { RANKS_STAY = -1 };
typedef void ranks_add_fn(void *ctx, void *const *of, int64_t count, int me);
bool ranks_sum(const struct rank *r, void *data, int64_t n, int64_t chunk, size_t element_bytes, int to,
               ranks_add_fn *add, void *ctx);

/* ---- Leaving. ---- */

/* Of a rank that has failed, or was asked to stop: this exchange and all later ones end at once. What it says is for the others. */
void ranks_leave(const struct rank *r, int code, const char *why);
int ranks_left(struct ranks *all);      /* the first that did; -1: none */
int ranks_left_code(struct ranks *all); /* what that one said; SNUG_OK: none has */
/* Where one has: SNUG_ERR_PEER with the rank and what it said, or its SNUG_STOPPED. */
int ranks_failure(struct ranks *all, struct snug_err *err);
/* fn(ctx) is called when a rank leaves, on any thread: for those that wait elsewhere, such as on a GPU. One for all ranks. NULL: no longer;
 * after that it is not called, nor being called. */
typedef void ranks_ring_fn(void *ctx);
void ranks_ring(struct ranks *all, ranks_ring_fn *fn, void *ctx);

#endif
