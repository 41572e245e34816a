/* broadcast: a rank reads from the others' memory what they have and it has not. Before it everybody's values must be there, and behind it
 * nobody reads them any more: ranks wait at a gate. Bound by the links between devices. Ranks that are processes: cuda/nccl/exchange.c. */
#include "cuda/kernels/many.cuh"
#include "cuda/peers/gate.cuh"

extern "C" {
#include "cuda/nccl/exchange.h"
}

enum { THREADS = 256, WORDS = 4, PER_MULTIPROCESSOR = 4, CHUNK = THREADS * WORDS };

struct broadcast_row {
    const char *from;
    char *to;
    int64_t words;
    int word_bytes;
};

struct broadcast_head {
};

using broadcast_table = many<broadcast_head, broadcast_row>;

template <class Word> __device__ static void copy_chunk(const broadcast_row &row, int64_t first)
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

__global__ static void __launch_bounds__(THREADS) broadcast_kernel(const __grid_constant__ broadcast_table t)
{
    for (int c = (int)blockIdx.x; c < t.chunks; c += (int)gridDim.x) {
        const broadcast_row &row = t.row[find_row(t, c)];
        int64_t first = (int64_t)(c - t.first[find_row(t, c)]) * CHUNK;
        if (row.word_bytes == 16)
            copy_chunk<uint4>(row, first);
        else if (row.word_bytes == 8)
            copy_chunk<uint2>(row, first);
        else
            copy_chunk<uint8_t>(row, first);
    }
    __threadfence_system();
}

/* The largest words of which a place and a size are whole numbers. */
static int word_bytes(int64_t at, int64_t bytes)
{
    return (at | bytes) % 16 == 0 ? 16 : (at | bytes) % 8 == 0 ? 8 : 1;
}

extern "C" int cuda_broadcast_many(const struct args_broadcast *const *a, int n, const struct cuda_call *c)
{
    const struct cuda_peers *peers = c->peers;
    if (!peers->joined)
        return SNUG_OK;
    if (peers->nccl)
        return cuda_nccl_broadcast(a, n, c);
    broadcast_table t;
    launch_gate(c);
    launch_many(
        &t, a, n,
        [&](broadcast_row *row, const struct args_broadcast *node) {
            int64_t at = (char *)node->x.data - peers->arena[peers->me];
            int64_t bytes = dtype_bytes(node->x.dtype, tensor_room(&node->x));
            row->to = (char *)node->x.data;
            row->from = peers->arena[node->from - 1] + at;
            row->word_bytes = word_bytes(at, bytes);
            row->words = bytes / row->word_bytes;
            return node->from - 1 == peers->me ? 0 : chunks_of(row->words, CHUNK);
        },
        [&](const broadcast_table &table) {
            broadcast_kernel<<<resident_blocks(table.chunks, PER_MULTIPROCESSOR, c), THREADS, 0, c->stream>>>(table);
        });
    launch_gate(c);
    return cuda_launched(c, "broadcast");
}

extern "C" int cuda_broadcast(const struct args_broadcast *a, const struct cuda_call *c)
{
    return cuda_broadcast_many(&a, 1, c);
}
