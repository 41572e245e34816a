/* The norm of the gradients and the updates of op/optimizer.c. Bound by bytes: AdamW reads p, g, m, v and writes p, m,
 * v, 28 bytes a parameter (30 with a 16-bit copy); sumsq reads each gradient once. Arithmetic of the updates is in
 * float, on hyper-parameters that are combined in double.
 *
 * Order of sums, in double: a thread of a chunk adds its groups of four squares one after another; then a tree over the
 * threads; clip adds the partials in the same way. */
#include "cuda/many.cuh"

extern "C" {
#include "op/clip.h"
}

/* ---- sumsq ---- */

enum { SUM_THREADS = 1024, FOUR = 4 };

struct sumsq_row {
    const void *g;
    double *partials;
    int64_t n;
    int first;
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
    int64_t chunk = (int)blockIdx.x - t.row[k].first, left = t.row[k].n - chunk * SUMSQ_CHUNK;
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
    sumsq_table t;
    t.n = t.chunks = 0;
    for (int i = 0; i < n; i++) {
        int64_t elements = tensor_elements(&a[i]->g);
        t.row[t.n].g = a[i]->g.data;
        t.row[t.n].partials = (double *)a[i]->partials.data + a[i]->at;
        t.row[t.n].n = elements;
        t.row[t.n].type = (uint8_t)a[i]->g.dtype;
        t.row[t.n].packed = fits_packs(&a[i]->g, FOUR);
        bool full = add_row(&t, (elements + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK);
        if (t.n && (full || i == n - 1)) {
            sumsq_kernel<<<t.chunks, SUM_THREADS, 0, c->stream>>>(t);
            t.n = t.chunks = 0;
        }
    }
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

/* ---- AdamW ---- */

/* All of a chunk is loaded before any of it is used. A block a chunk, rather than blocks that go on to further chunks:
 * 2.27 ms against 2.43 for AdamW over BERT-large on an H200. */
enum { THREADS = 256, BLOCKS = 2, PACKS = 4, CHUNK = THREADS * PACKS * FOUR };

struct adamw_head {
    const double *step;
    const float *coef;
    double beta1, beta2, eps;
    bool decay_last;
};

struct adamw_row {
    float *p, *m, *v;
    const void *g;
    void *copy;
    int64_t n;
    double weight_decay;
    int first;
    uint8_t type, copy_type;
    bool packed;
};
typedef many<struct adamw_head, struct adamw_row> adamw_table;

struct adamw_factors {
    float beta1, rest1, beta2, rest2, eps, rate, scale, coef;
};

__device__ static struct adamw_factors adamw_factors(const struct adamw_head &h)
{
    struct adamw_factors f;
    double t = h.step[STEP_UPDATE];
    f.beta1 = (float)h.beta1, f.rest1 = (float)(1 - h.beta1);
    f.beta2 = (float)h.beta2, f.rest2 = (float)(1 - h.beta2);
    f.eps = (float)h.eps;
    f.rate = (float)(-h.step[STEP_LR] / (1 - pow(h.beta1, t)));
    f.scale = (float)(1 / sqrt(1 - pow(h.beta2, t)));
    f.coef = h.coef ? *h.coef : 1;
    return f;
}

/* decay: before the update and after it, one of them 0. */
__device__ static inline void adamw_element(const struct adamw_factors &f, float2 decay, float &p, float g, float &m,
                                            float &v)
{
    g *= f.coef;
    p = fmaf(decay.x, p, p);
    m = fmaf(f.beta1, m, f.rest1 * g);
    v = fmaf(f.beta2, v, f.rest2 * g * g);
    p = fmaf(f.rate, m / fmaf(sqrtf(v), f.scale, f.eps), p);
    p = fmaf(decay.y, p, p);
}

template <class G>
__device__ static inline void adamw_chunk(const struct adamw_row &r, int64_t start, const struct adamw_factors &f,
                                          float2 decay)
{
    float p[PACKS][FOUR], g[PACKS][FOUR], m[PACKS][FOUR], v[PACKS][FOUR];
    if (!r.packed || start + CHUNK > r.n) {
        for (int64_t i = start + threadIdx.x; i < r.n && i < start + CHUNK; i += THREADS) {
            p[0][0] = r.p[i], m[0][0] = r.m[i], v[0][0] = r.v[i];
            adamw_element(f, decay, p[0][0], to_float(((const G *)r.g)[i]), m[0][0], v[0][0]);
            r.p[i] = p[0][0], r.m[i] = m[0][0], r.v[i] = v[0][0];
            store_as<1>(r.copy_type, r.copy, i, {p[0][0]});
        }
        return;
    }
    start += (int64_t)threadIdx.x * FOUR;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int64_t i = start + k * THREADS * FOUR;
        load_floats(g[k], (const G *)r.g + i);
        load_floats(p[k], r.p + i);
        load_floats(m[k], r.m + i);
        load_floats(v[k], r.v + i);
    }
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int64_t i = start + k * THREADS * FOUR;
#pragma unroll
        for (int e = 0; e < FOUR; e++)
            adamw_element(f, decay, p[k][e], g[k][e], m[k][e], v[k][e]);
        store_floats(r.p + i, p[k]);
        store_floats(r.m + i, m[k]);
        store_floats(r.v + i, v[k]);
        store_as(r.copy_type, r.copy, i, p[k]);
    }
}

__global__ static void __launch_bounds__(THREADS, BLOCKS) adamw_kernel(const __grid_constant__ adamw_table t)
{
    __shared__ struct adamw_factors shared;
    if (threadIdx.x == 0)
        shared = adamw_factors(t.head);
    __syncthreads();
    struct adamw_factors f = shared;
    if (f.coef < 0)
        return;
    const struct adamw_row &r = t.row[find_row(t, (int)blockIdx.x)];
    int64_t start = (int64_t)((int)blockIdx.x - r.first) * CHUNK;
    float d = (float)(-t.head.step[STEP_LR] * r.weight_decay);
    float2 decay = t.head.decay_last ? make_float2(0, d) : make_float2(d, 0);
    WITH_FLOAT_TYPE(r.type, G, adamw_chunk<G>(r, start, f, decay));
}

extern "C" int cuda_adamw_many(const struct args_adamw *const *a, int n, const struct cuda_call *c)
{
    adamw_table t;
    t.head = {(const double *)a[0]->step.data,
              (const float *)a[0]->coef.data,
              a[0]->beta1,
              a[0]->beta2,
              a[0]->eps,
              a[0]->decay_last != 0};
    t.n = t.chunks = 0;
    for (int i = 0; i < n; i++) {
        const struct args_adamw *x = a[i];
        int64_t elements = tensor_elements(&x->p);
        bool packed = fits_packs(&x->p, FOUR) && fits_packs(&x->g, FOUR) && fits_packs(&x->m, FOUR) &&
                      fits_packs(&x->v, FOUR) && fits_packs(&x->copy, FOUR);
        t.row[t.n] = {(float *)x->p.data,
                      (float *)x->m.data,
                      (float *)x->v.data,
                      x->g.data,
                      x->copy.data,
                      elements,
                      x->weight_decay,
                      0,
                      (uint8_t)x->g.dtype,
                      (uint8_t)x->copy.dtype,
                      packed};
        bool full = add_row(&t, (elements + CHUNK - 1) / CHUNK);
        if (t.n && (full || i == n - 1)) {
            adamw_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t);
            t.n = t.chunks = 0;
        }
    }
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

struct sgd_row {
    float *p, *buf;
    const void *g;
    void *copy;
    int64_t n;
    float weight_decay;
    int first;
    uint8_t type, copy_type;
    bool packed;
};
typedef many<struct sgd_head, struct sgd_row> sgd_table;

struct sgd_factors {
    float rate, coef, momentum, rest;
    bool first, nesterov;
};

/* buf is not read where the row has none. */
__device__ static inline void sgd_element(const struct sgd_factors &f, float decay, bool has_buf, float &p, float g,
                                          float &buf)
{
    g = fmaf(decay, p, g * f.coef);
    float d = g;
    if (has_buf) {
        buf = f.first ? g : fmaf(f.momentum, buf, f.rest * g);
        d = f.nesterov ? fmaf(f.momentum, buf, g) : buf;
    }
    p = fmaf(f.rate, d, p);
}

template <class G>
__device__ static inline void sgd_chunk(const struct sgd_row &r, int64_t start, const struct sgd_factors &f)
{
    float p[PACKS][FOUR], g[PACKS][FOUR], b[PACKS][FOUR] = {};
    if (!r.packed || start + CHUNK > r.n) {
        for (int64_t i = start + threadIdx.x; i < r.n && i < start + CHUNK; i += THREADS) {
            p[0][0] = r.p[i];
            if (r.buf)
                b[0][0] = r.buf[i];
            sgd_element(f, r.weight_decay, r.buf != NULL, p[0][0], to_float(((const G *)r.g)[i]), b[0][0]);
            r.p[i] = p[0][0];
            if (r.buf)
                r.buf[i] = b[0][0];
            store_as<1>(r.copy_type, r.copy, i, {p[0][0]});
        }
        return;
    }
    start += (int64_t)threadIdx.x * FOUR;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int64_t i = start + k * THREADS * FOUR;
        load_floats(g[k], (const G *)r.g + i);
        load_floats(p[k], r.p + i);
        if (r.buf)
            load_floats(b[k], r.buf + i);
    }
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int64_t i = start + k * THREADS * FOUR;
#pragma unroll
        for (int e = 0; e < FOUR; e++)
            sgd_element(f, r.weight_decay, r.buf != NULL, p[k][e], g[k][e], b[k][e]);
        store_floats(r.p + i, p[k]);
        if (r.buf)
            store_floats(r.buf + i, b[k]);
        store_as(r.copy_type, r.copy, i, p[k]);
    }
}

__global__ static void __launch_bounds__(THREADS, BLOCKS) sgd_kernel(const __grid_constant__ sgd_table t)
{
    const struct sgd_head &h = t.head;
    struct sgd_factors f = {
        (float)-h.step[STEP_LR], h.coef ? *h.coef : 1, h.momentum, h.rest, h.step[STEP_UPDATE] == 1, h.nesterov};
    if (f.coef < 0)
        return;
    const struct sgd_row &r = t.row[find_row(t, (int)blockIdx.x)];
    WITH_FLOAT_TYPE(r.type, G, sgd_chunk<G>(r, (int64_t)((int)blockIdx.x - r.first) * CHUNK, f));
}

extern "C" int cuda_sgd_many(const struct args_sgd *const *a, int n, const struct cuda_call *c)
{
    sgd_table t;
    t.head = {(const double *)a[0]->step.data, (const float *)a[0]->coef.data, (float)a[0]->momentum,
              (float)(1 - a[0]->dampening), a[0]->nesterov != 0};
    t.n = t.chunks = 0;
    for (int i = 0; i < n; i++) {
        const struct args_sgd *x = a[i];
        int64_t elements = tensor_elements(&x->p);
        bool packed = fits_packs(&x->p, FOUR) && fits_packs(&x->g, FOUR) && fits_packs(&x->buf, FOUR) &&
                      fits_packs(&x->copy, FOUR);
        t.row[t.n] = {
            (float *)x->p.data,  (float *)x->buf.data,   x->g.data, x->copy.data, elements, (float)x->weight_decay, 0,
            (uint8_t)x->g.dtype, (uint8_t)x->copy.dtype, packed};
        bool full = add_row(&t, (elements + CHUNK - 1) / CHUNK);
        if (t.n && (full || i == n - 1)) {
            sgd_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t);
            t.n = t.chunks = 0;
        }
    }
    return cuda_launched(c, "sgd");
}

extern "C" int cuda_sgd(const struct args_sgd *a, const struct cuda_call *c)
{
    return cuda_sgd_many(&a, 1, c);
}
