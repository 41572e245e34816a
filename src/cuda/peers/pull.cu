/* pull: a rank reads from another's memory what that one alone has, which does not change meanwhile: nobody waits. By a kernel: copies out
 * of the other's memory would leave the multiprocessors alone, but with them two H100 stood still in their first step. Ranks that are
 * processes: cuda/peers/exchange.c. */
#include "cuda/peers/copies.cuh"

extern "C" {
#include "cuda/peers/exchange.h"
#include "cuda/peers/peers.h"
}

/* Enough for the links. A layer computes beside it, whose products get the other multiprocessors: with blocks on all of them BERT-large did
 * 464 samples/s on two H100 with 4 rows, with these 499. */
enum { PULL_BLOCKS = 24 };

/* From its owner, whose memory x is in; of processes the owner's own. */
static struct copied pulled(const struct args_pull *a, const struct cuda_peers *p, int k)
{
    bool here = a->from == k + 1 && (!p->nccl || k == p->me);
    return {(const char *)a->x.data, (char *)a->y.data, here ? dtype_bytes(a->y.dtype, tensor_room(&a->y)) : 0};
}

/* Each rank has its shard at the same place. */
static struct copied shard_pulled(const struct args_pull *a, const struct cuda_peers *p, int k)
{
    struct copied x = shard_copied(&a->y, a->chunk, p->n, k);
    x.from = k == p->me ? (const char *)a->x.data : p->arena[k] + ((char *)a->x.data - p->arena[p->me]);
    x.bytes = p->nccl && k != p->me ? 0 : x.bytes;
    return x;
}

/* Where the others are only thought of: as many bytes as there would be, of what is here. */
static struct copied pulled_alone(const struct args_pull *a, const struct cuda_peers *p, int k)
{
    int64_t here = dtype_bytes(a->x.dtype, tensor_room(&a->x)), all = dtype_bytes(a->y.dtype, tensor_room(&a->y));
    if (a->chunk)
        return copied_alone(&a->y, a->chunk, p->n, k, a->x.data, here);
    return {(const char *)a->x.data, (char *)a->y.data, k ? 0 : all < here ? all : here};
}

extern "C" int cuda_pull_many(const struct args_pull *const *a, int n, const struct cuda_call *c)
{
    const struct cuda_peers *p = c->peers;
    bool joined = p && p->joined, sent = joined && p->nccl; /* by the process that has it */
    int copies = !p ? 1 : joined ? p->n : 2 * p->n;         /* of each */
    launch_copies(a, n, copies, PULL_BLOCKS, c, [&](const struct args_pull *node, int i) {
        int k = joined ? cuda_peer_behind(p, i) : i;
        return !joined ? pulled_alone(node, p, k) : node->chunk ? shard_pulled(node, p, k) : pulled(node, p, k);
    });
    int code = cuda_launched(c, "pull");
    return code || !sent ? code : cuda_send_pull(a, n, c);
}

extern "C" int cuda_pull(const struct args_pull *a, const struct cuda_call *c)
{
    return cuda_pull_many(&a, 1, c);
}
