/* Attention of new rows to a cache: one launch puts the new keys and values there, one attends, a warp for a row and a head.
 * A lane has every 32nd element of the head; the softmax goes along (Milakov and Gimelshein, arXiv 1805.02867). Bound by the
 * bytes of the cache. */
#include "op/attention/bias_bucket.h"

#include "cuda/kernels/sequences/bounds.cuh"

enum { LANE = 32, WARPS = 4, MAX_PARTS = 8 }; /* parts of a head in a lane: heads have at most 256 elements */

struct cached {
    const int32_t *cu, *kv_cu, *past; /* kv_cu NULL: new rows of the cache are those of cu */
    const float *table, *sinks;       /* NULL: no bias; no sinks */
    const int32_t *places; /* which row of the caches each row is, as `at` has it; NULL: sequence b has cache b */
    int64_t B, T, longest, width, row_width, heads, group, D, window; /* group: heads to a key head */
    int64_t buckets, furthest;
    float scale, softcap;
};

/* Which row of the caches is row j of sequence b. */
__device__ static inline int64_t cache_row(const struct cached *p, int64_t b, int64_t j)
{
    if (!p->places)
        return b * p->longest + j;
    return p->kv_cu ? p->places[b] + j : p->places[b * p->longest + j];
}

/* The sequence of a row and its place in what cu counts; false for a row behind the last sequence. */
__device__ static inline bool find_row(const int32_t *cu, int64_t B, int64_t row, int64_t *b, int64_t *at)
{
    struct bounds s = bounds_of(cu, B, row);
    *b = s.b;
    *at = row - s.from;
    return s.b >= 0;
}

/* Keys and values at the end of rows of `row_width`. */
template <class T> __global__ void append_kernel(struct cached p, const T *from, int64_t row_width, T *keys, T *values)
{
    int64_t b, at;
    if (!find_row(p.kv_cu ? p.kv_cu : p.cu, p.B, blockIdx.x, &b, &at))
        return;
    at += p.kv_cu ? 0 : p.past[b];
    const T *k = from + ((int64_t)blockIdx.x + 1) * row_width - 2 * p.width;
    int64_t to = cache_row(&p, b, at) * p.width;
    for (int64_t i = threadIdx.x; i < p.width; i += blockDim.x) {
        keys[to + i] = k[i];
        values[to + i] = k[p.width + i];
    }
}

/* Elements lane, lane + 32, … of a head. */
template <class T> __device__ static inline void load_head(float v[MAX_PARTS], const T *head, int64_t D, int lane)
{
    for (int i = 0; i < MAX_PARTS; i++)
        v[i] = lane + LANE * i < D ? to_float(head[lane + LANE * i]) : 0;
}

template <class T>
__global__ void __launch_bounds__(LANE *WARPS)
    attend_kernel(struct cached p, const T *qkv, const T *keys, const T *values, T *o)
{
    int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE, row = task / p.heads, head = task % p.heads, b, at;
    int lane = threadIdx.x % LANE;
    if (row >= p.T)
        return;
    float q[MAX_PARTS], sums[MAX_PARTS] = {0}, max = p.sinks ? p.sinks[head] : -INFINITY, total = p.sinks ? 1 : 0;
    if (find_row(p.cu, p.B, row, &b, &at)) {
        at = p.kv_cu ? p.past[b] - 1 : at + p.past[b]; /* the last key that it sees */
        int64_t part = head / p.group * p.D;
        load_head(q, qkv + row * p.row_width + head * p.D, p.D, lane);
        for (int64_t j = p.window && at >= p.window ? at - p.window + 1 : 0; j <= at; j++) {
            float v[MAX_PARTS], s = 0;
            int64_t place = cache_row(&p, b, j) * p.width + part;
            load_head(v, keys + place, p.D, lane);
            for (int i = 0; i < MAX_PARTS; i++)
                s += q[i] * v[i];
            s = warp_sum(s) * p.scale;
            s = p.softcap > 0 ? p.softcap * tanhf(s / p.softcap) : s;
            if (p.table && p.furthest)
                s += p.table[bias_bucket(at, j, p.buckets, p.furthest, true) * p.heads + head];
            else if (p.table)
                s += p.table[head] * (float)(j - at);
            float now = fmaxf(max, s), shrink = expf(max - now), weight = expf(s - now);
            load_head(v, values + place, p.D, lane);
            for (int i = 0; i < MAX_PARTS; i++)
                sums[i] = sums[i] * shrink + weight * v[i];
            total = total * shrink + weight;
            max = now;
        }
    }
    for (int i = 0; i < MAX_PARTS; i++)
        if (lane + LANE * i < p.D)
            o[task * p.D + lane + LANE * i] = from_float<T>(total > 0 ? sums[i] / total : sums[i]);
}

extern "C" int cuda_attention_cached(const struct args_attention_cached *a, const struct cuda_call *c)
{
    const struct tensor *from = a->kv.data ? &a->kv : &a->qkv;
    struct cached p = {.cu = (const int32_t *)a->cu.data,
                       .kv_cu = (const int32_t *)a->kv_cu.data,
                       .past = (const int32_t *)a->past.data,
                       .table = (const float *)a->table.data,
                       .sinks = (const float *)a->sinks.data,
                       .places = (const int32_t *)a->at.data,
                       .B = a->cu.shape[0] - 1,
                       .T = a->o.shape[0],
                       .longest = a->keys.shape[1],
                       .width = a->keys.shape[2],
                       .row_width = a->qkv.shape[1],
                       .heads = a->heads,
                       .group = a->heads / a->kv_heads,
                       .D = a->keys.shape[2] / a->kv_heads,
                       .window = a->window,
                       .buckets = a->table.shape[0],
                       .furthest = a->furthest,
                       .scale = (float)a->scale,
                       .softcap = (float)a->softcap};
    TRY(cuda_check_head(p.D, a->qkv.dtype, "attention_cached", c->err));
    unsigned blocks = (unsigned)((p.T * p.heads + WARPS - 1) / WARPS);
    if (from->shape[0] > 0)
        WITH_FLOAT_TYPE(a->qkv.dtype, T, {
            append_kernel<T><<<(unsigned)from->shape[0], 128, 0, c->stream>>>(p, (const T *)from->data, from->shape[1],
                                                                              (T *)a->keys.data, (T *)a->values.data);
        })
    if (p.T > 0)
        WITH_FLOAT_TYPE(a->qkv.dtype, T, {
            attend_kernel<T><<<blocks, LANE * WARPS, 0, c->stream>>>(p, (const T *)a->qkv.data, (const T *)a->keys.data,
                                                                     (const T *)a->values.data, (T *)a->o.data);
        })
    return cuda_launched(c, "attention_cached");
}
