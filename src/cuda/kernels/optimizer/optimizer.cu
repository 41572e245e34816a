/* The norm of the gradients and the updates of op/optimizer/optimizer.c. Bound by bytes: AdamW reads p, g, m, v and writes p, m,
 * v, 28 bytes a parameter (30 with a 16-bit copy; 14 where all is bf16, with three Philox calls for four of them);
 * sumsq reads each gradient once. Arithmetic of the updates is in float, on hyper-parameters that are combined in
 * double.
 *
 * Order of sums, in double: a thread of a chunk adds its groups of four squares one after another; then a tree over the
 * threads; clip adds the partials in the same way. */
#include "cuda/kernels/optimizer/update.cuh"

extern "C" {
#include "op/clip.h"
}

/* ---- sumsq ---- */

enum { SUM_THREADS = 1024, FOUR = 4 };

struct sumsq_row {
    const void *g;
    double *partials;
    int64_t n;
    uint8_t type;
    bool packed;
};

struct nothing {
};
typedef many<struct nothing, struct sumsq_row> sumsq_table;

/* The sum over the block, in thread 0. */
__device__ static inline double block_sum(double x)
{
    __shared__ double warp[SUM_THREADS / 32];
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_down_sync(0xFFFFFFFFu, x, d);
    if (threadIdx.x % 32 == 0)
        warp[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x >= 32)
        return 0;
    x = threadIdx.x < SUM_THREADS / 32 ? warp[threadIdx.x] : 0;
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_down_sync(0xFFFFFFFFu, x, d);
    return x;
}

template <class G> __device__ static double square_sum(const G *g, int n, bool packed)
{
    int whole = packed ? n / FOUR : 0;
    double sum = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < whole; i += SUM_THREADS) {
        float v[FOUR];
        load_floats(v, g + (int64_t)i * FOUR);
        double d[FOUR] = {v[0], v[1], v[2], v[3]};
        sum += (d[0] * d[0] + d[1] * d[1]) + (d[2] * d[2] + d[3] * d[3]);
    }
    for (int i = whole * FOUR + threadIdx.x; i < n; i += SUM_THREADS) {
        double v = to_float(g[i]);
        sum += v * v;
    }
    return sum;
}

__global__ static void __launch_bounds__(SUM_THREADS) sumsq_kernel(const __grid_constant__ sumsq_table t)
{
    int k = find_row(t, (int)blockIdx.x);
    int64_t chunk = (int)blockIdx.x - t.first[k], left = t.row[k].n - chunk * SUMSQ_CHUNK;
    int n = (int)(left < SUMSQ_CHUNK ? left : SUMSQ_CHUNK);
    double sum;
    WITH_FLOAT_TYPE(t.row[k].type, G,
                    sum = square_sum((const G *)t.row[k].g + chunk * SUMSQ_CHUNK, n, t.row[k].packed));
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        t.row[k].partials[chunk] = sum;
}

extern "C" int cuda_sumsq_many(const struct args_sumsq *const *a, int n, const struct cuda_call *c)
{
    static_assert(SUMSQ_CHUNK % FOUR == 0, "chunks of aligned tensors are aligned");
    sumsq_table all;
    launch_many(
        &all, a, n,
        [](struct sumsq_row *r, const struct args_sumsq *x) {
            *r = {x->g.data, sumsq_partials(x), tensor_elements(&x->g), (uint8_t)x->g.dtype, fits_packs(&x->g, FOUR)};
            return chunks_of(r->n, SUMSQ_CHUNK);
        },
        [=](const sumsq_table &t) { sumsq_kernel<<<t.chunks, SUM_THREADS, 0, c->stream>>>(t); });
    return cuda_launched(c, "sumsq");
}

extern "C" int cuda_sumsq(const struct args_sumsq *a, const struct cuda_call *c)
{
    return cuda_sumsq_many(&a, 1, c);
}

/* ---- clip ---- */

__global__ static void __launch_bounds__(SUM_THREADS)
    clip_kernel(const double *partials, int64_t n, double max_norm, double *scaler, float *norm, float *coef)
{
    double sum = 0, exact_norm, exact_coef;
    for (int64_t i = threadIdx.x; i < n; i += SUM_THREADS)
        sum += partials[i];
    sum = block_sum(sum);
    if (threadIdx.x)
        return;
    clip_decide(sum, max_norm, scaler, &exact_norm, &exact_coef);
    *norm = (float)exact_norm;
    *coef = (float)exact_coef;
}

extern "C" int cuda_clip(const struct args_clip *a, const struct cuda_call *c)
{
    clip_kernel<<<1, SUM_THREADS, 0, c->stream>>>((const double *)a->partials.data, a->partials.shape[0], a->max_norm,
                                                  (double *)a->scaler.data, (float *)a->norm.data,
                                                  (float *)a->coef.data);
    return cuda_launched(c, "clip");
}

/* ---- updates of single elements, with STATES states of the weight's type each ---- */

/* All of a chunk is loaded before any of it is used. A block a chunk, rather than blocks that go on to further chunks:
 * 2.27 ms against 2.43 for AdamW over BERT-large on an H200. */
enum { THREADS = 256 };

/* How many blocks are to share a multiprocessor, and elements of a thread. Where everything is bf16 (PURE), random numbers take as long as
 * the bytes, and more threads hide more: 2.8 ms against 3.1 for 618 million weights on an H200. */
template <bool PURE> struct update_size {
    static constexpr int blocks = PURE ? 4 : 2, each = PURE ? 8 : 16, chunk = THREADS * each;
};

template <int STATES> struct update_row {
    struct updated u;
    void *state[STATES]; /* NULL: none is kept */
};

__device__ static inline enum rounding_part part_of_state(int k)
{
    return (enum rounding_part)(ROUND_STATE1 + k);
}

/* prepare() gives what a step has for all elements, in a block's threads at the same time; with coef below 0 nothing is written. It is
 * called when the block's loads are on their way: two powers in double take as long as these.
 * element(factors, p, g, state) makes p and the states new. What is stored in bf16 is taken as many at a time as a call of Philox has
 * numbers for. */
template <class Size, class G, class P, int STATES, class Prepare, class Element>
__device__ static inline void update_chunk(const struct update_row<STATES> &r, const double *step, int64_t start,
                                           Prepare prepare, Element element)
{
    constexpr int N = updates_at_once(sizeof(P)), PACKS = Size::each / N, CHUNK = Size::chunk;
    const struct rounding rounding = rounding_of(step, r.u.noise, r.u.first);
    const struct updated &u = r.u;
    if (!u.packed || start + CHUNK > u.n) {
        auto factors = prepare();
        if (factors.coef < 0)
            return;
        for (int64_t i = start + threadIdx.x; i < u.n && i < start + CHUNK; i += THREADS) {
            float x = to_float(((const P *)u.p)[i]), one[STATES] = {};
            for (int k = 0; k < STATES; k++)
                if (r.state[k])
                    one[k] = to_float(((const P *)r.state[k])[i]);
            element(factors, x, to_float(((const G *)u.g)[i]), one);
            store_stored<1>((P *)u.p, i, {x}, rounding, ROUND_WEIGHT);
            for (int k = 0; k < STATES; k++)
                if (r.state[k])
                    store_stored<1>((P *)r.state[k], i, {one[k]}, rounding, part_of_state(k));
            store_as<1>(u.copy_type, u.copy, i, {x});
        }
        return;
    }
    pack<P, N> p[PACKS], s[PACKS][STATES] = {};
    pack<G, N> g[PACKS];
    start += (int64_t)threadIdx.x * N;
#pragma unroll
    for (int j = 0; j < PACKS; j++) {
        int64_t i = start + j * THREADS * N;
        g[j] = *(const pack<G, N> *)((const G *)u.g + i);
        p[j] = *(const pack<P, N> *)((const P *)u.p + i);
#pragma unroll
        for (int k = 0; k < STATES; k++)
            if (r.state[k])
                s[j][k] = *(const pack<P, N> *)((const P *)r.state[k] + i);
    }
    auto factors = prepare();
    if (factors.coef < 0)
        return;
#pragma unroll
    for (int j = 0; j < PACKS; j++) {
        int64_t i = start + j * THREADS * N;
        float x[N], states[STATES][N], one[STATES];
#pragma unroll
        for (int e = 0; e < N; e++) {
            x[e] = to_float(p[j].v[e]);
#pragma unroll
            for (int k = 0; k < STATES; k++)
                one[k] = to_float(s[j][k].v[e]);
            element(factors, x[e], to_float(g[j].v[e]), one);
#pragma unroll
            for (int k = 0; k < STATES; k++)
                states[k][e] = one[k];
        }
        store_stored((P *)u.p, i, x, rounding, ROUND_WEIGHT);
#pragma unroll
        for (int k = 0; k < STATES; k++)
            if (r.state[k])
                store_stored((P *)r.state[k], i, states[k], rounding, part_of_state(k));
        store_as(u.copy_type, u.copy, i, x);
    }
}

/* ---- AdamW ---- */

typedef many<struct adamw_head, struct update_row<2>> adamw_table;

template <bool PURE>
__global__ static void __launch_bounds__(THREADS, update_size<PURE>::blocks)
    adamw_kernel(const __grid_constant__ adamw_table t)
{
    using size = update_size<PURE>;
    __shared__ struct adamw_factors shared;
    int row = find_row(t, (int)blockIdx.x);
    const struct update_row<2> &r = t.row[row];
    float decay = (float)(-t.head.step[STEP_LR] * r.u.weight_decay);
    float before = t.head.decay_last ? 0 : decay, after = t.head.decay_last ? decay : 0;
    auto prepare = [&] { return adamw_factors_shared(shared, t.head); };
    auto element = [=](const struct adamw_factors &f, float &p, float g, float(&s)[2]) {
        g *= f.coef;
        p = fmaf(before, p, p);
        s[0] = fmaf(f.beta1, s[0], f.rest1 * g);
        s[1] = fmaf(f.beta2, s[1], f.rest2 * g * g);
        p = fmaf(f.rate, s[0] / fmaf(sqrtf(s[1]), f.scale, f.eps), p);
        p = fmaf(after, p, p);
    };
    int64_t start = (int64_t)((int)blockIdx.x - t.first[row]) * size::chunk;
    if (PURE) {
        WITH_FLOAT_TYPE(r.u.type, G, (update_chunk<size, G, __nv_bfloat16>(r, t.head.step, start, prepare, element)));
        return;
    }
    WITH_STORED_TYPE(r.u.pure, P,
                     WITH_FLOAT_TYPE(r.u.type, G, (update_chunk<size, G, P>(r, t.head.step, start, prepare, element))))
}

template <bool PURE> static void launch_adamw(const struct args_adamw *const *a, int n, const struct cuda_call *c)
{
    adamw_table all;
    all.head = adamw_head_of(a[0], a[0]->decay_last != 0);
    launch_many(
        &all, a, n,
        [](struct update_row<2> *r, const struct args_adamw *x) {
            *r = {updated_of(x, fits_updates(&x->p, &x->m) && fits_updates(&x->p, &x->v)), {x->m.data, x->v.data}};
            return chunks_of(r->u.n, update_size<PURE>::chunk);
        },
        [=](const adamw_table &t) { adamw_kernel<PURE><<<t.chunks, THREADS, 0, c->stream>>>(t); });
}

extern "C" int cuda_adamw_many(const struct args_adamw *const *a, int n, const struct cuda_call *c)
{
    bool pure = true;
    for (int i = 0; i < n; i++)
        pure &= a[i]->p.dtype == DT_BF16;
    if (pure)
        launch_adamw<true>(a, n, c);
    else
        launch_adamw<false>(a, n, c);
    return cuda_launched(c, "adamw");
}

extern "C" int cuda_adamw(const struct args_adamw *a, const struct cuda_call *c)
{
    return cuda_adamw_many(&a, 1, c);
}

/* ---- SGD ---- */

struct sgd_head {
    const double *step;
    const float *coef;
    float momentum, rest;
    bool nesterov;
};
typedef many<struct sgd_head, struct update_row<1>> sgd_table;

struct sgd_factors {
    float coef;
};

__global__ static void __launch_bounds__(THREADS, update_size<false>::blocks)
    sgd_kernel(const __grid_constant__ sgd_table t)
{
    using size = update_size<false>;
    const struct sgd_head &h = t.head;
    float rate = (float)-h.step[STEP_LR], momentum = h.momentum, rest = h.rest;
    bool first = h.step[STEP_UPDATE] == 1, nesterov = h.nesterov;
    int row = find_row(t, (int)blockIdx.x);
    const struct update_row<1> &r = t.row[row];
    float decay = (float)r.u.weight_decay;
    bool has_buf = r.state[0] != NULL;
    auto prepare = [&] { return sgd_factors{h.coef ? *h.coef : 1}; };
    auto element = [=](const struct sgd_factors &f, float &p, float g, float(&buf)[1]) {
        g = fmaf(decay, p, g * f.coef);
        float d = g;
        if (has_buf) {
            buf[0] = first ? g : fmaf(momentum, buf[0], rest * g);
            d = nesterov ? fmaf(momentum, buf[0], g) : buf[0];
        }
        p = fmaf(rate, d, p);
    };
    int64_t start = (int64_t)((int)blockIdx.x - t.first[row]) * size::chunk;
    WITH_STORED_TYPE(r.u.pure, P,
                     WITH_FLOAT_TYPE(r.u.type, G, (update_chunk<size, G, P>(r, t.head.step, start, prepare, element))))
}

extern "C" int cuda_sgd_many(const struct args_sgd *const *a, int n, const struct cuda_call *c)
{
    sgd_table all;
    all.head = {(const double *)a[0]->step.data, (const float *)a[0]->coef.data, (float)a[0]->momentum,
                (float)(1 - a[0]->dampening), a[0]->nesterov != 0};
    launch_many(
        &all, a, n,
        [](struct update_row<1> *r, const struct args_sgd *x) {
            *r = {updated_of(x, fits_updates(&x->p, &x->buf)), {x->buf.data}};
            return chunks_of(r->u.n, update_size<false>::chunk);
        },
        [=](const sgd_table &t) { sgd_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t); });
    return cuda_launched(c, "sgd");
}

extern "C" int cuda_sgd(const struct args_sgd *a, const struct cuda_call *c)
{
    return cuda_sgd_many(&a, 1, c);
}
