/* attention_short_load.cuh: the warps of attention_short_sm90.cu that load tiles, and make what else a tile needs. They are 128 threads,
 * of which `t` is one; all of them call each function. Heads have at most 64 elements. */
#ifndef CUDA_ATTENTION_ATTENTION_SHORT_LOAD_CUH
#define CUDA_ATTENTION_ATTENTION_SHORT_LOAD_CUH

#include "cuda/attention/attention_short.cuh"

/* Starts copying the rows of O of all query tiles to where dQ will add up; stores the shifts. */
template <class T, int SPLIT>
__device__ static inline void statistics_start(const struct attention_params &p, const struct work<SPLIT> &w,
                                               char *shared, int t)
{
    int out = p.heads * p.D;
    const T *o = (const T *)p.o + (int64_t)w.first * out + w.head * p.D;
    const float *lse = p.lse + (int64_t)w.head * p.T + w.first;
#pragma unroll 1
    for (int i = w.first_query_tile(0); i < w.query_tiles; i++)
        tile_load<T, TILE, 64, 128, false>(shared_address(shared + AT_SUMS + i * SUM_TILE),
                                           o + (int64_t)(i * TILE) * out, out, w.queries - i * TILE, p.D, t);
    loads_commit();
#pragma unroll 4
    for (int i = t; i < w.query_tiles * TILE; i += 128)
        ((float *)(shared + AT_SHIFTS))[i] = i < w.queries ? -LOG2E * lse[i] : -INFINITY;
}

/* Deltas of query tile i, from what the thread itself has copied: 16 bytes of every 16th row. */
template <class T>
__device__ static inline void store_deltas(char *shared, int i, const char *do_tile, float keep, int t)
{
    const char *o_tile = shared + AT_SUMS + i * SUM_TILE;
#pragma unroll
    for (int n = 0; n < 4; n++) {
        int row = 16 * n + t / 8;
        pack<T, 8> a = *(const pack<T, 8> *)(o_tile + chunk_offset<TILE>(row, t % 8));
        pack<T, 8> b = *(const pack<T, 8> *)(do_tile + chunk_offset<TILE>(row, t % 8));
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum = fmaf(to_float(a.v[k]), to_float(b.v[k]), sum);
        sum = quad_sum(sum);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 4);
        if (t % 8 == 0)
            ((float *)(shared + AT_DELTAS))[i * TILE + row] = -sum / keep;
    }
}

/* A thread's words of the flags of a query tile, for all groups. */
__device__ static __forceinline__ void store_flags(uint32_t *words, const struct mask_stream &stream,
                                                   const struct mask_keys (&keys)[GROUPS], uint32_t query)
{
    struct mask_query queries[2] = {mask_query(&stream, query), mask_query(&stream, query + 8)};
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        uint32_t flags[2][4];
        flags_of_keys(flags, &stream, queries, keys[g]);
        words[128 * g] = mask_word(flags);
    }
}

/* Fills the ring. In a pass: K and V of each group, then Q and dO of the query tiles, with the flags of their scores:
 * word 32w + 4g + c of a group's 128 is made of queries 16w + g and 16w + g + 8 and of its keys from 16c on (mask_word).
 * Longer than a screen, since its parts share the counters of the ring. */
template <class T, int SPLIT, enum mask_from MASK>
__device__ static inline void fill_ring(const struct attention_params &p, const struct work<SPLIT> &w, char *shared,
                                        int t)
{
    uint32_t base = shared_address(shared);
    int width = 3 * p.heads * p.D, out = p.heads * p.D, lane = t % 32, warp = (int)same_in_warp((uint32_t)t / 32);
    const T *q = (const T *)p.qkv + (int64_t)w.first * width + w.head * p.D;
    const T *dout = (const T *)p.dout + (int64_t)w.first * out + w.head * p.D;
    int n = 0, next = 0, next_pass = 0, next_step = 0; /* a step of a pass: a group, or GROUPS + a query tile */
    auto load_next = [&] {
        if (!w.has_pass(next_pass))
            return;
        int stage = next % STAGES, group = next_step < GROUPS, i = next_step - GROUPS;
        if (next >= STAGES)
            barrier_wait(base + AT_EMPTY + 8 * stage, (uint32_t)(next / STAGES - 1) & 1);
        int row = (group ? w.key_tile(next_pass, next_step) : i) * TILE, b_stride = group ? width : out;
        int valid = (group ? w.length : w.queries) - row;
        const T *a = q + (int64_t)row * width + (group ? out : 0), *b = group ? a + out : dout + (int64_t)row * out;
        uint32_t to = base + AT_STAGES + stage * STAGE;
        tile_load<T, TILE, 64, 128, false>(to, a, width, valid, p.D, t);
        tile_load<T, TILE, 64, 128, false>(to + HALF_TILE, b, b_stride, valid, p.D, t);
        if (MASK == KEPT && !group && warp < GROUPS) {
            int key_tile = w.key_tile(next_pass, warp);
            uint32_t from = mask_word_at(p, w.sequence, w.first, w.head, row) + (uint32_t)key_tile * 32;
            from += (uint32_t)(lane / 8) * mask_pitch(p) + (uint32_t)(lane % 8 * 4);
            copy_16(base + AT_FLAGS + (uint32_t)(stage * FLAGS + warp * (FLAGS / GROUPS) + lane * 16), p.mask + from,
                    key_tile < w.tiles && lane / 8 * 16 < valid);
        }
        loads_commit();
        next++;
        if (++next_step == GROUPS)
            next_step += w.first_query_tile(next_pass);
        if (next_step == GROUPS + w.query_tiles) {
            next_step = 0;
            next_pass++;
        }
    };
    /* For what this thread copies for step n. */
    auto wait_loaded = [&] {
        if (n + 1 < next)
            loads_wait<1>();
        else
            loads_wait<0>();
    };
    /* Step n: the products may read what this warp has stored. */
    auto loaded = [&] {
        wgmma_engine<T>::arrived();
        __syncwarp();
        if (lane == 0)
            barrier_arrive(base + AT_FULL + 8 * (n % STAGES));
        n++;
    };
    struct mask_stream stream;
    if (MASK == MADE)
        stream = mask_stream(p.rng, p.coords, w.first, w.head, p.site, p.threshold);
    load_next();
    for (int pass = 0; w.has_pass(pass); pass++) {
        struct mask_keys keys[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            load_next();
            wait_loaded();
            loaded();
            if (MASK == MADE)
                keys[g] = mask_keys(&stream, (uint32_t)(w.key_tile(pass, g) * (TILE / 16) + lane % 4));
        }
        if (pass == 0)
            statistics_start<T>(p, w, shared, t);
#pragma unroll 1
        for (int i = w.first_query_tile(pass); i < w.query_tiles; i++) {
            load_next();
            if (MASK == MADE)
                store_flags((uint32_t *)(shared + AT_FLAGS + n % STAGES * FLAGS) + t, stream, keys,
                            (uint32_t)(i * TILE + 16 * warp + lane / 4));
            wait_loaded();
            if (pass == 0)
                store_deltas<T>(shared, i, shared + AT_STAGES + n % STAGES * STAGE + HALF_TILE, MASK ? p.keep_scale : 1,
                                t);
            loaded();
        }
    }
}

#endif
