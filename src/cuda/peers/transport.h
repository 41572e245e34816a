/* transport.h: how bytes get from a rank's device to those of the others, which have the same plan. */
#ifndef CUDA_PEERS_TRANSPORT_H
#define CUDA_PEERS_TRANSPORT_H

#include "cuda/kernels.h"

/* Where a rank has what the others send it to be added up: a workspace, with a slot of so many bytes for each of them, in their order. */
struct slots {
    char *at;
    int64_t bytes;
};

/* All return a code. */
struct transport {
    /* Around what goes at once. Behind the end it has arrived. parts: slots are written to, of which nothing is needed any more. */
    int (*begin)(const struct cuda_call *c, bool parts);
    int (*end)(const struct cuda_call *c);
    /* To `peer`: into this rank's slot there, `there` bytes behind its beginning; and to the same place of its arena. */
    int (*give_part)(const struct cuda_call *c, int peer, const struct slots *s, int64_t there, const char *at,
                     int64_t bytes);
    int (*give)(const struct cuda_call *c, int peer, const char *at, int64_t bytes);
    /* What `peer` gives: likewise. NULL: giving is enough. */
    int (*take_part)(const struct cuda_call *c, int peer, const struct slots *s, int64_t there, int64_t bytes);
    int (*take)(const struct cuda_call *c, int peer, char *at, int64_t bytes);
};

/* Of ranks in one process: copies into the memory of the other devices, by engines of their own, so that kernels go on beside them. */
extern const struct transport cuda_copies;

/* Of processes: NCCL. */
extern const struct transport cuda_over_nccl;

/* The place of a rank's slot at rank `of`. */
static inline int slot_of(int rank, int of)
{
    return rank < of ? rank : rank - 1;
}

#endif
