/* broadcast: a rank reads from the others' memory what they have and it has not. Before it everybody's values must be there, and behind it
 * nobody reads them any more: ranks wait at a gate. Ranks that are processes: cuda/peers/exchange.c. */
#include "cuda/peers/copies.cuh"

extern "C" {
#include "cuda/peers/exchange.h"
#include "cuda/peers/peers.h"
}

/* Where the others are only thought of. What one of them alone has stays as it is. */
static struct copied given_alone(const struct args_broadcast *a, const struct cuda_peers *p, int k)
{
    if (!a->chunk || k % p->n == p->me)
        return {};
    struct copied mine = shard_copied(&a->x, a->chunk, p->n, p->me);
    return copied_alone(&a->x, a->chunk, p->n, k, mine.to, mine.bytes);
}

extern "C" int cuda_broadcast_many(const struct args_broadcast *const *a, int n, const struct cuda_call *c)
{
    const struct cuda_peers *peers = c->peers;
    if (!peers)
        return SNUG_OK;
    if (!peers->joined) {
        launch_copies(a, n, 2 * peers->n, COPY_BLOCKS * c->sms, c,
                      [&](const struct args_broadcast *node, int k) { return given_alone(node, peers, k); });
        return cuda_launched(c, "broadcast");
    }
    if (peers->nccl)
        return cuda_send_broadcast(a, n, c);
    TRY(cuda_gate(c));
    launch_copies(a, n, peers->n, COPY_BLOCKS * c->sms, c, [&](const struct args_broadcast *node, int i) {
        int k = cuda_peer_behind(peers, i);
        struct copied x = {nullptr, (char *)node->x.data, dtype_bytes(node->x.dtype, tensor_room(&node->x))};
        if (node->chunk)
            x = shard_copied(&node->x, node->chunk, peers->n, k);
        x.from = peers->arena[k] + (x.to - peers->arena[peers->me]);
        x.bytes = k != peers->me && (node->chunk || node->from == k + 1) ? x.bytes : 0;
        return x;
    });
    TRY(cuda_launched(c, "broadcast"));
    return cuda_gate(c);
}

extern "C" int cuda_broadcast(const struct args_broadcast *a, const struct cuda_call *c)
{
    return cuda_broadcast_many(&a, 1, c);
}
