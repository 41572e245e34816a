/* broadcast: a rank reads from the others' memory what they have and it has not. Before it everybody's values must be there, and behind it
 * nobody reads them any more: ranks wait at a gate. Ranks that are processes: cuda/peers/exchange.c. */
#include "cuda/peers/copies.cuh"

extern "C" {
#include "cuda/peers/exchange.h"
#include "cuda/peers/peers.h"
}

extern "C" int cuda_broadcast_many(const struct args_broadcast *const *a, int n, const struct cuda_call *c)
{
    const struct cuda_peers *peers = c->peers;
    if (!peers || !peers->joined)
        return SNUG_OK;
    if (peers->nccl)
        return cuda_send_broadcast(a, n, c);
    TRY(cuda_gate(c));
    launch_copies(a, n, COPY_BLOCKS * c->sms, c, [&](copy_row *row, const struct args_broadcast *node) {
        int64_t at = (char *)node->x.data - peers->arena[peers->me];
        int64_t bytes = dtype_bytes(node->x.dtype, tensor_room(&node->x));
        *row = copy_row_of(peers->arena[node->from - 1] + at, (char *)node->x.data, bytes);
        return node->from - 1 != peers->me;
    });
    TRY(cuda_launched(c, "broadcast"));
    return cuda_gate(c);
}

extern "C" int cuda_broadcast(const struct args_broadcast *a, const struct cuda_call *c)
{
    return cuda_broadcast_many(&a, 1, c);
}
