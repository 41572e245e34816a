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

extern "C" int cuda_pull_many(const struct args_pull *const *a, int n, const struct cuda_call *c)
{
    const struct cuda_peers *p = c->peers;
    bool sent = p && p->joined && p->nccl; /* by the process that has it */
    launch_copies(a, n, PULL_BLOCKS, c, [&](copy_row *row, const struct args_pull *node) {
        int64_t bytes = dtype_bytes(node->y.dtype, tensor_room(&node->y));
        *row = copy_row_of((const char *)node->x.data, (char *)node->y.data, bytes);
        return !sent || node->from == p->me + 1;
    });
    int code = cuda_launched(c, "pull");
    return code || !sent ? code : cuda_send_pull(a, n, c);
}

extern "C" int cuda_pull(const struct args_pull *a, const struct cuda_call *c)
{
    return cuda_pull_many(&a, 1, c);
}
