/* Attention of one set of sequences to another, with a bias by distance. The kernels of attention/ do it where it fits their tiles.
 * Those here take any head: a warp for a row and a head; forward, the gradients of queries and of the table, and those of keys and values
 * are a kernel each. A lane has every 32nd element of the head; the softmax goes along (Milakov and Gimelshein, arXiv 1805.02867). Bound
 * by operations, which are not on tensor cores. */
#include "cuda/attention/attention.cuh"
#include "cuda/kernels/sequences/bounds.cuh"
#include "cuda/kernels/vector.cuh"

extern "C" {
#include "op/attention/bias_bucket.h"
}

enum {
    LANE = 32,
    WARPS = 4,
    MAX_PARTS = 8
}; /* parts in a lane: heads have at most 256 elements, tables at most 256 entries */

/* Rows of one side: queries, or keys with values; the pitches count elements. */
struct side {
    const int32_t *cu;
    int64_t rows, pitch;
};

struct general {
    struct side q, kv;
    const int32_t *coords, *rng;
    const float *table;                                  /* NULL: no bias */
    int64_t B, width, heads, D, buckets, furthest, site; /* width: of all queries, all keys, all values of a row */
    bool causal;
    float scale, keep_scale;
    uint32_t threshold; /* 0: nothing is dropped */
};

/* A row and a head: its sequence, and the rows of the other side that this one goes with. */
struct place {
    int64_t row, head, first, length, other_first, other_length;
};

__device__ static inline bool find_place(const struct general &p, const struct side &own, const struct side &other,
                                         struct place *at)
{
    int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
    *at = {task / p.heads, task % p.heads, 0, 0, 0, 0};
    if (at->row >= own.rows)
        return false;
    struct bounds s = bounds_of(own.cu, p.B, at->row);
    if (s.b < 0)
        return true;
    at->first = s.from, at->length = s.to - s.from;
    at->other_first = other.cu[s.b], at->other_length = other.cu[s.b + 1] - other.cu[s.b];
    return true;
}

/* This lane's part of a head in a row of any tensor of heads. */
template <class T>
__device__ static inline void load_head(float (&to)[MAX_PARTS], const T *x, const struct general &p, int64_t row,
                                        int64_t pitch, int64_t head)
{
    const T *from = x + row * pitch + head * p.D;
    for (int i = 0; i < MAX_PARTS; i++) {
        int64_t d = threadIdx.x % LANE + i * LANE;
        to[i] = d < p.D ? to_float(from[d]) : 0;
    }
}

template <class T>
__device__ static inline void store_head(T *to, const float (&v)[MAX_PARTS], const struct general &p, float by)
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

/* What dropout multiplies the weight of query i and key j with, which count within the sequence; sample: the sequence's. */
__device__ static inline float kept(const struct general &p, int32_t sample, int64_t head, int64_t i, int64_t j)
{
    struct philox bits = mask_attention_bits(p.rng, p.site, sample, head, i, j);
    return mask_keeps_key(bits, j, p.threshold) ? p.keep_scale : 0;
}

__device__ static inline int32_t bucket_of(const struct general &p, int64_t i, int64_t j)
{
    return p.table && p.furthest ? bias_bucket(i, j, p.buckets, p.furthest, p.causal) : 0;
}

/* Of key j and query i, which are in this bucket. */
__device__ static inline float score(const struct general &p, float dot, int64_t head, int32_t bucket, int64_t i,
                                     int64_t j)
{
    float entry = p.table ? p.table[bucket * p.heads + head] : 0;
    return p.scale * dot + (p.furthest ? entry : entry * (float)(j - i));
}

/* Behind the last key that query i sees. */
__device__ static inline int64_t end_of_keys(const struct general &p, int64_t i, int64_t keys)
{
    return p.causal && i + 1 < keys ? i + 1 : keys;
}

template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    general_kernel(struct general p, const T *queries, const T *keys, const T *values, T *o, float *lse)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], sums[MAX_PARTS] = {0}, max = -INFINITY, sum = 0;
    if (!find_place(p, p.q, p.kv, &at))
        return;
    int64_t i = at.row - at.first, end = end_of_keys(p, i, at.other_length);
    load_head<T>(q, queries, p, at.row, p.q.pitch, at.head);
    for (int64_t j = 0; j < end; j++) {
        load_head<T>(k, keys, p, at.other_first + j, p.kv.pitch, at.head);
        load_head<T>(v, values, p, at.other_first + j, p.kv.pitch, at.head);
        float s = score(p, dot(q, k), at.head, bucket_of(p, i, j), i, j), before = max;
        max = s > max || isnan(s) ? s : max;
        float shrink = before == -INFINITY ? 0 : expf(before - max), e = expf(s - max);
        float m = p.threshold ? kept(p, p.coords[2 * at.first], at.head, i, j) : 1;
        sum = sum * shrink + e;
        for (int n = 0; n < MAX_PARTS; n++)
            sums[n] = sums[n] * shrink + m * e * v[n];
    }
    store_head<T>(o + at.row * p.width + at.head * p.D, sums, p, end > 0 ? 1 / sum : 0);
    if (threadIdx.x % LANE == 0)
        lse[at.head * p.q.rows + at.row] = end > 0 ? max + logf(sum) : 0;
}

/* dq of a row, and its part of the table's gradient (T, heads, buckets). */
template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    general_dq_kernel(struct general p, const T *queries, const T *keys, const T *values, const T *o, const T *dout,
                      const float *lse, T *dq_out, float *parts)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], dy[MAX_PARTS], dq[MAX_PARTS] = {0}, entries[MAX_PARTS] = {0};
    if (!find_place(p, p.q, p.kv, &at))
        return;
    int64_t i = at.row - at.first, end = end_of_keys(p, i, at.other_length);
    load_head<T>(q, queries, p, at.row, p.q.pitch, at.head);
    load_head<T>(dy, dout, p, at.row, p.width, at.head);
    load_head<T>(v, o, p, at.row, p.width, at.head);
    float delta = dot(dy, v);
    for (int64_t j = 0; j < end; j++) {
        int32_t bucket = bucket_of(p, i, j);
        load_head<T>(k, keys, p, at.other_first + j, p.kv.pitch, at.head);
        load_head<T>(v, values, p, at.other_first + j, p.kv.pitch, at.head);
        float s = score(p, dot(q, k), at.head, bucket, i, j);
        float m = p.threshold ? kept(p, p.coords[2 * at.first], at.head, i, j) : 1;
        float ds = expf(s - lse[at.head * p.q.rows + at.row]) * (m * dot(dy, v) - delta);
        for (int n = 0; n < MAX_PARTS; n++) {
            dq[n] += ds * k[n];
            entries[n] += bucket == (int32_t)(threadIdx.x % LANE) + n * LANE ? ds : 0;
        }
    }
    store_head<T>(dq_out + at.row * p.q.pitch + at.head * p.D, dq, p, p.scale);
    for (int n = 0; n < MAX_PARTS && p.table; n++) {
        int64_t b = threadIdx.x % LANE + n * LANE;
        if (b < p.buckets)
            parts[(at.row * p.heads + at.head) * p.buckets + b] = entries[n];
    }
}

/* dk and dv of a row of keys. */
template <class T>
__global__ void __launch_bounds__(WARPS *LANE)
    general_dkv_kernel(struct general p, const T *queries, const T *keys, const T *values, const T *o, const T *dout,
                       const float *lse, T *dk_out, T *dv_out)
{
    struct place at;
    float q[MAX_PARTS], k[MAX_PARTS], v[MAX_PARTS], dy[MAX_PARTS], y[MAX_PARTS], dk[MAX_PARTS] = {0},
                                                                                 dv[MAX_PARTS] = {0};
    if (!find_place(p, p.kv, p.q, &at))
        return;
    int64_t j = at.row - at.first;
    load_head<T>(k, keys, p, at.row, p.kv.pitch, at.head);
    load_head<T>(v, values, p, at.row, p.kv.pitch, at.head);
    for (int64_t i = p.causal ? j : 0; i < at.other_length; i++) {
        int64_t row = at.other_first + i;
        load_head<T>(q, queries, p, row, p.q.pitch, at.head);
        load_head<T>(dy, dout, p, row, p.width, at.head);
        load_head<T>(y, o, p, row, p.width, at.head);
        float s = score(p, dot(q, k), at.head, bucket_of(p, i, j), i, j);
        float m = p.threshold ? kept(p, p.coords[2 * at.other_first], at.head, i, j) : 1;
        float weight = expf(s - lse[at.head * p.q.rows + row]), ds = weight * (m * dot(dy, v) - dot(dy, y));
        for (int n = 0; n < MAX_PARTS; n++) {
            dk[n] += ds * q[n];
            dv[n] += m * weight * dy[n];
        }
    }
    store_head<T>(dk_out + at.row * p.kv.pitch + at.head * p.D, dk, p, p.scale);
    store_head<T>(dv_out + at.row * p.kv.pitch + at.head * p.D, dv, p, 1);
}

/* A warp for an entry of the table: the sum of its parts (n, heads, buckets). */
template <class T>
__global__ void general_table_kernel(struct general p, const float *parts, int64_t n, T *dtable, bool add)
{
    int64_t entry = blockIdx.x, bucket = entry / p.heads, head = entry % p.heads;
    float sum[1] = {0};
    for (int64_t t = threadIdx.x; t < n; t += LANE)
        sum[0] += parts[(t * p.heads + head) * p.buckets + bucket];
    sum[0] = warp_sum(sum[0]);
    if (threadIdx.x == 0)
        store_or_add<T, 1>(dtable + entry, sum, add);
}

/* ---- launching ---- */

/* Of either op's arguments, which have what it wants under the same names. */
template <class A> static struct general general_of(const A *a)
{
    bool own = !a->kv.ndim; /* q has the keys, too */
    int64_t width = own ? a->q.shape[1] / 3 : a->q.shape[1];
    bool drops = a->p > 0 && a->coords.data;
    struct general p = {};
    p.q = {(const int32_t *)a->cu.data, a->q.shape[0], a->q.shape[1]};
    p.kv = own ? p.q : side{(const int32_t *)a->kv_cu.data, a->kv.shape[0], a->kv.shape[1]};
    p.coords = (const int32_t *)a->coords.data, p.rng = (const int32_t *)a->rng.data;
    p.table = (const float *)a->table.data;
    p.B = a->cu.shape[0] - 1, p.width = width, p.heads = a->heads, p.D = width / a->heads;
    p.buckets = a->table.shape[0], p.furthest = a->furthest, p.site = a->site, p.causal = a->causal;
    p.scale = (float)a->scale, p.keep_scale = (float)mask_scale8(a->p);
    p.threshold = drops ? mask_threshold8(a->p) : 0;
    return p;
}

static unsigned blocks(const struct general &p, const struct side &of)
{
    return (unsigned)((of.rows * p.heads + WARPS - 1) / WARPS);
}

/* For the kernels of attention/. */
template <class A> static struct attention_params tiles_of(const A *a, const struct general &p)
{
    struct attention_params t = {};
    t.qkv = a->q.data, t.o = a->o.data, t.lse = (float *)a->lse.data;
    t.keys = a->kv.ndim ? a->kv.data : (char *)a->q.data + dtype_bytes(a->q.dtype, p.width);
    t.cu = p.q.cu, t.kv_cu = p.kv.cu, t.coords = p.coords, t.rng = p.rng;
    t.T = (int)p.q.rows, t.kv_rows = (int)p.kv.rows, t.B = (int)p.B, t.heads = t.kv_heads = (int)p.heads,
    t.D = (int)p.D;
    t.q_width = (int)p.q.pitch, t.kv_width = (int)p.kv.pitch, t.causal = p.causal;
    t.table = p.table, t.buckets = (int)p.buckets, t.furthest = (int)p.furthest;
    t.scale = p.scale, t.keep_scale = p.keep_scale, t.site = (uint32_t)p.site, t.threshold = p.threshold;
    return t;
}

extern "C" int cuda_attention_general(const struct args_attention_general *a, const struct cuda_call *c)
{
    struct general p = general_of(a);
    struct attention_params tiles = tiles_of(a, p);
    TRY(cuda_check_general(p.D, p.buckets, "attention_general", c->err));
    if (p.q.rows == 0)
        return SNUG_OK;
    if (attention_general_fits(&tiles, a->q.dtype))
        return FOR_DTYPE(general_forward, a->q.dtype, c)(&tiles, c);
    WITH_FLOAT_TYPE(a->q.dtype, T, {
        const T *keys = (const T *)tiles.keys;
        general_kernel<T><<<blocks(p, p.q), WARPS * LANE, 0, c->stream>>>(p, (const T *)a->q.data, keys, keys + p.width,
                                                                          (T *)a->o.data, (float *)a->lse.data);
    })
    return cuda_launched(c, "attention_general");
}

/* The workspace: statistics (A,T) of tiles, then the parts of the table's gradient, which are a tile's or a row's. */
struct layout {
    int64_t statistics, parts; /* bytes of the first, rows of the second */
};

static struct layout layout_of(const struct attention_params *t, enum dtype dtype)
{
    bool tiles = attention_general_fits(t, dtype);
    return {tiles ? t->heads * (int64_t)t->T * (int64_t)sizeof(float2) : 0, !t->buckets ? 0
                                                                            : tiles     ? block_places(t->T, t->B, TILE)
                                                                                        : t->T};
}

extern "C" int64_t cuda_attention_general_bwd_workspace(const struct args_attention_general_bwd *a,
                                                        const struct cuda_call *c)
{
    struct general p = general_of(a);
    struct attention_params tiles = tiles_of(a, p);
    struct layout l = layout_of(&tiles, a->q.dtype);
    (void)c;
    return l.statistics + l.parts * p.heads * p.buckets * (int64_t)sizeof(float);
}

extern "C" int cuda_attention_general_bwd(const struct args_attention_general_bwd *a, const struct cuda_call *c)
{
    struct general p = general_of(a);
    struct attention_params tiles = tiles_of(a, p);
    struct layout l = layout_of(&tiles, a->q.dtype);
    float *parts = (float *)((char *)c->workspace + l.statistics);
    TRY(cuda_check_general(p.D, p.buckets, "attention_general_bwd", c->err));
    tiles.dout = a->dout.data, tiles.dqkv = a->dq.data, tiles.statistics = (float2 *)c->workspace;
    tiles.dkeys = a->kv.ndim ? a->dkv.data : (char *)a->dq.data + dtype_bytes(a->q.dtype, p.width);
    tiles.table_parts = a->dtable.data ? parts : NULL;
    if (attention_general_fits(&tiles, a->q.dtype))
        TRY(FOR_DTYPE(general_backward, a->q.dtype, c)(&tiles, c));
    else
        WITH_FLOAT_TYPE(a->q.dtype, T, {
            const T *q = (const T *)a->q.data, *k = (const T *)tiles.keys, *v = k + p.width;
            const T *o = (const T *)a->o.data, *dout = (const T *)a->dout.data;
            T *dq = (T *)a->dq.data, *dk = (T *)tiles.dkeys;
            if (p.q.rows > 0)
                general_dq_kernel<T>
                    <<<blocks(p, p.q), WARPS * LANE, 0, c->stream>>>(p, q, k, v, o, dout, tiles.lse, dq, parts);
            if (dk && p.kv.rows > 0)
                general_dkv_kernel<T>
                    <<<blocks(p, p.kv), WARPS * LANE, 0, c->stream>>>(p, q, k, v, o, dout, tiles.lse, dk, dk + p.width);
        })
    if (a->dtable.data)
        WITH_FLOAT_TYPE(a->dtable.dtype, T,
                        general_table_kernel<T><<<(unsigned)(p.buckets * p.heads), LANE, 0, c->stream>>>(
                            p, parts, l.parts, (T *)a->dtable.data, a->dtable.add))
    return cuda_launched(c, "attention_general_bwd");
}
