/* exchange.h: what ranks that are processes exchange between their GPUs. */
#ifndef CUDA_NCCL_EXCHANGE_H
#define CUDA_NCCL_EXCHANGE_H

#include "cuda/kernels.h"

/* As cuda_all_reduce_many and cuda_broadcast_many, of ranks that have joined. */
int cuda_nccl_all_reduce(const struct args_all_reduce *const *a, int n, const struct cuda_call *c);
int cuda_nccl_broadcast(const struct args_broadcast *const *a, int n, const struct cuda_call *c);
/* y = that of rank `from`, which has copied x there. */
int cuda_nccl_pull(const struct args_pull *const *a, int n, const struct cuda_call *c);

/* Bytes of workspace that a node wants; that are enough for all nodes of a launch; and of what is added up, that one rank may have on their
 * way to another at once: a multiple of 256. */
int64_t cuda_nccl_room(const struct cuda_peers *p, enum op op, const union args_any *args);
int64_t cuda_nccl_room_most(const struct cuda_peers *p);
int64_t cuda_nccl_slot_most(int ranks);

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
