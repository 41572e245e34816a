/* pull: a rank reads from another's memory what that one alone has, which does not change meanwhile: nobody waits. By a kernel, for which
 * the driver needs nothing of the other device. Bound by the links between devices. */
#include "cuda/kernels/many.cuh"

extern "C" {
#include "cuda/nccl/exchange.h"
#include "cuda/peers/peers.h"
}

enum { THREADS = 256, WORDS = 4, PER_MULTIPROCESSOR = 4, CHUNK = THREADS * WORDS };

struct pull_row {
    const char *from;
    char *to;
    int64_t words;
    int word_bytes;
};

struct pull_head {
};

using pull_table = many<pull_head, pull_row>;

template <class Word> __device__ static void copy_chunk(const pull_row &row, int64_t first)
{
    Word word[WORDS];
    int64_t from = first + (int)threadIdx.x;
#pragma unroll
    for (int w = 0; w < WORDS; w++)
        if (from + w * THREADS < row.words)
            word[w] = ((const Word *)row.from)[from + w * THREADS];
#pragma unroll
    for (int w = 0; w < WORDS; w++)
        if (from + w * THREADS < row.words)
            ((Word *)row.to)[from + w * THREADS] = word[w];
}

__global__ static void __launch_bounds__(THREADS) pull_kernel(const __grid_constant__ pull_table t)
{
    for (int c = (int)blockIdx.x; c < t.chunks; c += (int)gridDim.x) {
        int r = find_row(t, c);
        const pull_row &row = t.row[r];
        int64_t first = (int64_t)(c - t.first[r]) * CHUNK;
        if (row.word_bytes == 16)
            copy_chunk<uint4>(row, first);
        else
            copy_chunk<uint16_t>(row, first);
    }
}

extern "C" int cuda_pull_many(const struct args_pull *const *a, int n, const struct cuda_call *c)
{
    pull_table t;
    const struct cuda_peers *p = c->peers;
    bool sent = p->joined && p->nccl; /* by the process that has it */
    launch_many(
        &t, a, n,
        [&](pull_row *row, const struct args_pull *node) {
            int64_t bytes = dtype_bytes(node->y.dtype, tensor_room(&node->y));
            row->from = (const char *)node->x.data;
            row->to = (char *)node->y.data;
            /* a slice of a weight begins at any of its rows */
            row->word_bytes = (((uintptr_t)row->from | (uintptr_t)row->to | (size_t)bytes) % 16) == 0 ? 16 : 2;
            row->words = bytes / row->word_bytes;
            return sent && node->from != p->me + 1 ? 0 : chunks_of(row->words, CHUNK);
        },
        [&](const pull_table &table) {
            pull_kernel<<<resident_blocks(table.chunks, PER_MULTIPROCESSOR, c), THREADS, 0, c->stream>>>(table);
        });
    int code = cuda_launched(c, "pull");
    return code || !sent ? code : cuda_nccl_pull(a, n, c);
}

extern "C" int cuda_pull(const struct args_pull *a, const struct cuda_call *c)
{
    return cuda_pull_many(&a, 1, c);
}
