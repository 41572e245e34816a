/* Disentangled attention. The tiles of attention/disentangled.cu do it where they fit. The kernels here take any head, a warp for a row
 * and a head: forward, the gradients of queries, and those of keys and values are a kernel each;
 * in a fourth a warp has a row of the relative positions and a head. A lane has every 32nd element of the head; the softmax goes along
 * (Milakov and Gimelshein, arXiv 1805.02867). Bound by operations, which are not on tensor cores: much slower than the kernels of
 * attention/. */
#include "cuda/attention/disentangled.cuh"
#include "cuda/kernels/disentangled.cuh"
#include "cuda/kernels/vector.cuh"

extern "C" {
#include "op/mask.h"
}

enum { LANE = 32, WARPS = 4, MAX_PARTS = 8 }; /* parts in a lane: heads have at most 256 elements */

struct disentangled {
    const int32_t *cu, *coords, *rng, *rows; /* rows: of distance 0 */
    int64_t B, T, width, heads, D, site;     /* width: of qkv */
    int64_t R, relative_width, longest;      /* longest: distances are below it */
    int64_t queries, keys;                   /* parts of relative, from 0; -1: that term is left out */
    float scale, keep_scale;
    uint32_t threshold; /* 0: nothing is dropped */
};

/* A head of a row: its sequence. */
struct place {
    int64_t row, head, first, length;
};

/* The number of this warp among those of the grid. */
__device__ static inline int64_t this_warp()
{
    return (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
}

__device__ static inline bool find_place(const struct disentangled &p, struct place *at)
{
    at->row = this_warp() / p.heads, at->head = this_warp() % p.heads;
    if (at->row >= p.T)
        return false;
    struct sequence s = sequence_of(p.cu, p.B, at->row);
    at->first = s.first, at->length = s.length;
    return true;
}

/* This lane's part of D elements. */
template <class T> __device__ static inline void load_head(float (&to)[MAX_PARTS], const T *from, int64_t D)
{
    for (int i = 0; i < MAX_PARTS; i++) {
        int64_t d = threadIdx.x % LANE + i * LANE;
        to[i] = d < D ? to_float(from[d]) : 0;
    }
}

/* The queries (0), keys (1) or values (2) of a row of qkv. */
template <class T>
__device__ static inline void load_content(float (&to)[MAX_PARTS], const T *qkv, const struct disentangled &p,
                                           int64_t row, int64_t head, int which)
{
    load_head<T>(to, qkv + row * p.width + which * (p.width / 3) + head * p.D, p.D);
}

/* Of a tensor of the heads' width a row: o and its gradient. */
template <class T>
__device__ static inline void load_out(float (&to)[MAX_PARTS], const T *o, const struct disentangled &p, int64_t row,
                                       int64_t head)
{
    load_head<T>(to, o + row * (p.width / 3) + head * p.D, p.D);
}

/* A part of a row of relative; 0 where that term is left out. */
template <class T>
__device__ static inline void load_relative(float (&to)[MAX_PARTS], const T *relative, const struct disentangled &p,
                                            int64_t row, int64_t head, int64_t part)
{
    load_head<T>(to, relative + row * p.relative_width + (part < 0 ? 0 : part) * (p.width / 3) + head * p.D,
                 part < 0 ? 0 : p.D);
}

template <class T>
__device__ static inline void store_head(T *to, const float (&v)[MAX_PARTS], int64_t D, float by, bool add)
{
    for (int i = 0; i < MAX_PARTS; i++) {
        int64_t d = threadIdx.x % LANE + i * LANE;
        if (d < D)
            to[d] = from_float<T>(v[i] * by + (add ? to_float(to[d]) : 0));
    }
}

__device__ static inline float dot(const float (&a)[MAX_PARTS], const float (&b)[MAX_PARTS])
{
    float sum = 0;
    for (int i = 0; i < MAX_PARTS; i++)
        sum += a[i] * b[i];
    return warp_sum(sum);
}

/* q . (k + K) + k . Q, of the positions' key K and query Q, times the scale. */
__device__ static inline float score(const struct disentangled &p, const float (&q)[MAX_PARTS],
                                     const float (&k)[MAX_PARTS], const float (&key)[MAX_PARTS],
                                     const float (&query)[MAX_PARTS])
{
    float sum = 0;
    for (int i = 0; i < MAX_PARTS; i++)
        sum += q[i] * (k[i] + key[i]) + k[i] * query[i];
    return p.scale * warp_sum(sum);
}

/* What dropout multiplies the weight of query i and key j with, which count within the sequence that begins at row `first`. */
__device__ static inline float kept(const struct disentangled &p, int64_t first, int64_t head, int64_t i, int64_t j)
{
    if (!p.threshold)
        return 1;
    struct philox bits = mask_attention_bits(p.rng, p.site, p.coords[2 * first], head, i, j);
    return mask_keeps_key(bits, j, p.threshold) ? p.keep_scale : 0;
}

template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    disentangled_kernel(struct disentangled p, const T *qkv, const T *relative, T *o, float *lse)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], key[MAX_PARTS], query[MAX_PARTS];
    float sums[MAX_PARTS] = {0}, max = -INFINITY, sum = 0;
    if (!find_place(p, &at))
        return;
    int64_t i = at.row - at.first;
    load_content<T>(q, qkv, p, at.row, at.head, 0);
    for (int64_t j = 0; j < at.length; j++) {
        int64_t r = p.rows[i - j];
        load_content<T>(k, qkv, p, at.first + j, at.head, 1);
        load_content<T>(v, qkv, p, at.first + j, at.head, 2);
        load_relative<T>(key, relative, p, r, at.head, p.keys);
        load_relative<T>(query, relative, p, r, at.head, p.queries);
        float s = score(p, q, k, key, query), before = max;
        max = s > max || isnan(s) ? s : max;
        float shrink = before == -INFINITY ? 0 : expf(before - max), e = expf(s - max);
        float m = kept(p, at.first, at.head, i, j);
        sum = sum * shrink + e;
        for (int n = 0; n < MAX_PARTS; n++)
            sums[n] = sums[n] * shrink + m * e * v[n];
    }
    store_head<T>(o + at.row * (p.width / 3) + at.head * p.D, sums, p.D, at.length ? 1 / sum : 0, false);
    if (threadIdx.x % LANE == 0)
        lse[at.head * p.T + at.row] = at.length ? max + logf(sum) : 0;
}

/* dq of a row; and delta = dout . o (A,T), for the kernels behind. */
template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    disentangled_dq_kernel(struct disentangled p, const T *qkv, const T *relative, const T *o, const T *dout,
                           const float *lse, T *dqkv, float *deltas)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], key[MAX_PARTS], query[MAX_PARTS], dy[MAX_PARTS],
        dq[MAX_PARTS] = {0};
    if (!find_place(p, &at))
        return;
    int64_t i = at.row - at.first;
    load_content<T>(q, qkv, p, at.row, at.head, 0);
    load_out<T>(dy, dout, p, at.row, at.head);
    load_out<T>(v, o, p, at.row, at.head);
    float delta = dot(dy, v), sum = lse[at.head * p.T + at.row];
    for (int64_t j = 0; j < at.length; j++) {
        int64_t r = p.rows[i - j];
        load_content<T>(k, qkv, p, at.first + j, at.head, 1);
        load_content<T>(v, qkv, p, at.first + j, at.head, 2);
        load_relative<T>(key, relative, p, r, at.head, p.keys);
        load_relative<T>(query, relative, p, r, at.head, p.queries);
        float weight = expf(score(p, q, k, key, query) - sum);
        float ds = weight * (kept(p, at.first, at.head, i, j) * dot(dy, v) - delta);
        for (int n = 0; n < MAX_PARTS; n++)
            dq[n] += ds * (k[n] + key[n]);
    }
    store_head<T>(dqkv + at.row * p.width + at.head * p.D, dq, p.D, p.scale, false);
    if (threadIdx.x % LANE == 0)
        deltas[at.head * p.T + at.row] = delta;
}

/* dk and dv of a row. */
template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    disentangled_dkv_kernel(struct disentangled p, const T *qkv, const T *relative, const T *dout, const float *lse,
                            const float *deltas, T *dqkv)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], key[MAX_PARTS], query[MAX_PARTS], dy[MAX_PARTS];
    float dk[MAX_PARTS] = {0}, dv[MAX_PARTS] = {0};
    if (!find_place(p, &at))
        return;
    int64_t j = at.row - at.first;
    load_content<T>(k, qkv, p, at.row, at.head, 1);
    load_content<T>(v, qkv, p, at.row, at.head, 2);
    for (int64_t i = 0; i < at.length; i++) {
        int64_t r = p.rows[i - j], row = at.head * p.T + at.first + i;
        load_content<T>(q, qkv, p, at.first + i, at.head, 0);
        load_out<T>(dy, dout, p, at.first + i, at.head);
        load_relative<T>(key, relative, p, r, at.head, p.keys);
        load_relative<T>(query, relative, p, r, at.head, p.queries);
        float weight = expf(score(p, q, k, key, query) - lse[row]), m = kept(p, at.first, at.head, i, j);
        float ds = weight * (m * dot(dy, v) - deltas[row]);
        for (int n = 0; n < MAX_PARTS; n++) {
            dk[n] += ds * (q[n] + query[n]);
            dv[n] += m * weight * dy[n];
        }
    }
    T *to = dqkv + at.row * p.width + p.width / 3 + at.head * p.D;
    store_head<T>(to, dk, p.D, p.scale, false);
    store_head<T>(to + p.width / 3, dv, p.D, 1, false);
}

/* dK and dQ of a row of relative: over all queries and keys that are so far apart, of all sequences. Other parts get 0. */
template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    disentangled_relative_kernel(struct disentangled p, const T *qkv, const T *relative, const T *dout,
                                 const float *lse, const float *deltas, T *drelative, bool add)
{
    int64_t r = this_warp() / p.heads, head = this_warp() % p.heads, parts = p.relative_width / (p.width / 3);
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], key[MAX_PARTS], query[MAX_PARTS], dy[MAX_PARTS];
    float dkey[MAX_PARTS] = {0}, dquery[MAX_PARTS] = {0}, nothing[MAX_PARTS] = {0};
    if (r >= p.R)
        return;
    int64_t nearest = first_distance(p.rows, p.longest, r), end = first_distance(p.rows, p.longest, r + 1);
    load_relative<T>(key, relative, p, r, head, p.keys);
    load_relative<T>(query, relative, p, r, head, p.queries);
    for (int64_t b = 0; b < p.B; b++) {
        int64_t first = p.cu[b], length = p.cu[b + 1] - first;
        for (int64_t i = 0; i < length; i++) {
            int64_t from = i - end + 1 > 0 ? i - end + 1 : 0, to = i - nearest < length ? i - nearest + 1 : length;
            if (from >= to)
                continue;
            int64_t row = head * p.T + first + i;
            load_content<T>(q, qkv, p, first + i, head, 0);
            load_out<T>(dy, dout, p, first + i, head);
            for (int64_t j = from; j < to; j++) {
                load_content<T>(k, qkv, p, first + j, head, 1);
                load_content<T>(v, qkv, p, first + j, head, 2);
                float weight = expf(score(p, q, k, key, query) - lse[row]);
                float ds = weight * (kept(p, first, head, i, j) * dot(dy, v) - deltas[row]);
                for (int n = 0; n < MAX_PARTS; n++) {
                    dkey[n] += ds * q[n];
                    dquery[n] += ds * k[n];
                }
            }
        }
    }
    for (int64_t part = 0; part < parts; part++) {
        T *to = drelative + r * p.relative_width + part * (p.width / 3) + head * p.D;
        if (part == p.keys)
            store_head<T>(to, dkey, p.D, p.scale, add);
        else if (part == p.queries)
            store_head<T>(to, dquery, p.D, p.scale, add);
        else if (!add)
            store_head<T>(to, nothing, p.D, 0, false);
    }
}

#define DISENTANGLED(a)                                                                                                \
    {                                                                                                                  \
        (const int32_t *)(a)->cu.data, (const int32_t *)(a)->coords.data, (const int32_t *)(a)->rng.data,              \
            (const int32_t *)(a)->rows.data + (a)->rows.shape[0] / 2, (a)->cu.shape[0] - 1, (a)->qkv.shape[0],         \
            (a)->qkv.shape[1], (a)->heads, (a)->qkv.shape[1] / (3 * (a)->heads), (a)->site, (a)->relative.shape[0],    \
            (a)->relative.shape[1], (a)->rows.shape[0] / 2 + 1, (a)->queries - 1, (a)->keys - 1, (float)(a)->scale,    \
            (float)mask_scale8((a)->p), (a)->p > 0 && (a)->coords.data ? mask_threshold8((a)->p) : 0                   \
    }

static unsigned blocks(const struct disentangled &p, int64_t rows)
{
    return (unsigned)((rows * p.heads + WARPS - 1) / WARPS);
}

/* Whether the tiles do it. Of either op's arguments. */
template <class A> static bool by_tiles(const A *a)
{
    return disentangled_fits(a->qkv.shape[1] / (3 * a->heads), a->relative.shape[0], a->scale, a->qkv.dtype);
}

extern "C" int64_t cuda_attention_disentangled_workspace(const struct args_attention_disentangled *a,
                                                         const struct cuda_call *c)
{
    return by_tiles(a) ? disentangled_forward_workspace(a, c) : 0;
}

extern "C" int cuda_attention_disentangled(const struct args_attention_disentangled *a, const struct cuda_call *c)
{
    struct disentangled p = DISENTANGLED(a);
    TRY(cuda_check_row_head(p.D, "attention_disentangled", c->err));
    if (p.T > 0 && by_tiles(a))
        return disentangled_forward(a, c);
    if (p.T > 0)
        WITH_FLOAT_TYPE(
            a->qkv.dtype, T,
            disentangled_kernel<T><<<blocks(p, p.T), WARPS * LANE, 0, c->stream>>>(
                p, (const T *)a->qkv.data, (const T *)a->relative.data, (T *)a->o.data, (float *)a->lse.data))
    return cuda_launched(c, "attention_disentangled");
}

extern "C" int64_t cuda_attention_disentangled_bwd_workspace(const struct args_attention_disentangled_bwd *a,
                                                             const struct cuda_call *c)
{
    if (by_tiles(a))
        return disentangled_backward_workspace(a, c);
    return a->qkv.shape[0] * a->heads * (int64_t)sizeof(float);
}

extern "C" int cuda_attention_disentangled_bwd(const struct args_attention_disentangled_bwd *a,
                                               const struct cuda_call *c)
{
    struct disentangled p = DISENTANGLED(a);
    float *deltas = (float *)c->workspace;
    const float *lse = (const float *)a->lse.data;
    TRY(cuda_check_row_head(p.D, "attention_disentangled_bwd", c->err));
    if (p.T > 0 && by_tiles(a))
        return disentangled_backward(a, c);
    WITH_FLOAT_TYPE(a->qkv.dtype, T, {
        const T *qkv = (const T *)a->qkv.data, *relative = (const T *)a->relative.data;
        const T *o = (const T *)a->o.data, *dout = (const T *)a->dout.data;
        T *dqkv = (T *)a->dqkv.data, *drelative = (T *)a->drelative.data;
        if (p.T > 0) {
            disentangled_dq_kernel<T>
                <<<blocks(p, p.T), WARPS * LANE, 0, c->stream>>>(p, qkv, relative, o, dout, lse, dqkv, deltas);
            disentangled_dkv_kernel<T>
                <<<blocks(p, p.T), WARPS * LANE, 0, c->stream>>>(p, qkv, relative, dout, lse, deltas, dqkv);
        }
        if (drelative)
            disentangled_relative_kernel<T><<<blocks(p, p.R), WARPS * LANE, 0, c->stream>>>(
                p, qkv, relative, dout, lse, deltas, drelative, a->drelative.add);
    })
    return cuda_launched(c, "attention_disentangled_bwd");
}
