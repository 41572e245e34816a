/* copies.cuh: a launch that copies tensors from the memory of other devices, or from elsewhere in that of its own. Bound by the links
 * between devices. It needs nothing of the other device's driver. */
#ifndef CUDA_PEERS_COPIES_CUH
#define CUDA_PEERS_COPIES_CUH

#include "cuda/kernels/many.cuh"

extern "C" {
#include "ranks/shard.h"
}

enum { COPY_THREADS = 1024, COPY_WORDS = 4, COPY_BLOCKS = 2, COPY_CHUNK = COPY_THREADS * COPY_WORDS };

struct copy_row {
    const char *from;
    char *to;
    int64_t words;
    int word_bytes;
};

struct copy_head {
};

using copy_table = many<copy_head, copy_row>;

template <class Word> __device__ static void copy_chunk(const copy_row &row, int64_t first)
{
    Word word[COPY_WORDS];
    int64_t from = first + (int)threadIdx.x;
#pragma unroll
    for (int w = 0; w < COPY_WORDS; w++)
        if (from + w * COPY_THREADS < row.words)
            word[w] = ((const Word *)row.from)[from + w * COPY_THREADS];
#pragma unroll
    for (int w = 0; w < COPY_WORDS; w++)
        if (from + w * COPY_THREADS < row.words)
            ((Word *)row.to)[from + w * COPY_THREADS] = word[w];
}

/* What is written is there for all devices when the launch is over. */
__global__ static void __launch_bounds__(COPY_THREADS) copies_kernel(const __grid_constant__ copy_table t)
{
    for (int c = (int)blockIdx.x; c < t.chunks; c += (int)gridDim.x) {
        int r = find_row(t, c);
        const copy_row &row = t.row[r];
        int64_t first = (int64_t)(c - t.first[r]) * COPY_CHUNK;
        if (row.word_bytes == 16)
            copy_chunk<uint4>(row, first);
        else if (row.word_bytes == 8)
            copy_chunk<uint2>(row, first);
        else if (row.word_bytes == 2)
            copy_chunk<uint16_t>(row, first);
        else
            copy_chunk<uint8_t>(row, first);
    }
    __threadfence_system();
}

/* In the largest words of which both places and the size are whole numbers: a slice begins anywhere. */
static inline copy_row copy_row_of(const char *from, char *to, int64_t bytes)
{
    uintptr_t all = (uintptr_t)from | (uintptr_t)to | (uintptr_t)bytes;
    int word = all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 2 == 0 ? 2 : 1;
    return {from, to, bytes / word, word};
}

/* What is copied from one rank's memory: a tensor, or that rank's shard of it. */
struct copied {
    const char *from;
    char *to;
    int64_t bytes;
};

/* At most `blocks`, each of which takes most of a multiprocessor. describe(a[i], k): what comes from rank k of n; 0 bytes: nothing. */
template <class Args, class Describe>
static inline void launch_copies(const Args *const *a, int n, int ranks, int blocks, const struct cuda_call *c,
                                 Describe describe)
{
    copy_table t;
    struct copied some[copy_table::max_rows];
    const struct copied *list[copy_table::max_rows];
    int have = 0;
    auto launch = [&]() {
        launch_many(
            &t, list, have,
            [](copy_row *row, const struct copied *x) {
                *row = copy_row_of(x->from, x->to, x->bytes);
                return chunks_of(row->words, COPY_CHUNK);
            },
            [&](const copy_table &table) {
                int grid = table.chunks < blocks ? table.chunks : blocks;
                copies_kernel<<<grid, COPY_THREADS, 0, c->stream>>>(table);
            });
        have = 0;
    };
    for (int i = 0; i < n; i++)
        for (int k = 0; k < ranks; k++) {
            some[have] = describe(a[i], k);
            list[have] = &some[have];
            have += some[have].bytes > 0;
            if (have == copy_table::max_rows)
                launch();
        }
    launch();
}

/* To where rank k's shard lies in a tensor; from where is for the caller to say. */
static inline struct copied shard_copied(const struct tensor *t, int64_t chunk, int ranks, int k)
{
    struct shard s = shard_of_room(tensor_elements(t), tensor_room(t), chunk, ranks, k);
    return {nullptr, (char *)t->data + dtype_bytes(t->dtype, s.first), dtype_bytes(t->dtype, s.n)};
}

/* Where the others are only thought of, as in a rehearsal: what a shard of theirs is filled with, so that nobody reads what is no number.
 * Of k < 2 * ranks, rank k % ranks' shard: as much as `bytes` at `from` are, this rank's own shard; then the chunk that it may have more. */
static inline struct copied copied_alone(const struct tensor *t, int64_t chunk, int ranks, int k, const void *from,
                                         int64_t bytes)
{
    struct copied x = shard_copied(t, chunk, ranks, k % ranks);
    int64_t first = x.bytes < bytes ? x.bytes : bytes, rest = x.bytes - first;
    x.from = (const char *)from;
    x.to += k < ranks ? 0 : first;
    x.bytes = k < ranks ? first : rest < bytes ? rest : bytes;
    return x;
}

#endif
