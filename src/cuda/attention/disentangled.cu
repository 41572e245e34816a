/* disentangled.cu: disentangled attention (op/attention/attention_disentangled.c) as attention with a bias for each query and key. Of
 * some heads at a time:
 *
 *     C[t,r]  = what a row (a query, or a key) makes of row r of the relative positions: a product for each term of the scores
 *     bias    = scale (C of the query + C of the key) at the row of their distance, for queries and, backward, turned for keys
 *     forward, or dq and then dk and dv: attention's kernels of BIASED scores, which leave the gradients of scores where biases were
 *     dC[t,r] = the gradients of a row's scores, summed over the distances that have row r; in the place of C
 *     the content's gradient += dC relative; the gradient of relative = dC^T content
 *
 * What is beside the products and attention moves C, biases and gradients of scores, of 16 bits an element at best, once or twice through
 * memory. Bound by instructions: on an H200 these kernels take two to four times as long as their bytes. */
#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_biases.cuh"
#include "cuda/attention/disentangled.cuh"
#include "cuda/kernels/disentangled.cuh"

extern "C" {
#include "cuda/products/products.h"
#include "op/mask.h"
}

enum {
    THREADS = 256,
    MOST_ROWS = 1 << 16, /* of relative: their numbers go into 16 bits */
    SUMMED = 32,         /* rows of dC of a block */
};

/* What a launch takes at a time of heads: as many as want so many bytes, but one at least. */
static const int64_t MOST_BYTES = INT64_C(256) << 20;

/* A node. Term 0 of the scores is the query's content and the positions' keys, term 1 the key's content and the positions' queries. */
struct node {
    int64_t T, B, heads, D, R, longest;   /* as the op has them */
    int64_t width, relative_width;        /* elements of a row of qkv, of relative */
    int64_t part[2];                      /* of relative, from 0; -1: that term is left out */
    int64_t C_pitch, bias_pitch;          /* elements of a row */
    int64_t at_a_time;                    /* heads; they divide all */
    int64_t products, starts, statistics; /* bytes of what lies in front of the workspace */
    int64_t C, biases;                    /* bytes of one term's C, of biases of one side, of the heads at a time */
    int64_t workspace;                    /* bytes */
    enum dtype dtype;
    bool backward, tf32;
};

struct matrices {
    const char *qkv, *relative;
    char *dqkv; /* backward */
};

static int64_t bytes_of(const struct node *n, int64_t elements)
{
    return dtype_bytes(n->dtype, elements);
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* ---- products, one for each of the heads at a time ---- */

/* OP_linear: C; OP_linear_dx: added to the content's gradient; OP_linear_dw: the gradient of relative. */
static struct cuda_product product_of(const struct node *n, enum op op, enum dtype out, bool add)
{
    struct cuda_product p = {};
    p.op = op, p.N = n->T, p.I = n->D, p.O = n->R;
    p.in = n->dtype, p.out = out, p.bias = DT_U8, p.add = add, p.tf32 = n->tf32, p.align = 16;
    p.heads = n->at_a_time;
    p.rows_pitch = op == OP_linear ? n->width : n->C_pitch;
    p.rows_step = op == OP_linear ? n->D : n->T * n->C_pitch;
    p.factor_pitch = op == OP_linear_dw ? n->width : n->relative_width;
    p.factor_step = n->D;
    p.result_pitch = op == OP_linear ? n->C_pitch : op == OP_linear_dx ? n->width : n->relative_width;
    p.result_step = op == OP_linear ? n->T * n->C_pitch : n->D;
    return p;
}

static int64_t product_workspace(const struct node *n, enum op op, enum dtype out, bool add, const struct cuda_call *c)
{
    struct cuda_product p = product_of(n, op, out, add);
    return cuda_products_workspace(c->products, &p);
}

/* ---- biases ---- */

struct expand {
    const int32_t *cu, *rows; /* rows: of distance 0 */
    int64_t T, B, longest, C_pitch, bias_pitch;
    bool terms[2];
    float scale;
};

/* Two neighbours of a row of C, at the rows that `near` has of two distances; 0 where there is none. */
template <class T> __device__ static inline float2 two_of(const T *row, int near, bool first, bool second)
{
    return make_float2(first ? to_float(row[near & 0xFFFF]) : 0, second ? to_float(row[(unsigned)near >> 16]) : 0);
}

__device__ static inline float limited(float bias)
{
    return bias > MOST_BIAS ? MOST_BIAS : bias < -MOST_BIAS ? -MOST_BIAS : bias; /* NaN stays */
}

template <class B> __device__ static inline void store_two(B *to, float2 biases)
{
    *(pack<B, 2> *)to = {{from_float<B>(biases.x), from_float<B>(biases.y)}};
}

/* A tile of TILE queries and keys, two neighbours a thread. C of the query lies along the keys, C of the key along the queries: that is
 * turned in shared memory, and so are the biases for keys. Bound by instructions. */
template <class T, bool BACKWARD>
__global__ void __launch_bounds__(THREADS)
    expand_kernel(struct expand p, const T *of_queries, const T *of_keys, bias_t<T> *biases, bias_t<T> *biases_of_keys)
{
    constexpr int STEP = 2 * THREADS / TILE, STEPS = TILE / STEP;
    __shared__ float tile[TILE][TILE + 1];
    __shared__ int up[2 * TILE], down[2 * TILE]; /* of each distance its row, and that of the next or the one before */
    struct block_rows rows = block_find<TILE>(p.cu, (int)p.T, (int)p.B, (int)blockIdx.x);
    int i0 = rows.at, j0 = (int)blockIdx.y * TILE, x = (int)threadIdx.x % 32 * 2, y0 = (int)threadIdx.x / 32;
    if (rows.padding || i0 >= rows.length || j0 >= rows.length)
        return;
    int queries = min(TILE, rows.length - i0), keys = min(TILE, rows.length - j0), nearest = i0 - j0 - (TILE - 1);
    int64_t first = blockIdx.z * p.T + rows.first, query = first + i0 + y0, key = first + j0 + y0;
    for (int n = (int)threadIdx.x; n < 2 * TILE - 1; n += THREADS) {
        int most = (int)p.longest - 1, d = nearest + n;
        int own = p.rows[max(-most, min(most, d))];
        up[n] = own | p.rows[max(-most, min(most, d + 1))] << 16;
        down[n] = own | p.rows[max(-most, min(most, d - 1))] << 16;
    }
    __syncthreads();
    if (p.terms[1]) {
        const T *row = of_keys + key * p.C_pitch;
        float2 c[STEPS];
#pragma unroll
        for (int n = 0; n < STEPS; n++, row += STEP * p.C_pitch) {
            int y = y0 + n * STEP;
            c[n] = two_of(row, up[x - y + TILE - 1], x < queries && y < keys, x + 1 < queries && y < keys);
        }
#pragma unroll
        for (int n = 0; n < STEPS; n++) {
            tile[x][y0 + n * STEP] = c[n].x;
            tile[x + 1][y0 + n * STEP] = c[n].y;
        }
        __syncthreads();
    }
    float2 bias[STEPS];
    const T *row = of_queries + query * p.C_pitch;
#pragma unroll
    for (int n = 0; n < STEPS; n++, row += STEP * p.C_pitch) {
        int y = y0 + n * STEP;
        bool there = p.terms[0] && y < queries;
        bias[n] = two_of(row, down[y - x + TILE - 1], there && x < keys, there && x + 1 < keys);
    }
    bias_t<T> *to = biases + query * p.bias_pitch + j0 + x;
#pragma unroll
    for (int n = 0; n < STEPS; n++, to += STEP * p.bias_pitch) {
        int y = y0 + n * STEP;
        if (p.terms[1])
            bias[n].x += tile[y][x], bias[n].y += tile[y][x + 1];
        bias[n] = make_float2(limited(p.scale * bias[n].x), limited(p.scale * bias[n].y));
        if (x < keys && y < queries)
            store_two(to, bias[n]);
    }
    if constexpr (BACKWARD) {
#pragma unroll
        for (int n = 0; n < STEPS; n++) /* what this thread alone has read */
            tile[y0 + n * STEP][x] = bias[n].x, tile[y0 + n * STEP][x + 1] = bias[n].y;
        __syncthreads();
        to = biases_of_keys + key * p.bias_pitch + i0 + x;
#pragma unroll
        for (int n = 0; n < STEPS; n++, to += STEP * p.bias_pitch) {
            int y = y0 + n * STEP;
            if (x < queries && y < keys)
                store_two(to, make_float2(tile[x][y], tile[x + 1][y]));
        }
    }
}

/* ---- gradients of C ---- */

/* starts[r]: the least distance whose row is r or behind it, for r from 0 to R. */
__global__ static void starts_kernel(const int32_t *rows, int64_t longest, int64_t R, int32_t *starts)
{
    int64_t r = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (r <= R)
        starts[r] = (int32_t)first_distance(rows, longest, r);
}

__host__ __device__ static inline int64_t starts_bytes(int64_t R)
{
    return (4 * (R + 1) + 15) / 16 * 16;
}

struct sums {
    const int32_t *cu, *starts;
    int64_t T, B, R, C_pitch, slope_pitch;
    bool of_keys; /* rows are keys: a distance d lies d behind, not before */
};

/* A row's slopes come to shared memory, `row`. */
template <class T> __device__ static inline void load_slopes(T *row, const T *slopes, int length)
{
    constexpr int WIDTH = 16 / (int)sizeof(T); /* rows are as wide as a multiple of that */
    __syncwarp();
    for (int i = (int)threadIdx.x % 32 * WIDTH; i < length; i += 32 * WIDTH)
        *(int4 *)(row + i) = *(const int4 *)(slopes + i);
    __syncwarp();
}

/* The sum of the slopes of distances [from, end), of which 0 lies at `at`; by all lanes where one of them has many. */
template <class T> __device__ static inline float sum_of_slopes(const T *at, int from, int end, int sign)
{
    constexpr int MANY = 32;
    float sum = 0;
    if (end - from <= MANY)
        for (int d = from; d < end; d++)
            sum += to_float(at[sign * d]);
    for (unsigned many = __ballot_sync(0xFFFFFFFFu, end - from > MANY); many;) {
        int owner = 31 - __clz((int)many), lane = (int)threadIdx.x % 32;
        int its_from = __shfl_sync(0xFFFFFFFFu, from, owner), its_end = __shfl_sync(0xFFFFFFFFu, end, owner);
        float part = 0;
        for (int d = its_from + lane; d < its_end; d += 32)
            part += to_float(at[sign * d]);
        part = warp_sum(part);
        sum = lane == owner ? part : sum;
        many ^= 1u << owner;
    }
    return sum;
}

/* SUMMED rows of dC by a block, a row after the other by a warp, two neighbouring elements of it by a lane. Positions are told apart so
 * well that most elements are of one distance, and the others of a few. Shared memory: the starts, then a row of slopes a warp. */
template <class T> __global__ void __launch_bounds__(THREADS) sums_kernel(struct sums p, const T *slopes, T *dC)
{
    extern __shared__ __align__(16) char memory[];
    __shared__ int2 places[SUMMED]; /* of a row within its sequence, and that one's length */
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32, R = (int)p.R;
    int *starts = (int *)memory, sign = p.of_keys ? 1 : -1;
    T *row = (T *)(memory + starts_bytes(p.R)) + warp * p.slope_pitch;
    int64_t t0 = (int64_t)blockIdx.x * SUMMED, first = blockIdx.y * p.T + t0;
    for (int r = (int)threadIdx.x; r <= R; r += (int)blockDim.x)
        starts[r] = p.starts[r];
    for (int n = (int)threadIdx.x; n < SUMMED;
         n += (int)blockDim.x) { /* rows behind the last sequence have no slopes */
        struct sequence s = sequence_of(p.cu, p.B, t0 + n);
        places[n] = make_int2((int)(t0 + n - s.first), (int)s.length);
    }
    __syncthreads();
    for (int n = warp; n < SUMMED && t0 + n < p.T; n += warps) {
        int at = places[n].x, length = places[n].y;
        int least = p.of_keys ? -at : at - length + 1, end = least + length; /* of the distances that there are */
        T *to = dC + (first + n) * p.C_pitch;
        load_slopes(row, slopes + (first + n) * p.slope_pitch, length);
        for (int r0 = 0; r0 < (int)p.C_pitch; r0 += 64) {
            int r = r0 + 2 * lane, start[3];
#pragma unroll
            for (int k = 0; k < 3; k++)
                start[k] = max(least, min(end, starts[min(r + k, R)]));
            float even = sum_of_slopes(row + at, start[0], start[1], sign);
            float odd = sum_of_slopes(row + at, start[1], start[2], sign);
            if (r < (int)p.C_pitch)
                *(pack<T, 2> *)(to + r) = {{from_float<T>(even), from_float<T>(odd)}};
        }
    }
}

/* Of warps, each with a row of slopes, as many as shared memory has room for. */
static int warps_of_sums(const struct sums &p, int64_t element)
{
    const int64_t most = 96 << 10;
    int64_t warps = (most - starts_bytes(p.R)) / (p.slope_pitch * element);
    return (int)(warps < 1 ? 1 : warps > THREADS / 32 ? THREADS / 32 : warps);
}

template <class T>
static int sums_launch(const struct sums &p, const T *slopes, T *dC, int heads, const struct cuda_call *c)
{
    int warps = warps_of_sums(p, sizeof(T));
    int bytes = (int)(starts_bytes(p.R) + warps * p.slope_pitch * (int64_t)sizeof(T));
    dim3 grid((unsigned)((p.T + SUMMED - 1) / SUMMED), (unsigned)heads);
    TRY(cuda_check(cudaFuncSetAttribute(sums_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                   "attention_disentangled_bwd", c->err));
    sums_kernel<T><<<grid, (unsigned)(32 * warps), (size_t)bytes, c->stream>>>(p, slopes, dC);
    return SNUG_OK;
}

/* ---- a node ---- */

/* Of either op's arguments, which have what it wants under the same names. */
template <class A> static struct node node_of(const A *a, bool backward, const struct cuda_call *c)
{
    struct node n = {};
    n.T = a->qkv.shape[0], n.B = a->cu.shape[0] - 1, n.heads = a->heads, n.width = a->qkv.shape[1];
    n.D = n.width / (3 * n.heads), n.R = a->relative.shape[0], n.relative_width = a->relative.shape[1];
    n.longest = a->rows.shape[0] / 2 + 1;
    n.part[0] = a->keys - 1, n.part[1] = a->queries - 1;
    n.C_pitch = (n.R + 7) / 8 * 8;
    n.bias_pitch = (n.longest + TILE - 1) / TILE * TILE;
    n.dtype = a->qkv.dtype, n.backward = backward, n.tf32 = c->tf32 && n.dtype == DT_F32;
    return n;
}

/* How many heads at a time, and what the workspace has for them: never less at larger T. What the products want is in
 * front. drelative: NULL forward. */
static void divide(struct node *n, const struct tensor *drelative, const struct cuda_call *c)
{
    int64_t terms = (n->part[0] >= 0) + (n->part[1] >= 0), sides = n->backward ? 2 : 1;
    int64_t one = n->T * bytes_of(n, terms * n->C_pitch + sides * n->bias_pitch) + 256 * (terms + sides);
    int64_t room = one > MOST_BYTES ? one : one * n->heads < MOST_BYTES ? one * n->heads : MOST_BYTES;
    n->at_a_time = 1;
    for (int64_t some = 2; some <= n->heads; some++)
        if (n->heads % some == 0 && some * one <= room)
            n->at_a_time = some;
    n->products = product_workspace(n, OP_linear, n->dtype, false, c);
    if (n->backward) {
        int64_t dx = product_workspace(n, OP_linear_dx, n->dtype, true, c);
        int64_t dw = drelative->ndim ? product_workspace(n, OP_linear_dw, drelative->dtype, drelative->add, c) : 0;
        int64_t most = dx > dw ? dx : dw;
        n->products = n->products > most ? n->products : most;
        n->starts = aligned((n->R + 1) * (int64_t)sizeof(int32_t));
        n->statistics = aligned(n->heads * n->T * (int64_t)sizeof(float2));
    }
    n->products = aligned(n->products);
    n->C = aligned(n->at_a_time * n->T * bytes_of(n, n->C_pitch));
    n->biases = aligned(n->at_a_time * n->T * bytes_of(n, n->bias_pitch));
    n->workspace = n->products + n->starts + n->statistics + room;
}

template <class A> static struct attention_params params_of(const A *a, const struct node *n)
{
    struct attention_params p = {};
    p.qkv = a->qkv.data, p.o = a->o.data, p.lse = (float *)a->lse.data;
    p.cu = (const int32_t *)a->cu.data, p.coords = (const int32_t *)a->coords.data;
    p.rng = (const int32_t *)a->rng.data;
    p.T = (int)n->T, p.B = (int)n->B, p.heads = p.kv_heads = (int)n->heads, p.D = (int)n->D;
    p.scale = (float)a->scale, p.keep_scale = (float)mask_scale8(a->p), p.site = (uint32_t)a->site;
    p.threshold = a->p > 0 && a->coords.data ? mask_threshold8(a->p) : 0;
    p.bias_pitch = (int)n->bias_pitch;
    return p;
}

/* Where a launch's heads, from `head` on, have theirs. */
static int64_t content_at(const struct node *n, int term, int64_t head)
{
    return bytes_of(n, term * (n->width / 3) + head * n->D);
}

static int64_t relative_at(const struct node *n, int term, int64_t head)
{
    return n->part[term] * (n->width / 3) + head * n->D; /* elements */
}

/* The workspace of the heads at a time. */
struct room {
    char *products, *starts, *statistics, *C[2], *biases, *biases_of_keys;
};

static struct room room_of(const struct node *n, const struct cuda_call *c)
{
    struct room r = {};
    char *at = (char *)c->workspace;
    r.products = at, at += n->products;
    r.starts = at, at += n->starts;
    r.statistics = at, at += n->statistics;
    for (int term = 0; term < 2; term++)
        if (n->part[term] >= 0)
            r.C[term] = at, at += n->C;
    r.biases = at, at += n->biases;
    r.biases_of_keys = at;
    return r;
}

/* C of the heads from `head` on, and their biases. */
static int make_biases(const struct node *n, const struct matrices *m, const struct room *r, int64_t head,
                       const struct expand *e, const struct cuda_call *c)
{
    struct cuda_product p = product_of(n, OP_linear, n->dtype, false);
    for (int term = 0; term < 2; term++) {
        if (n->part[term] < 0)
            continue;
        struct product_data data = {};
        data.rows = m->qkv + content_at(n, term, head);
        data.factor = m->relative + bytes_of(n, relative_at(n, term, head));
        data.result = r->C[term], data.workspace = r->products;
        TRY(cuda_products_run(c->products, &p, &data, c->stream, c->err));
    }
    dim3 grid(block_places(n->T, n->B, TILE), (unsigned)(n->bias_pitch / TILE), (unsigned)n->at_a_time);
    WITH_FLOAT_TYPE(n->dtype, T, {
        const T *of_queries = (const T *)r->C[0], *of_keys = (const T *)r->C[1];
        bias_t<T> *biases = (bias_t<T> *)r->biases, *turned = (bias_t<T> *)r->biases_of_keys;
        (n->backward ? expand_kernel<T, true> : expand_kernel<T, false>)<<<grid, THREADS, 0, c->stream>>>(
            *e, of_queries, of_keys, biases, turned);
    })
    return cuda_launched(c, "attention_disentangled");
}

template <class A> static struct expand expand_of(const A *a, const struct node *n)
{
    return {(const int32_t *)a->cu.data,
            (const int32_t *)a->rows.data + a->rows.shape[0] / 2,
            n->T,
            n->B,
            n->longest,
            n->C_pitch,
            n->bias_pitch,
            {n->part[0] >= 0, n->part[1] >= 0},
            (float)a->scale};
}

/* What the gradients of scores, of the heads from `head` on, add to those of a term's content and of relative. */
static int spread(const struct node *n, const struct matrices *m, const struct room *r, int64_t head, int term,
                  const struct sums *s, const struct tensor *drelative, const struct cuda_call *c)
{
    WITH_FLOAT_TYPE(n->dtype, T, {
        const T *slopes = (const T *)(term ? r->biases_of_keys : r->biases);
        TRY(sums_launch<T>(*s, slopes, (T *)r->C[term], (int)n->at_a_time, c));
    })
    struct cuda_product p = product_of(n, OP_linear_dx, n->dtype, true);
    struct product_data data = {};
    data.rows = r->C[term], data.factor = m->relative + bytes_of(n, relative_at(n, term, head));
    data.result = m->dqkv + content_at(n, term, head), data.workspace = r->products;
    TRY(cuda_products_run(c->products, &p, &data, c->stream, c->err));
    if (!drelative->data)
        return SNUG_OK;
    p = product_of(n, OP_linear_dw, drelative->dtype, drelative->add);
    data.factor = m->qkv + content_at(n, term, head);
    data.result = (char *)drelative->data + dtype_bytes(drelative->dtype, relative_at(n, term, head));
    return cuda_products_run(c->products, &p, &data, c->stream, c->err);
}

/* Parts of relative that no term reads get 0, unless they are added to. */
static void clear_unread(const struct node *n, const struct tensor *drelative, const struct cuda_call *c)
{
    size_t element = (size_t)dtype_bytes(drelative->dtype, 1), width = element * (size_t)n->width / 3;
    for (int64_t part = 0; part < n->relative_width / (n->width / 3); part++)
        if (part != n->part[0] && part != n->part[1] && !drelative->add)
            cudaMemset2DAsync((char *)drelative->data + (size_t)part * width, element * (size_t)n->relative_width, 0,
                              width, (size_t)n->R, c->stream);
}

bool disentangled_fits(int64_t D, int64_t R, double scale, enum dtype dtype)
{
    return attention_biased_fits(D, scale, dtype) && R <= MOST_ROWS;
}

/* Whether Hopper's own kernels take it. */
static bool for_sm90(const struct node *n, const struct cuda_call *c)
{
    return c->sm90 && n->dtype != DT_F32 && n->D <= 64;
}

int64_t disentangled_forward_workspace(const struct args_attention_disentangled *a, const struct cuda_call *c)
{
    struct node n = node_of(a, false, c);
    if (n.T > 0)
        divide(&n, NULL, c);
    return n.workspace;
}

int disentangled_forward(const struct args_attention_disentangled *a, const struct cuda_call *c)
{
    struct node n = node_of(a, false, c);
    divide(&n, NULL, c);
    struct room r = room_of(&n, c);
    struct matrices m = {};
    m.qkv = (const char *)a->qkv.data, m.relative = (const char *)a->relative.data;
    struct expand e = expand_of(a, &n);
    struct attention_params p = params_of(a, &n);
    p.biases = r.biases;
    for (int64_t head = 0; head < n.heads; head += n.at_a_time) {
        TRY(make_biases(&n, &m, &r, head, &e, c));
        p.first_head = (int)head;
        TRY(for_sm90(&n, c) ? biased_forward_sm90(&p, (int)n.at_a_time, n.dtype, c)
                            : FOR_DTYPE(biased_forward, n.dtype, c)(&p, (int)n.at_a_time, c));
    }
    return SNUG_OK;
}

int64_t disentangled_backward_workspace(const struct args_attention_disentangled_bwd *a, const struct cuda_call *c)
{
    struct node n = node_of(a, true, c);
    if (n.T > 0)
        divide(&n, &a->drelative, c);
    return n.workspace;
}

int disentangled_backward(const struct args_attention_disentangled_bwd *a, const struct cuda_call *c)
{
    struct node n = node_of(a, true, c);
    divide(&n, &a->drelative, c);
    struct room r = room_of(&n, c);
    struct matrices m = {};
    m.qkv = (const char *)a->qkv.data, m.relative = (const char *)a->relative.data, m.dqkv = (char *)a->dqkv.data;
    struct expand e = expand_of(a, &n);
    struct attention_params p = params_of(a, &n);
    p.dout = a->dout.data, p.dqkv = a->dqkv.data, p.statistics = (float2 *)r.statistics;
    p.biases = r.biases, p.biases_of_keys = r.biases_of_keys;
    starts_kernel<<<(unsigned)(n.R / THREADS + 1), THREADS, 0, c->stream>>>(e.rows, n.longest, n.R,
                                                                            (int32_t *)r.starts);
    if (a->drelative.data)
        clear_unread(&n, &a->drelative, c);
    for (int64_t head = 0; head < n.heads; head += n.at_a_time) {
        TRY(make_biases(&n, &m, &r, head, &e, c));
        p.first_head = (int)head;
        TRY(for_sm90(&n, c) ? biased_backward_sm90(&p, (int)n.at_a_time, n.dtype, c)
                            : FOR_DTYPE(biased_backward, n.dtype, c)(&p, (int)n.at_a_time, c));
        for (int term = 0; term < 2; term++) {
            struct sums s = {e.cu, (const int32_t *)r.starts, n.T, n.B, n.R, n.C_pitch, n.bias_pitch, term == 1};
            if (n.part[term] >= 0)
                TRY(spread(&n, &m, &r, head, term, &s, &a->drelative, c));
        }
    }
    return cuda_launched(c, "attention_disentangled_bwd");
}
