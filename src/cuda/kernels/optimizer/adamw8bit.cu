/* AdamW with 8-bit states (op/optimizer/adamw8bit.c). Bound by bytes: it reads p, g and two codes and writes p and two codes, 16
 * bytes a parameter (18 with a 16-bit copy, 10 where the weight and its gradient are bf16); looking up and finding codes
 * takes nearly as long. A warp does a block of MAP_BLOCK elements in registers. The largest magnitudes of a block are the
 * same in any order. */
#include "cuda/kernels/optimizer/codes.cuh"
#include "cuda/kernels/optimizer/update.cuh"

#include <float.h>

enum { THREADS = 256, BLOCKS = 4, WARPS = THREADS / 32, FOUR = 4, HALVES = 2, TURNS = 1 };
enum { CHUNK = WARPS * MAP_BLOCK * TURNS };

struct adamw8bit_row {
    struct updated u;
    uint8_t *m, *v;
    float *absmax_m, *absmax_v;
};
typedef many<struct adamw_head, struct adamw8bit_row> adamw8bit_table;

/* What the threads of a block share. */
struct adamw8bit_shared {
    struct code_tables codes;
    struct adamw_factors f;
};

__device__ static void prepare(struct adamw8bit_shared &s, const struct adamw_head &h)
{
    code_tables_init(s.codes);
    adamw_factors_shared(s.f, h);
}

/* The largest x >= 0 of a warp: such floats are ordered as their bits. */
__device__ static inline float warp_largest(float x)
{
    return __uint_as_float(__reduce_max_sync(0xFFFFFFFFu, __float_as_uint(x)));
}

/* A lane's part of a block: two groups of four neighbouring elements; four codes in a word. */
struct part {
    float p[HALVES][FOUR], g[HALVES][FOUR];
    uint32_t m[HALVES], v[HALVES];
    float absmax_m, absmax_v;
};

__device__ static inline int64_t group_at(int64_t start, int half)
{
    return start + half * (MAP_BLOCK / HALVES) + (int)(threadIdx.x % 32) * FOUR;
}

template <class G, class P>
__device__ static inline void load_part(const struct adamw8bit_row &r, int64_t start, bool whole, struct part &x)
{
    x.absmax_m = r.absmax_m[start / MAP_BLOCK];
    x.absmax_v = r.absmax_v[start / MAP_BLOCK];
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        int64_t at = group_at(start, h);
        if (whole) {
            load_floats(x.p[h], (const P *)r.u.p + at);
            load_floats(x.g[h], (const G *)r.u.g + at);
            x.m[h] = *(const uint32_t *)(r.m + at);
            x.v[h] = *(const uint32_t *)(r.v + at);
            continue;
        }
        x.m[h] = x.v[h] = 0;
#pragma unroll
        for (int e = 0; e < FOUR; e++) {
            bool there = at + e < r.u.n;
            x.p[h][e] = there ? to_float(((const P *)r.u.p)[at + e]) : 0;
            x.g[h][e] = there ? to_float(((const G *)r.u.g)[at + e]) : 0;
            x.m[h] |= (uint32_t)(there ? r.m[at + e] : MAP_SIGNED_ZERO) << (8 * e);
            x.v[h] |= (uint32_t)(there ? r.v[at + e] : 0) << (8 * e);
        }
    }
}

template <class P>
__device__ static inline void store_part(const struct adamw8bit_row &r, const double *step, int64_t start, bool whole,
                                         const struct part &x)
{
    const struct rounding rounding = rounding_of(step, r.u.noise, r.u.first);
    if (threadIdx.x % 32 == 0) {
        r.absmax_m[start / MAP_BLOCK] = x.absmax_m;
        r.absmax_v[start / MAP_BLOCK] = x.absmax_v;
    }
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        int64_t at = group_at(start, h);
        if (whole) {
            store_stored((P *)r.u.p, at, x.p[h], rounding, ROUND_WEIGHT);
            *(uint32_t *)(r.m + at) = x.m[h];
            *(uint32_t *)(r.v + at) = x.v[h];
            store_as(r.u.copy_type, r.u.copy, at, x.p[h]);
            continue;
        }
#pragma unroll
        for (int e = 0; e < FOUR; e++)
            if (at + e < r.u.n) {
                store_stored<1>((P *)r.u.p, at + e, {x.p[h][e]}, rounding, ROUND_WEIGHT);
                r.m[at + e] = (uint8_t)(x.m[h] >> (8 * e));
                r.v[at + e] = (uint8_t)(x.v[h] >> (8 * e));
                store_as<1>(r.u.copy_type, r.u.copy, at + e, {x.p[h][e]});
            }
    }
}

__device__ static inline void update_part(const struct adamw8bit_shared &s, float decay, struct part &x)
{
    float m[HALVES][FOUR], v[HALVES][FOUR], most_m = 0, most_v = 0;
    float scale_m = s.f.beta1 * x.absmax_m, scale_v = s.f.beta2 * x.absmax_v;
#pragma unroll
    for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int e = 0; e < FOUR; e++) {
            float g = x.g[h][e] * s.f.coef, p = x.p[h][e];
            m[h][e] = fmaf(scale_m, code_value(s.codes, true, x.m[h] >> (8 * e) & 0xFF), s.f.rest1 * g);
            v[h][e] = fmaf(scale_v, code_value(s.codes, false, x.v[h] >> (8 * e) & 0xFF), s.f.rest2 * g * g);
            p = fmaf(s.f.rate, m[h][e] / fmaf(sqrtf(v[h][e]), s.f.scale, s.f.eps), p);
            x.p[h][e] = fmaf(decay, p, p);
            most_m = fmaxf(most_m, fabsf(m[h][e]));
            most_v = fmaxf(most_v, v[h][e]);
        }
    x.absmax_m = warp_largest(most_m);
    x.absmax_v = warp_largest(most_v);
    float to_m = 1 / fmaxf(x.absmax_m, FLT_MIN), to_v = 1 / fmaxf(x.absmax_v, FLT_MIN);
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        x.m[h] = x.v[h] = 0;
#pragma unroll
        for (int e = 0; e < FOUR; e++) {
            x.m[h] |= nearest_code(s.codes, true, m[h][e] * to_m) << (8 * e);
            x.v[h] |= nearest_code(s.codes, false, v[h][e] * to_v) << (8 * e);
        }
    }
}

/* TURNS blocks of a warp, loaded together. */
template <class G, class P>
__device__ static inline void update_blocks(const struct adamw8bit_row &r, const struct adamw8bit_shared &s,
                                            const double *step, int64_t start, float decay)
{
    struct part x[TURNS];
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        int64_t at = start + k * MAP_BLOCK;
        if (at < r.u.n)
            load_part<G, P>(r, at, r.u.packed && at + MAP_BLOCK <= r.u.n, x[k]);
    }
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        int64_t at = start + k * MAP_BLOCK;
        if (at >= r.u.n)
            return;
        update_part(s, decay, x[k]);
        store_part<P>(r, step, at, r.u.packed && at + MAP_BLOCK <= r.u.n, x[k]);
    }
}

__global__ static void __launch_bounds__(THREADS, BLOCKS) adamw8bit_kernel(const __grid_constant__ adamw8bit_table t)
{
    __shared__ struct adamw8bit_shared s;
    prepare(s, t.head);
    if (s.f.coef < 0)
        return;
    double lr = t.head.step[STEP_LR];
    for (int chunk = blockIdx.x; chunk < t.chunks; chunk += gridDim.x) {
        int row = find_row(t, chunk);
        const struct adamw8bit_row &r = t.row[row];
        int64_t start = (int64_t)(chunk - t.first[row]) * CHUNK + (int)(threadIdx.x / 32) * (MAP_BLOCK * TURNS);
        float decay = (float)(-lr * r.u.weight_decay);
        WITH_STORED_TYPE(r.u.pure, P,
                         WITH_FLOAT_TYPE(r.u.type, G, (update_blocks<G, P>(r, s, t.head.step, start, decay))))
    }
}

extern "C" int cuda_adamw8bit_many(const struct args_adamw8bit *const *a, int n, const struct cuda_call *c)
{
    adamw8bit_table all;
    all.head = adamw_head_of(a[0], true);
    launch_many(
        &all, a, n,
        [](struct adamw8bit_row *r, const struct args_adamw8bit *x) {
            *r = {updated_of(x, fits_packs(&x->m, FOUR) && fits_packs(&x->v, FOUR)), (uint8_t *)x->m.data,
                  (uint8_t *)x->v.data, (float *)x->absmax_m.data, (float *)x->absmax_v.data};
            return chunks_of(r->u.n, CHUNK);
        },
        [=](const adamw8bit_table &t) {
            adamw8bit_kernel<<<resident_blocks(t.chunks, BLOCKS, c), THREADS, 0, c->stream>>>(t);
        });
    return cuda_launched(c, "adamw8bit");
}

extern "C" int cuda_adamw8bit(const struct args_adamw8bit *a, const struct cuda_call *c)
{
    return cuda_adamw8bit_many(&a, 1, c);
}
