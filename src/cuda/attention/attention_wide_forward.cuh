/* attention_wide_forward.cuh: the forward kernel for heads of 128 elements (attention_wide_sm90.cu), a block per 128 queries of a
 * head. A group makes the scores of a tile of 128 keys while the weights of the tile before are still multiplied with their values;
 * the two groups take turns, so that one's exponentials hide behind the other's products. */
#ifndef CUDA_ATTENTION_WIDE_FORWARD_CUH
#define CUDA_ATTENTION_WIDE_FORWARD_CUH

#include "cuda/attention/attention_forward.cuh"
#include "cuda/attention/attention_wide.cuh"

enum { FORWARD_STAGES = 2, FORWARD_BYTES = (1 + 2 * FORWARD_STAGES) * WIDE_BYTES + 1024 + 128 };

/* Where things are in shared memory: tiles, then barriers. Keys and values of a tile come and go by themselves. */
struct forward_places {
    uint32_t q, keys, values, q_full, keys_full, keys_empty, values_full, values_empty;
    __device__ explicit forward_places(uint32_t start)
    {
        q = start;
        keys = q + WIDE_BYTES;
        values = keys + FORWARD_STAGES * WIDE_BYTES;
        q_full = values + FORWARD_STAGES * WIDE_BYTES;
        keys_full = q_full + 8;
        keys_empty = keys_full + 8 * FORWARD_STAGES;
        values_full = keys_empty + 8 * FORWARD_STAGES;
        values_empty = values_full + 8 * FORWARD_STAGES;
    }
};

__device__ static inline void forward_barriers(const struct forward_places &at)
{
    if (threadIdx.x == 0) {
        barrier_init(at.q_full, 1);
        for (int s = 0; s < FORWARD_STAGES; s++) {
            barrier_init(at.keys_full + 8 * s, 1);
            barrier_init(at.values_full + 8 * s, 1);
            barrier_init(at.keys_empty + 8 * s, 128 * WIDE_GROUPS);
            barrier_init(at.values_empty + 8 * s, 128 * WIDE_GROUPS);
        }
    }
    barriers_made();
}

/* One thread. */
__device__ static inline void forward_load(const struct wide_params &w, const struct forward_places &at,
                                           struct block_rows rows, int head, struct span seen)
{
    int keys = keys_column(w.p, head), values = keys + w.p.kv_heads * WIDE;
    barrier_expect(at.q_full, WIDE_BYTES);
    wide_load<WIDE>(at.q, &w.qkv, head * WIDE, rows.first + rows.at, at.q_full);
    for (int t = seen.from; t < seen.end; t++) {
        uint32_t n = (uint32_t)(t - seen.from), s = n % FORWARD_STAGES, parity = (n / FORWARD_STAGES & 1) ^ 1;
        int row = rows.first + t * WIDE;
        barrier_wait(at.keys_empty + 8 * s, parity);
        barrier_expect(at.keys_full + 8 * s, WIDE_BYTES);
        wide_load<WIDE>(at.keys + s * WIDE_BYTES, &w.qkv, keys, row, at.keys_full + 8 * s);
        barrier_wait(at.values_empty + 8 * s, parity);
        barrier_expect(at.values_full + 8 * s, WIDE_BYTES);
        wide_load<WIDE>(at.values + s * WIDE_BYTES, &w.qkv, values, row, at.values_full + 8 * s);
    }
}

/* Barriers 4 and 5 of the block: the group's turn to start products. Each gives as often as the other waits. */
__device__ static inline void turn_wait(int group)
{
    asm volatile("bar.sync %0, 256;" ::"r"(4 + group) : "memory");
}

__device__ static inline void turn_give(int group)
{
    asm volatile("bar.arrive %0, 256;" ::"r"(4 + group) : "memory");
}

/* Output and log-sum-exp of a group's 64 queries. Longer than a screen, as attention_forward is. */
template <class T>
__device__ static inline void forward_group(const struct attention_params &p, const struct wide_shared &shared,
                                            struct block_rows rows, int head, struct span seen)
{
    using E = wgmma_engine<T>;
    struct forward_places at(shared.start);
    struct place me = my_place();
    int group = me.row0 / 64, i = rows.at + me.row0 + me.g, tiles = seen.end - seen.from;
    constexpr float NONE = -1e30f; /* a query may see nothing of its first tiles: finite */
    float acc[16][4] = {}, s[16][4], max[2] = {NONE, NONE}, sum[2] = {0, 0}, growth[2], sl = p.scale * LOG2E;
    struct wide_fragments<8> weights;
    auto stage = [](int n) { return (uint32_t)n % FORWARD_STAGES; };
    auto parity = [](int n) { return (uint32_t)n / FORWARD_STAGES & 1; };
    auto scores = [&](int n) {
        barrier_wait(at.keys_full + 8 * stage(n), parity(n));
        turn_wait(group);
        wide_scores<T>(s, at.q, 64 * group, at.keys + stage(n) * WIDE_BYTES);
    };
    auto multiply = [&](int n) {
        int there = rows.length - (seen.from + n) * WIDE;
        uint32_t values = at.values + stage(n) * WIDE_BYTES;
        barrier_wait(at.values_full + 8 * stage(n), parity(n));
        if (there < WIDE)
            wide_clear_rows<WIDE>(shared.at(values), there), wide_cleared(group);
        wide_add_product<T>(acc, weights, values);
    };
    struct span first = keys_seen(p, rows.at + 64 * group, rows.length);
    struct span last = keys_seen(p, rows.at + 64 * group + 63, rows.length);
    auto hide = [&](int n) {
        int key = (seen.from + n) * WIDE;
        if (seen_in_part(first, last, key, WIDE))
            wide_hide(s, keys_seen(p, i, rows.length), keys_seen(p, i + 8, rows.length), key, me.c);
    };
    if (group == 0)
        turn_give(0);
    barrier_wait(at.q_full, 0);
    scores(0);
    if (group == 0 || tiles > 1)
        turn_give(group ^ 1);
    E::template wait<0>(s);
    barrier_arrive(at.keys_empty);
    hide(0);
    softmax_grows(s, max, sum, growth, sl);
    softmax_weights(s, max, sum, sl);
    wide_make<T>(weights, s);
    for (int n = 1; n < tiles; n++) {
        scores(n);
        multiply(n - 1);
        if (group == 0 || n + 1 < tiles)
            turn_give(group ^ 1);
        E::template wait<1>(s);
        barrier_arrive(at.keys_empty + 8 * stage(n));
        hide(n);
        bool grows = softmax_grows(s, max, sum, growth, sl);
        softmax_weights(s, max, sum, sl);
        E::template wait<0>(acc);
        barrier_arrive(at.values_empty + 8 * stage(n - 1));
        if (grows)
            softmax_rescale(acc, growth);
        wide_make<T>(weights, s);
    }
    multiply(tiles - 1);
    E::template wait<0>(acc);
    group_sync(group); /* nobody reads its queries any more */

    int left = rows.length - rows.at, row = rows.first + rows.at, out = p.heads * WIDE;
    float *lse = p.lse + (int64_t)head * p.T + row, factor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float total = quad_sum(sum[h]);
        bool asks = i + 8 * h < rows_asking(p, rows.length);
        factor[h] = asks ? 1 / total : 0;
        if (me.c == 0 && me.row0 + me.g + 8 * h < left)
            lse[me.row0 + me.g + 8 * h] = asks ? (max[h] + log2f(total)) * LN2 : 0;
    }
    T *o = (T *)p.o + (int64_t)row * out + head * WIDE;
    tile_store<E, WIDE, WIDE>(o, out, left, WIDE, acc, factor[0], factor[1], shared.at(at.q));
}

template <class T>
__global__ __launch_bounds__(WIDE_THREADS, 1) void wide_forward(const __grid_constant__ struct wide_params w)
{
    extern __shared__ __align__(1024) char memory[];
    const struct attention_params &p = w.p;
    struct block_rows rows = block_find<WIDE>(p, last_first(p.causal));
    if (rows.at >= rows.length)
        return;
    int head = (int)blockIdx.y, left = rows.length - rows.at, row = rows.first + rows.at, out = p.heads * WIDE;
    if (rows.padding || rows.at >= rows_asking(p, rows.length)) {
        rows_clear((T *)p.o + (int64_t)row * out + head * WIDE, out, 0, min(left, (int)WIDE), WIDE);
        if ((int)threadIdx.x < min(left, (int)WIDE))
            p.lse[(int64_t)head * p.T + row + threadIdx.x] = 0;
        return;
    }
    struct wide_shared shared(memory);
    struct forward_places at(shared.start);
    struct span first = keys_seen(p, rows.at, rows.length), last = keys_seen(p, rows.at + WIDE - 1, rows.length);
    struct span seen = tiles_seen(first, last, WIDE);
    forward_barriers(at);
    if (threadIdx.x < 128 * WIDE_GROUPS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        forward_group<T>(p, shared, rows, head, seen);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 128 * WIDE_GROUPS)
            forward_load(w, at, rows, head, seen);
    }
}

#endif
