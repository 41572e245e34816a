/* exchange.h: sums over ranks, and what processes send each other, by whichever transport they have. */
#ifndef CUDA_PEERS_EXCHANGE_H
#define CUDA_PEERS_EXCHANGE_H

#include "cuda/kernels.h"

/* As cuda_broadcast_many, of processes that have joined. */
int cuda_send_broadcast(const struct args_broadcast *const *a, int n, const struct cuda_call *c);
/* y = that of process `from`, which has copied x there. */
int cuda_send_pull(const struct args_pull *const *a, int n, const struct cuda_call *c);

/* A piece of a tensor, of whole packs of 16 bytes, with what the other ranks have of it: `there` bytes behind the beginning of each of
 * their slots. */
struct cuda_sum {
    char *mine;
    int64_t there, bytes;
    enum dtype type;
};

/* Adds up n pieces, each in the order of ranks, into the own one. `slots`: one for each other rank, in their order, `slot` bytes apart. */
int cuda_add_slots(const struct cuda_sum *const *pieces, int n, const char *slots, int64_t slot,
                   const struct cuda_call *c);

#endif
