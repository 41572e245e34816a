/* all_reduce: ranks add up their gradients by reading and writing each other's memory. Each rank's kernel takes an equal part of the chunks
 * of all tensors, adds that part in the order of ranks, in F32, and writes the sum to everybody: the bits do not depend on who comes when,
 * nor on the number of chunks. A sum that one rank alone wants is made by that one whole, and written there. Before it all gradients must
 * be there, and behind it all sums: ranks wait at a gate. Bound by the links between devices: a rank reads and writes (n - 1)/n of its
 * gradients' bytes over them. Ranks that are processes: cuda/nccl/exchange.c. */
#include "cuda/kernels/many.cuh"
#include "cuda/peers/gate.cuh"

extern "C" {
#include "cuda/nccl/exchange.h"
}

enum { THREADS = 256, PACKS = 4, PER_MULTIPROCESSOR = 4, PACK_BYTES = 16, CHUNK_BYTES = THREADS * PACKS * PACK_BYTES };

struct reduce_head {
    char *arena[CUDA_MAX_PEERS];
    int n;           /* of them */
    int part, parts; /* of all chunks, that are this rank's */
    int from, to;    /* whose gradients become the sum */
};

struct reduce_row {
    int64_t at, bytes; /* in each arena */
    uint8_t dtype;
};

using reduce_table = many<reduce_head, reduce_row>;

/* Whole packs: values begin at multiples of them, and what follows a tensor up to the next one is nobody's. */
template <class T> __device__ static void reduce_chunk(const reduce_table &t, const reduce_row &row, int64_t from)
{
    float sum[PACKS][pack_width<T>] = {};
    int64_t first = from + (int)threadIdx.x * PACK_BYTES;
    for (int k = 0; k < t.head.n; k++)
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int64_t i = first + p * THREADS * PACK_BYTES;
            float x[pack_width<T>];
            if (i >= row.bytes)
                break;
            load_floats(x, (const T *)(t.head.arena[k] + row.at + i));
#pragma unroll
            for (int j = 0; j < pack_width<T>; j++)
                sum[p][j] = k ? sum[p][j] + x[j] : x[j]; /* not 0 + -0 */
        }
    for (int k = t.head.from; k < t.head.to; k++)
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int64_t i = first + p * THREADS * PACK_BYTES;
            if (i >= row.bytes)
                break;
            store_floats((T *)(t.head.arena[k] + row.at + i), sum[p]);
        }
}

__global__ static void __launch_bounds__(THREADS) reduce_kernel(const __grid_constant__ reduce_table t)
{
    int first = (int)((int64_t)t.chunks * t.head.part / t.head.parts);
    int end = (int)((int64_t)t.chunks * (t.head.part + 1) / t.head.parts);
    for (int c = first + (int)blockIdx.x; c < end; c += (int)gridDim.x) {
        int r = find_row(t, c);
        WITH_FLOAT_TYPE(t.row[r].dtype, T, reduce_chunk<T>(t, t.row[r], (int64_t)(c - t.first[r]) * CHUNK_BYTES));
    }
    __threadfence_system();
}

extern "C" int cuda_all_reduce_many(const struct args_all_reduce *const *a, int n, const struct cuda_call *c)
{
    const struct cuda_peers *peers = c->peers;
    if (!peers || !peers->joined)
        return SNUG_OK;
    if (peers->nccl)
        return cuda_nccl_all_reduce(a, n, c);
    reduce_table t;
    bool one = a[0]->to > 0; /* and so those that follow */
    t.head.n = peers->n;
    t.head.part = one ? 0 : peers->me;
    t.head.parts = one ? 1 : peers->n;
    t.head.from = one ? peers->me : 0;
    t.head.to = one ? peers->me + 1 : peers->n;
    for (int k = 0; k < peers->n; k++)
        t.head.arena[k] = peers->arena[k];
    launch_gate(c);
    launch_many(
        &t, a, n,
        [&](reduce_row *row, const struct args_all_reduce *node) {
            const struct tensor *g = &node->g;
            row->at = (char *)g->data - peers->arena[peers->me];
            row->bytes = dtype_bytes(g->dtype, tensor_elements(g));
            row->dtype = (uint8_t)g->dtype;
            return one && node->to != peers->me + 1 ? 0 : chunks_of(row->bytes, CHUNK_BYTES);
        },
        [&](const reduce_table &table) {
            reduce_kernel<<<resident_blocks((table.chunks + table.head.parts - 1) / table.head.parts,
                                            PER_MULTIPROCESSOR, c),
                            THREADS, 0, c->stream>>>(table);
        });
    launch_gate(c);
    return cuda_launched(c, "all_reduce");
}

extern "C" int cuda_all_reduce(const struct args_all_reduce *a, const struct cuda_call *c)
{
    return cuda_all_reduce_many(&a, 1, c);
}
