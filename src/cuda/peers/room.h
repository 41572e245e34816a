/* room.h: the workspace of a sum over ranks. A rank makes a part of the sum, and has a slot for that part of each other rank's tensor. */
#ifndef CUDA_PEERS_ROOM_H
#define CUDA_PEERS_ROOM_H

#include "base/dtype.h"
#include "graph/op.h"

/* EXCHANGE_ROUND: of all tensors, bytes that are added up at once. */
enum { EXCHANGE_ALIGN = 256, EXCHANGE_ROUND = 256 << 20 };

static inline int64_t exchange_round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* The most bytes of a slot. */
static inline int64_t exchange_slot_most(int ranks)
{
    return exchange_round_up(EXCHANGE_ROUND / ranks, EXCHANGE_ALIGN);
}

/* Of one slot, for a tensor of so many bytes, of which each rank makes a part of whole chunks of so many bytes. */
static inline int64_t exchange_slot(int ranks, int64_t slot_most, int64_t bytes, int64_t chunk_bytes)
{
    int64_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
    int64_t slot = exchange_round_up((chunks + ranks - 1) / ranks * chunk_bytes, EXCHANGE_ALIGN);
    return slot < slot_most ? slot : slot_most;
}

/* Bytes of a chunk of so many elements; 1 where it has none. */
static inline int64_t exchange_chunk(enum dtype type, int64_t chunk)
{
    return chunk ? dtype_bytes(type, chunk) : 1;
}

/* Bytes of workspace that a node wants; and that are enough for all nodes of a launch. */
static inline int64_t exchange_room(int ranks, int64_t slot_most, enum op op, const union args_any *args)
{
    const struct tensor *g = &args->all_reduce.g;
    int64_t bytes = op == OP_all_reduce && ranks > 1 ? dtype_bytes(g->dtype, tensor_elements(g)) : 0;
    int64_t chunk_bytes = bytes ? exchange_chunk(g->dtype, args->all_reduce.chunk) : 1;
    return bytes ? (ranks - 1) * exchange_slot(ranks, slot_most, bytes, chunk_bytes) : 0;
}

static inline int64_t exchange_room_most(int ranks, int64_t slot_most)
{
    return (ranks - 1) * slot_most;
}

#endif
