/* add_slots: this rank's part of a sum, of what the others have, in F32, rounded once. Bound by memory: it reads `ranks` times what it
 * writes. It runs beside products, whose blocks leave a multiprocessor 1024 registers and little shared memory: a block is one warp of 32
 * registers, which has room there. */
#include "cuda/kernels/many.cuh"

extern "C" {
#include "cuda/peers/exchange.h"
#include "cuda/peers/peers.h"
}

enum { THREADS = 32, PER_MULTIPROCESSOR = 32, PACK_BYTES = 16, TIMES = 4, CHUNK_BYTES = THREADS * PACK_BYTES * TIMES };

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
    int64_t end = from + CHUNK_BYTES < row.bytes ? from + CHUNK_BYTES : row.bytes;
#pragma unroll 1
    for (int64_t i = from + (int)threadIdx.x * PACK_BYTES; i < end; i += THREADS * PACK_BYTES) {
        float sum[pack_width<T>];
#pragma unroll 1
        for (int k = 0; k < h.ranks; k++) {
            const char *of = k == h.me ? row.mine : h.slots + (k < h.me ? k : k - 1) * h.slot + row.there;
            float x[pack_width<T>];
            load_floats(x, (const T *)(of + i));
#pragma unroll
            for (int j = 0; j < pack_width<T>; j++)
                sum[j] = k ? sum[j] + x[j] : x[j]; /* not 0 + -0 */
        }
        store_floats((T *)(row.mine + i), sum);
    }
}

__global__ static void __launch_bounds__(THREADS, PER_MULTIPROCESSOR)
    add_slots_kernel(const __grid_constant__ slots_table t)
{
    int r = find_row(t, (int)blockIdx.x);
    int64_t from = (int64_t)((int)blockIdx.x - t.first[r]) * CHUNK_BYTES;
    WITH_FLOAT_TYPE(t.row[r].dtype, T, add_chunk<T>(t.head, t.row[r], from));
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
        [&](const slots_table &table) { add_slots_kernel<<<(unsigned)table.chunks, THREADS, 0, c->stream>>>(table); });
    return cuda_launched(c, "all_reduce");
}
