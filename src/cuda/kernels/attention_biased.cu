/* Attention with a bias by distance, a warp for a row and a head: forward, the gradients of queries and of the table, and those of keys
 * and values are a kernel each. A lane has every 32nd element of the head; the softmax goes along (Milakov and Gimelshein, arXiv
 * 1805.02867). Bound by operations, which are not on tensor cores: much slower than the kernels of attention/. */
#include "cuda/kernels/vector.cuh"

extern "C" {
#include "op/bias_bucket.h"
}

enum {
    LANE = 32,
    WARPS = 4,
    MAX_PARTS = 8
}; /* parts in a lane: heads have at most 256 elements, tables at most 256 entries */

struct biased {
    const int32_t *cu, *coords, *rng;
    const float *table;
    int64_t B, T, width, heads, D, buckets, furthest, site; /* width: of qkv */
    float scale, keep_scale;
    uint32_t threshold; /* 0: nothing is dropped */
};

/* A row and a head: its sequence. */
struct place {
    int64_t row, head, first, length;
};

__device__ static inline bool find_place(const struct biased &p, struct place *at)
{
    int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE, low = 0, high = p.B;
    at->row = task / p.heads, at->head = task % p.heads;
    if (at->row >= p.T)
        return false;
    at->length = 0;
    if (p.B == 0 || at->row >= p.cu[p.B])
        return true;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (p.cu[middle] <= at->row)
            low = middle;
        else
            high = middle;
    }
    at->first = p.cu[low], at->length = p.cu[low + 1] - p.cu[low];
    return true;
}

/* This lane's part of a head: of the queries (0), keys (1) or values (2) of a row of qkv. */
template <class T>
__device__ static inline void load_head(float (&to)[MAX_PARTS], const T *qkv, const struct biased &p, int64_t row,
                                        int64_t head, int which)
{
    const T *from = qkv + row * p.width + which * (p.width / 3) + head * p.D;
    for (int i = 0; i < MAX_PARTS; i++) {
        int64_t d = threadIdx.x % LANE + i * LANE;
        to[i] = d < p.D ? to_float(from[d]) : 0;
    }
}

/* The same of a tensor of one head's width a row: o and its gradient. */
template <class T>
__device__ static inline void load_out(float (&to)[MAX_PARTS], const T *o, const struct biased &p, int64_t row,
                                       int64_t head)
{
    const T *from = o + row * (p.width / 3) + head * p.D;
    for (int i = 0; i < MAX_PARTS; i++) {
        int64_t d = threadIdx.x % LANE + i * LANE;
        to[i] = d < p.D ? to_float(from[d]) : 0;
    }
}

template <class T>
__device__ static inline void store_head(T *to, const float (&v)[MAX_PARTS], const struct biased &p, float by)
{
    for (int i = 0; i < MAX_PARTS; i++) {
        int64_t d = threadIdx.x % LANE + i * LANE;
        if (d < p.D)
            to[d] = from_float<T>(v[i] * by);
    }
}

__device__ static inline float dot(const float (&a)[MAX_PARTS], const float (&b)[MAX_PARTS])
{
    float sum = 0;
    for (int i = 0; i < MAX_PARTS; i++)
        sum += a[i] * b[i];
    return warp_sum(sum);
}

/* What dropout multiplies the weight of query i and key j with, which count within the sequence. */
__device__ static inline float kept(const struct biased &p, const struct place &at, int64_t i, int64_t j)
{
    if (!p.threshold)
        return 1;
    struct philox bits = mask_attention_bits(p.rng, p.site, p.coords[2 * at.first], at.head, i, j);
    return mask_keeps_key(bits, j, p.threshold) ? p.keep_scale : 0;
}

template <class T>
__global__ void __launch_bounds__(WARPS *LANE) biased_kernel(struct biased p, const T *qkv, T *o, float *lse)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], sums[MAX_PARTS] = {0}, max = -INFINITY, sum = 0;
    if (!find_place(p, &at))
        return;
    load_head<T>(q, qkv, p, at.row, at.head, 0);
    for (int64_t j = 0; j < at.length; j++) {
        int32_t bucket = bias_bucket(at.row - at.first, j, p.buckets, p.furthest);
        load_head<T>(k, qkv, p, at.first + j, at.head, 1);
        load_head<T>(v, qkv, p, at.first + j, at.head, 2);
        float s = p.scale * dot(q, k) + p.table[bucket * p.heads + at.head], before = max;
        max = s > max || isnan(s) ? s : max;
        float shrink = before == -INFINITY ? 0 : expf(before - max), e = expf(s - max);
        float m = kept(p, at, at.row - at.first, j);
        sum = sum * shrink + e;
        for (int i = 0; i < MAX_PARTS; i++)
            sums[i] = sums[i] * shrink + m * e * v[i];
    }
    store_head<T>(o + at.row * (p.width / 3) + at.head * p.D, sums, p, at.length ? 1 / sum : 0);
    if (threadIdx.x % LANE == 0)
        lse[at.head * p.T + at.row] = at.length ? max + logf(sum) : 0;
}

/* dq of a row, and its part of the table's gradient (T, heads, buckets). */
template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    biased_dq_kernel(struct biased p, const T *qkv, const T *o, const T *dout, const float *lse, T *dqkv, float *parts)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], dy[MAX_PARTS], dq[MAX_PARTS] = {0}, entries[MAX_PARTS] = {0};
    if (!find_place(p, &at))
        return;
    load_head<T>(q, qkv, p, at.row, at.head, 0);
    load_out<T>(dy, dout, p, at.row, at.head);
    load_out<T>(v, o, p, at.row, at.head);
    float delta = dot(dy, v);
    for (int64_t j = 0; j < at.length; j++) {
        int32_t bucket = bias_bucket(at.row - at.first, j, p.buckets, p.furthest);
        load_head<T>(k, qkv, p, at.first + j, at.head, 1);
        load_head<T>(v, qkv, p, at.first + j, at.head, 2);
        float s = p.scale * dot(q, k) + p.table[bucket * p.heads + at.head];
        float ds = expf(s - lse[at.head * p.T + at.row]) * (kept(p, at, at.row - at.first, j) * dot(dy, v) - delta);
        for (int i = 0; i < MAX_PARTS; i++) {
            dq[i] += ds * k[i];
            entries[i] += bucket == (int32_t)(threadIdx.x % LANE) + i * LANE ? ds : 0;
        }
    }
    store_head<T>(dqkv + at.row * p.width + at.head * p.D, dq, p, p.scale);
    for (int i = 0; i < MAX_PARTS; i++) {
        int64_t b = threadIdx.x % LANE + i * LANE;
        if (b < p.buckets)
            parts[(at.row * p.heads + at.head) * p.buckets + b] = entries[i];
    }
}

/* dk and dv of a row. */
template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    biased_dkv_kernel(struct biased p, const T *qkv, const T *o, const T *dout, const float *lse, T *dqkv)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], dy[MAX_PARTS], y[MAX_PARTS], dk[MAX_PARTS] = {0},
                                                                                 dv[MAX_PARTS] = {0};
    if (!find_place(p, &at))
        return;
    load_head<T>(k, qkv, p, at.row, at.head, 1);
    load_head<T>(v, qkv, p, at.row, at.head, 2);
    for (int64_t i = 0; i < at.length; i++) {
        int64_t j = at.row - at.first;
        int32_t bucket = bias_bucket(i, j, p.buckets, p.furthest);
        load_head<T>(q, qkv, p, at.first + i, at.head, 0);
        load_out<T>(dy, dout, p, at.first + i, at.head);
        load_out<T>(y, o, p, at.first + i, at.head);
        float s = p.scale * dot(q, k) + p.table[bucket * p.heads + at.head], m = kept(p, at, i, j);
        float weight = expf(s - lse[at.head * p.T + at.first + i]), ds = weight * (m * dot(dy, v) - dot(dy, y));
        for (int n = 0; n < MAX_PARTS; n++) {
            dk[n] += ds * q[n];
            dv[n] += m * weight * dy[n];
        }
    }
    T *to = dqkv + at.row * p.width + p.width / 3 + at.head * p.D;
    store_head<T>(to, dk, p, p.scale);
    store_head<T>(to + p.width / 3, dv, p, 1);
}

/* A warp for an entry of the table: the sum of its parts over all rows. */
template <class T> __global__ void biased_table_kernel(struct biased p, const float *parts, T *dtable, bool add)
{
    int64_t entry = blockIdx.x, bucket = entry / p.heads, head = entry % p.heads;
    float sum[1] = {0};
    for (int64_t t = threadIdx.x; t < p.T; t += LANE)
        sum[0] += parts[(t * p.heads + head) * p.buckets + bucket];
    sum[0] = warp_sum(sum[0]);
    if (threadIdx.x == 0)
        store_or_add<T, 1>(dtable + entry, sum, add);
}

#define BIASED(a)                                                                                                      \
    {                                                                                                                  \
        (const int32_t *)(a)->cu.data, (const int32_t *)(a)->coords.data, (const int32_t *)(a)->rng.data,              \
            (const float *)(a)->table.data, (a)->cu.shape[0] - 1, (a)->qkv.shape[0], (a)->qkv.shape[1], (a)->heads,    \
            (a)->qkv.shape[1] / (3 * (a)->heads), (a)->table.shape[0], (a)->furthest, (a)->site, (float)(a)->scale,    \
            (float)mask_scale8((a)->p), (a)->p > 0 && (a)->coords.data ? mask_threshold8((a)->p) : 0                   \
    }

static unsigned blocks(const struct biased &p)
{
    return (unsigned)((p.T * p.heads + WARPS - 1) / WARPS);
}

extern "C" int cuda_attention_biased(const struct args_attention_biased *a, const struct cuda_call *c)
{
    struct biased p = BIASED(a);
    TRY(cuda_check_biased(p.D, p.buckets, "attention_biased", c->err));
    if (p.T > 0)
        WITH_FLOAT_TYPE(a->qkv.dtype, T,
                        biased_kernel<T><<<blocks(p), WARPS * LANE, 0, c->stream>>>(
                            p, (const T *)a->qkv.data, (T *)a->o.data, (float *)a->lse.data))
    return cuda_launched(c, "attention_biased");
}

extern "C" int64_t cuda_attention_biased_bwd_workspace(const struct args_attention_biased_bwd *a,
                                                       const struct cuda_call *c)
{
    (void)c;
    return a->qkv.shape[0] * a->heads * a->table.shape[0] * (int64_t)sizeof(float);
}

extern "C" int cuda_attention_biased_bwd(const struct args_attention_biased_bwd *a, const struct cuda_call *c)
{
    struct biased p = BIASED(a);
    float *parts = (float *)c->workspace;
    const float *lse = (const float *)a->lse.data;
    TRY(cuda_check_biased(p.D, p.buckets, "attention_biased_bwd", c->err));
    if (p.T > 0)
        WITH_FLOAT_TYPE(a->qkv.dtype, T, {
            const T *qkv = (const T *)a->qkv.data, *o = (const T *)a->o.data, *dout = (const T *)a->dout.data;
            T *dqkv = (T *)a->dqkv.data;
            biased_dq_kernel<T><<<blocks(p), WARPS * LANE, 0, c->stream>>>(p, qkv, o, dout, lse, dqkv, parts);
            biased_dkv_kernel<T><<<blocks(p), WARPS * LANE, 0, c->stream>>>(p, qkv, o, dout, lse, dqkv);
        })
    if (a->dtable.data)
        WITH_FLOAT_TYPE(a->dtable.dtype, T,
                        biased_table_kernel<T><<<(unsigned)(p.buckets * p.heads), LANE, 0, c->stream>>>(
                            p, parts, (T *)a->dtable.data, a->dtable.add))
    return cuda_launched(c, "attention_biased_bwd");
}
