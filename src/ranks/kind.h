/* kind.h: what kinds of ranks are made of. */
#ifndef RANKS_KIND_H
#define RANKS_KIND_H

#include "ranks/ranks.h"

#include <pthread.h>

struct ranks_kind {
    bool (*exchange)(const struct rank *r, const struct piece *out, const struct piece *in);
    void (*tell)(struct ranks *all, int who); /* that `who` has left, as `all` says; to ranks elsewhere */
    void (*close)(struct ranks *all);
};

struct ranks {
    const struct ranks_kind *kind;
    int n;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int left, left_code; /* as ranks_left */
    char why[SNUG_ERR_TEXT];
    pthread_mutex_t bell; /* guards who is rung, and is held meanwhile */
    ranks_ring_fn *ring;  /* NULL: nobody */
    void *ring_ctx;
    /* What was gathered: of this exchange, and of the one before, which others may still be looking at. */
    struct piece *gathered[2]; /* (n), whose data are mem_free'd */
    void **parts[2];           /* (n) */
    unsigned gatherings;
    char *scratch; /* of ranks_sum */
    size_t scratch_bytes;
};

int ranks_init(struct ranks *all, const struct ranks_kind *kind, int n, struct snug_err *err);
void ranks_end(struct ranks *all);
/* The first that leaves is remembered; its kind tells others of it where `tell` is true. */
void ranks_lose(struct ranks *all, int who, int code, const char *why, bool tell);

#endif
