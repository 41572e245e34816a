/* add_slots: this rank's part of a sum, of what the others have, in F32, rounded once. Bound by memory: it reads `ranks` times what it
 * writes. */
#include "cuda/kernels/many.cuh"

extern "C" {
#include "cuda/nccl/exchange.h"
#include "cuda/peers/peers.h"
}

enum { THREADS = 256, PACKS = 4, PER_MULTIPROCESSOR = 4, PACK_BYTES = 16, CHUNK_BYTES = THREADS * PACKS * PACK_BYTES };

struct slots_head {
    const char *slots;
    int64_t slot;
    int me, ranks;
};

struct slots_row {
    char *mine;
    int64_t there, bytes;
    uint8_t dtype;
};

using slots_table = many<slots_head, slots_row>;

/* Whole packs: values begin at multiples of them, and what follows a tensor up to the next one is nobody's. */
template <class T> __device__ static void add_chunk(const slots_head &h, const slots_row &row, int64_t from)
{
    float sum[PACKS][pack_width<T>] = {};
    int64_t first = from + (int)threadIdx.x * PACK_BYTES;
    for (int k = 0; k < h.ranks; k++) {
        const char *of = k == h.me ? row.mine : h.slots + (k < h.me ? k : k - 1) * h.slot + row.there;
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int64_t i = first + p * THREADS * PACK_BYTES;
            float x[pack_width<T>];
            if (i >= row.bytes)
                break;
            load_floats(x, (const T *)(of + i));
#pragma unroll
            for (int j = 0; j < pack_width<T>; j++)
                sum[p][j] = k ? sum[p][j] + x[j] : x[j]; /* not 0 + -0 */
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        int64_t i = first + p * THREADS * PACK_BYTES;
        if (i >= row.bytes)
            break;
        store_floats((T *)(row.mine + i), sum[p]);
    }
}

__global__ static void __launch_bounds__(THREADS) add_slots_kernel(const __grid_constant__ slots_table t)
{
    for (int c = (int)blockIdx.x; c < t.chunks; c += (int)gridDim.x) {
        int r = find_row(t, c);
        WITH_FLOAT_TYPE(t.row[r].dtype, T, add_chunk<T>(t.head, t.row[r], (int64_t)(c - t.first[r]) * CHUNK_BYTES));
    }
}

extern "C" int cuda_add_slots(const struct cuda_sum *const *pieces, int n, const char *slots, int64_t slot,
                              const struct cuda_call *c)
{
    slots_table t;
    t.head.slots = slots;
    t.head.slot = slot;
    t.head.me = c->peers->me;
    t.head.ranks = c->peers->n;
    launch_many(
        &t, pieces, n,
        [](slots_row *row, const struct cuda_sum *piece) {
            row->mine = piece->mine;
            row->there = piece->there;
            row->bytes = piece->bytes;
            row->dtype = (uint8_t)piece->type;
            return chunks_of(piece->bytes, CHUNK_BYTES);
        },
        [&](const slots_table &table) {
            add_slots_kernel<<<resident_blocks(table.chunks, PER_MULTIPROCESSOR, c), THREADS, 0, c->stream>>>(table);
        });
    return cuda_launched(c, "all_reduce");
}
