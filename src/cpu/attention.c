/* Attention on blocks that stay in the cache (op/attention.c has the formulas; after Dao, arXiv 2307.08691).
 *
 * Scores are kept transposed, S^T (keys, queries): what belongs to a query (maximum, sum, lse, delta) is then a vector
 * along the lanes, P^T and dS^T are at once what the next products want, and a block of 16 keys by VF_LANES queries is
 * one vectorised Philox call. With blocks of 64 by 64 everything an inner step touches is about 60 KB.
 *     forward   S^T = K Q^T ;  P^T = exp(S^T - m) ;  O^T = O^T diag(exp(m_old - m)) + V^T P^T
 *     backward  S^T = K Q^T ;  dP^T = V dO^T ;  dV += P^T dO ;  dK += dS^T Q ;  dQ^T += K^T dS^T
 * Bound by multiply-adds; the exponentials are about a fifth of the time.
 *
 * Order of sums, fixed by shape: products sum over D, or over the keys or queries of one block, in order; blocks are
 * added in order of keys (forward, dQ) or of head in the group, then queries (dK, dV). A task, made by one thread, is
 * (sequence, head, CHUNK queries) going forward and (sequence, key head) going back, so no sum crosses threads.
 *
 * bf16: P and dS are rounded to bf16 for the products; scores, maxima, sums and accumulators are F32. */
#include "cpu/kernels.h"
#include "cpu/product/tile.h"
#include "cpu/simd_math.h"
#include "cpu/simd_philox.h"
#include "op/mask.h"

#include <omp.h>

enum { QUERIES = 64, KEYS = 64, CHUNK = 512 };
#define LOG2E 1.44269504f

struct problem {
    const int32_t *cu, *coords, *rng;
    const void *qkv;
    int64_t B, T, D, width, heads, kv_heads, queries;
    bool bf16, causal, drop;
    uint32_t threshold;
    int64_t site;
    float scale, keep_scale; /* of scores; of kept weights, 1 without dropout */
};

static struct problem make_problem(const struct tensor *qkv, const struct tensor *cu, const struct tensor *coords,
                                   const struct tensor *rng, int64_t heads, int64_t kv_heads, int64_t causal,
                                   double scale, double p, int64_t site, int64_t queries)
{
    bool drop = p > 0 && coords->data;
    return (struct problem){.cu = cu->data,
                            .coords = coords->data,
                            .rng = rng->data,
                            .qkv = qkv->data,
                            .B = cu->shape[0] - 1,
                            .T = qkv->shape[0],
                            .D = qkv->shape[1] / (heads + 2 * kv_heads),
                            .width = qkv->shape[1],
                            .heads = heads,
                            .kv_heads = kv_heads,
                            .queries = queries,
                            .bf16 = qkv->dtype == DT_BF16,
                            .causal = causal,
                            .drop = drop,
                            .threshold = drop ? mask_threshold8(p) : 0,
                            .site = site,
                            .scale = (float)scale,
                            .keep_scale = drop ? (float)mask_scale8(p) : 1};
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t blocks(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* How many rows of sequence b ask; of the padding behind the last none. */
static int64_t asking(const struct problem *p, int64_t b)
{
    int64_t length = b < p->B ? p->cu[b + 1] - p->cu[b] : 0;
    return p->queries ? smaller(p->queries, length) : length;
}

/* Hands out parts of a workspace; with base NULL it only counts. */
struct carver {
    char *base;
    int64_t used;
};

static void *carve(struct carver *c, int64_t units)
{
    void *p = c->base ? c->base + c->used : NULL;
    c->used += (4 * units + 63) / 64 * 64;
    return p;
}

/* ---- tasks: sequences by falling length class (powers of two), so that the last tasks are small ---- */

struct part { /* CHUNK queries of a sequence, or all of it */
    int32_t sequence, query;
};

static int64_t most_parts(int64_t B, int64_t T)
{
    return B + T / CHUNK;
}

static int64_t list_parts(struct part *parts, const struct problem *p, int64_t queries)
{
    int64_t n = 0;
    for (int class = 31; class >= 0; class --)
        for (int64_t b = 0; b < p->B; b++) {
            int64_t length = p->cu[b + 1] - p->cu[b];
            for (int64_t q = 0; length >> class == 1 && q < asking(p, b); q += queries)
                parts[n++] = (struct part){(int32_t)b, (int32_t)q};
        }
    return n;
}

/* Tasks that a thread takes at once: few enough that threads end together. */
static int tasks_at_once(int64_t tasks, int threads)
{
    int64_t n = tasks / (16 * threads);
    return (int)(n < 1 ? 1 : smaller(n, 16));
}

/* ---- dropout of a block of 16 keys by VF_LANES queries ---- */

SIMD struct vphilox draw(const struct problem *p, int64_t b, int64_t head, int64_t query, int64_t key)
{
    vu queries = (vu)(vi_iota() + (int32_t)query) | (uint32_t)head << 20;
    struct vphilox c = {{vu_set1((uint32_t)p->rng[2]), vu_set1((uint32_t)p->coords[2 * p->cu[b]]), queries,
                         vu_set1((uint32_t)p->site << 20 | (uint32_t)(key / 16))}};
    return vphilox4x32(c, (uint32_t)p->rng[0], (uint32_t)p->rng[1]);
}

/* -1 in the lanes of the queries that keep the t-th of the 16 keys: its byte is brought to the top and compared there,
 * as what stands below cannot change the result. */
SIMD vi keeps(struct vphilox r, int t, uint32_t threshold)
{
    return (vi)(r.w[t / 4] << (24 - 8 * (t % 4)) >= threshold << 24);
}

/* ---- forward ---- */

struct forward {      /* of one thread; sizes in units for the larger case, floats */
    uint32_t *k;      /* (CHUNK, D) rows of K */
    uint32_t *v;      /* (CHUNK / KEYS, D, KEYS) V^T, panel by panel */
    uint32_t *q;      /* (D, QUERIES) Q^T */
    uint32_t *stage;  /* (KEYS, D) */
    float *scores;    /* (KEYS, QUERIES) S^T, then P^T in its place */
    float *o;         /* (CHUNK / QUERIES, D, QUERIES) O^T */
    float *max, *sum; /* (CHUNK) */
    float *shrink;    /* (QUERIES) exp(m_old - m) */
};

static int64_t carve_forward(struct forward *f, void *base, int64_t D)
{
    struct carver c = {.base = base};
    int64_t width = tile_pad(TILE_PAIRS, D); /* the wider */
    f->k = carve(&c, CHUNK * width);
    f->v = carve(&c, CHUNK * width);
    f->q = carve(&c, QUERIES * width);
    f->stage = carve(&c, KEYS * width);
    f->scores = carve(&c, KEYS * QUERIES);
    f->o = carve(&c, CHUNK * width);
    f->max = carve(&c, CHUNK);
    f->sum = carve(&c, CHUNK);
    f->shrink = carve(&c, QUERIES);
    return c.used;
}

/* Rows of units, QUERIES apart: 0 in column j on behind the last of n, as far as the matrix unit sums. */
SIMD void zero_rows(bool pair, uint32_t *rows, int64_t j, int64_t n)
{
    for (int64_t i = (n + 1) / 2; AMX && pair && i < tile_pad(pair, n) / 2; i++)
        vu_store(rows + i * QUERIES + j, (vu){0});
}

/* Block of n_keys by n_queries scores: new maxima, and P^T in place of S^T as (keys in units, QUERIES). */
SIMD void softmax_block(const struct problem *p, const struct forward *f, bool pair, int64_t b, int64_t head,
                        int64_t query, int64_t n_queries, int64_t key, int64_t n_keys, float *max, float *sum)
{
    bool diagonal = p->causal && key + n_keys - 1 > query;
    for (int64_t j = 0; j < n_queries; j += VF_LANES) {
        float *s = f->scores + j;
        vi queries = vi_iota() + (int32_t)(query + j);
        vf old = key ? vf_load(max + j) : vf_set1(-INFINITY), m = old, total = {0};
        for (int64_t i = 0; i < n_keys; i++) {
            vf x = vf_load(s + i * QUERIES) * p->scale;
            if (diagonal) {
                x = vf_select(queries >= (int32_t)(key + i), x, vf_set1(-INFINITY));
                vf_store(s + i * QUERIES, x);
            }
            m = vf_max(m, x);
        }
        vf factor = vf_set1(LOG2E * (diagonal ? 1 : p->scale)), m2 = m * LOG2E; /* e^x = 2^(x log2 e) */
        for (int64_t i0 = 0; i0 < n_keys; i0 += 16) {
            struct vphilox bits = {0};
            if (p->drop)
                bits = draw(p, b, head, query + j, key + i0);
            UNROLL for (int t = 0; t < 16; t += 2)
            {
                int64_t i = i0 + t;
                if (i >= n_keys)
                    break;
                vf even = vf_exp2(vf_fma(vf_load(s + i * QUERIES), factor, -m2));
                vf odd = i + 1 < n_keys ? vf_exp2(vf_fma(vf_load(s + (i + 1) * QUERIES), factor, -m2)) : vf_set1(0);
                total += even + odd;
                if (p->drop) {
                    even = vf_where(keeps(bits, t, p->threshold), even);
                    odd = vf_where(keeps(bits, t + 1, p->threshold), odd);
                }
                if (pair)
                    vu_store((uint32_t *)s + i / 2 * QUERIES, vu_pair_round(even, odd));
                else {
                    vf_store(s + i * QUERIES, even);
                    vf_store(s + (i + 1) * QUERIES, odd); /* for an odd last key a padding row */
                }
            }
        }
        zero_rows(pair, (uint32_t *)s, 0, n_keys);
        vf shrink = vf_exp2((old - m) * LOG2E);
        vf_store(f->shrink + j, shrink);
        vf_store(max + j, m);
        vf_store(sum + j, key ? vf_fma(vf_load(sum + j), shrink, total) : total);
    }
}

/* Units along a dimension of n elements. */
SIMD int64_t units(bool pair, int64_t n)
{
    return pair ? (n + 1) / 2 : n;
}

SIMD void pack_keys(const struct problem *p, const struct forward *f, bool pair, bool bf16, int64_t b, int64_t head,
                    int64_t key, int64_t n_keys)
{
    int64_t D = p->D, width = tile_pad(pair, D), kv = head / (p->heads / p->kv_heads);
    int64_t row = (p->cu[b] + key) * p->width, k = row + (p->heads + kv) * D, v = k + p->kv_heads * D;
    tile_pack_rows(pair, bf16, f->k, units(pair, width), p->qkv, k, p->width, n_keys, D);
    for (int64_t i = 0; i < n_keys; i += KEYS) {
        int64_t n = smaller(KEYS, n_keys - i);
        tile_pack_sum_rows(pair, bf16, f->stage, p->qkv, v + i * p->width, p->width, n, D);
        tile_transpose(f->v + i * width, KEYS, f->stage, width, units(pair, tile_pad(pair, n)), width);
    }
}

/* Writes o and lse of a finished block of queries. */
SIMD void finish_queries(const struct args_attention *a, const struct problem *p, const struct forward *f, bool pair,
                         bool bf16, int64_t b, int64_t head, int64_t query, int64_t n_queries, const float *o,
                         const float *max, const float *sum)
{
    int64_t D = p->D, width = tile_pad(pair, D), first = p->cu[b] + query;
    float *rows = (float *)f->stage, *lse = (float *)a->lse.data + head * p->T + first;
    tile_transpose((uint32_t *)rows, width, (const uint32_t *)o, QUERIES, width, tile_pad(pair, n_queries));
    for (int64_t i = 0; i < n_queries; i++)
        for (int64_t d = 0; d < D; d += VF_LANES)
            vf_put_upto(a->o.data, (first + i) * p->heads * D + head * D + d,
                        vf_load(rows + i * width + d) * (p->keep_scale / sum[i]), D - d, bf16);
    for (int64_t i = 0; i < n_queries; i += VF_LANES)
        vf_put_upto(lse, i, vf_load(max + i) + vf_log(vf_load(sum + i)), n_queries - i, false);
}

SIMD void forward_task(const struct args_attention *a, const struct problem *p, const struct forward *f, bool pair,
                       bool bf16, struct part part, int64_t head)
{
    int64_t b = part.sequence, D = p->D, width = tile_pad(pair, D), length = p->cu[b + 1] - p->cu[b];
    int64_t end = smaller(asking(p, b), part.query + CHUNK), n_keys = p->causal ? end : length;
    for (int64_t chunk = 0; chunk < n_keys; chunk += CHUNK) {
        int64_t chunk_end = smaller(n_keys, chunk + CHUNK);
        pack_keys(p, f, pair, bf16, b, head, chunk, chunk_end - chunk);
        for (int64_t query = part.query; query < end; query += QUERIES) {
            int64_t n = smaller(QUERIES, end - query), at = query - part.query;
            float *o = f->o + at * width, *max = f->max + at, *sum = f->sum + at;
            tile_pack_rows(pair, bf16, f->stage, units(pair, width), p->qkv, (p->cu[b] + query) * p->width + head * D,
                           p->width, n, D);
            tile_transpose(f->q, QUERIES, f->stage, units(pair, width), tile_pad(pair, n), units(pair, width));
            for (int64_t key = chunk; key < chunk_end && !(p->causal && key >= query + n); key += KEYS) {
                int64_t m = smaller(KEYS, chunk_end - key), in_chunk = key - chunk;
                tile_product(pair, TILE_ZERO, m, tile_pad(pair, n), units(pair, D),
                             f->k + in_chunk * units(pair, width), units(pair, width), f->q, f->scores, QUERIES, NULL);
                softmax_block(p, f, pair, b, head, query, n, key, m, max, sum);
                tile_product(pair, key ? TILE_SCALE : TILE_ZERO, D, tile_pad(pair, n), units(pair, m),
                             f->v + in_chunk * width, KEYS, (uint32_t *)f->scores, o, QUERIES, f->shrink);
            }
        }
    }
    for (int64_t query = part.query; query < end; query += QUERIES) {
        int64_t at = query - part.query;
        finish_queries(a, p, f, pair, bf16, b, head, query, smaller(QUERIES, end - query), f->o + at * width,
                       f->max + at, f->sum + at);
    }
}

/* One copy of the code for each type of the products and of the tensor. */
static void forward_any(const struct args_attention *a, const struct problem *p, const struct forward *f,
                        struct part part, int64_t head)
{
    if (!p->bf16)
        forward_task(a, p, f, false, false, part, head);
    else
        forward_task(a, p, f, TILE_PAIRS, true, part, head);
}

int64_t ISA(cpu_attention_workspace)(const struct args_attention *a, int threads)
{
    struct forward f;
    struct problem p = make_problem(&a->qkv, &a->cu, &a->coords, &a->rng, a->heads, a->kv_heads, a->causal, 0, 0, 0, 0);
    int64_t parts = most_parts(p.B, p.T);
    return (parts * (int64_t)sizeof(struct part) + 63) / 64 * 64 +
           smaller(threads, parts * p.heads) * carve_forward(&f, NULL, p.D);
}

void ISA(cpu_attention)(const struct args_attention *a, const struct call *c)
{
    struct problem p = make_problem(&a->qkv, &a->cu, &a->coords, &a->rng, a->heads, a->kv_heads, a->causal, a->scale,
                                    a->p, a->site, a->queries);
    struct carver carver = {.base = c->workspace};
    struct part *parts = carve(&carver, most_parts(p.B, p.T) * (int64_t)sizeof *parts / 4);
    int64_t tasks = list_parts(parts, &p, CHUNK) * p.heads;
    int threads = tasks > 1 ? (int)smaller(c->threads, tasks) : 1, at_once = tasks_at_once(tasks, c->threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        struct forward f;
        int64_t size = carve_forward(&f, NULL, p.D);
        carve_forward(&f, carver.base + carver.used + omp_get_thread_num() * size, p.D);
        if (AMX && p.bf16)
            amx_begin();
#pragma omp for schedule(dynamic, at_once)
        for (int64_t i = 0; i < tasks; i++)
            forward_any(a, &p, &f, parts[i / p.heads], i % p.heads);
        if (AMX && p.bf16)
            amx_end();
    }
    for (int64_t b = 0; b <= p.B; b++) { /* the rows that do not ask */
        int64_t row = p.heads * p.D, from = p.cu[b] + asking(&p, b), rows = (b < p.B ? p.cu[b + 1] : p.T) - from;
        memset((char *)a->o.data + dtype_bytes(a->o.dtype, from * row), 0, (size_t)dtype_bytes(a->o.dtype, rows * row));
        for (int64_t h = 0; h < p.heads && rows > 0; h++)
            memset((float *)a->lse.data + h * p.T + from, 0, 4 * (size_t)rows);
    }
}

/* ---- backward ---- */

struct backward {       /* of one thread */
    uint32_t *k, *v;    /* (KEYS, D) rows of a panel */
    uint32_t *kt;       /* (D, KEYS) K^T */
    uint32_t *qt, *dot; /* (CHUNK / QUERIES, D, QUERIES) Q^T and dO^T, block by block */
    uint32_t *q, *dout; /* (CHUNK, D) Q and dO for sums over queries */
    uint32_t *stage;    /* (QUERIES, D) */
    float *s, *dp;      /* (KEYS, QUERIES) S^T then P^T, dP^T then dS^T, in place */
    uint32_t *ds;       /* (KEYS, QUERIES) dS^T for sums over keys; for floats the same as dp */
    float *dq;          /* (CHUNK / QUERIES, D, QUERIES) dQ^T */
    float *lse, *delta; /* (CHUNK) */
    float *dk, *dv;     /* (longest, D) */
};

static int64_t carve_backward(struct backward *f, void *base, int64_t D, int64_t longest)
{
    struct carver c = {.base = base};
    int64_t width = tile_pad(TILE_PAIRS, D); /* the wider */
    f->k = carve(&c, KEYS * width);
    f->v = carve(&c, KEYS * width);
    f->kt = carve(&c, KEYS * width);
    f->qt = carve(&c, CHUNK * width);
    f->dot = carve(&c, CHUNK * width);
    f->q = carve(&c, CHUNK * width);
    f->dout = carve(&c, CHUNK * width);
    f->stage = carve(&c, QUERIES * width);
    f->s = carve(&c, KEYS * QUERIES);
    f->dp = carve(&c, KEYS * QUERIES);
    f->ds = carve(&c, KEYS * QUERIES);
    f->dq = carve(&c, CHUNK * width);
    f->lse = carve(&c, CHUNK);
    f->delta = carve(&c, CHUNK);
    f->dk = carve(&c, blocks(longest, KEYS) * KEYS * width);
    f->dv = carve(&c, blocks(longest, KEYS) * KEYS * width);
    return c.used;
}

/* From S^T and dP^T of a block to P^T with its mask (rows of units, QUERIES apart), and dS^T = P^T (dP^T - delta) both
 * as rows (in dp) and for sums over keys (in ds). The scale of kept weights is left to the end: delta is divided by it.
 */
SIMD void gradient_block(const struct problem *p, const struct backward *f, bool pair, int64_t b, int64_t head,
                         int64_t query, int64_t n_queries, int64_t key, int64_t n_keys, const float *lse,
                         const float *delta)
{
    bool diagonal = p->causal && key + n_keys - 1 > query;
    for (int64_t j = 0; j < n_queries; j += VF_LANES) {
        vi queries = vi_iota() + (int32_t)(query + j);
        vf log_sum = vf_load(lse + j) * LOG2E, row_delta = vf_load(delta + j), factor = vf_set1(p->scale * LOG2E);
        for (int64_t i0 = 0; i0 < n_keys; i0 += 16) {
            struct vphilox bits = {0};
            if (p->drop)
                bits = draw(p, b, head, query + j, key + i0);
            UNROLL for (int t = 0; t < 16; t += 2)
            {
                int64_t i = i0 + t;
                if (i >= n_keys)
                    break;
                vf ds[2] = {0};
                UNROLL for (int u = 0; u < 2; u++)
                {
                    if (i + u >= n_keys)
                        break;
                    float *s = f->s + (i + u) * QUERIES, *dp = f->dp + (i + u) * QUERIES;
                    vf w = vf_exp2(vf_fma(vf_load(s + j), factor, -log_sum)), dw = vf_load(dp + j), kept = w;
                    if (diagonal)
                        kept = w = vf_where(queries >= (int32_t)(key + i + u), w);
                    if (p->drop) {
                        vi keep = keeps(bits, t + u, p->threshold);
                        kept = vf_where(keep, w);
                        dw = vf_where(keep, dw);
                    }
                    ds[u] = w * (dw - row_delta);
                    vf_put(s, j, kept, pair);
                    vf_put(dp, j, ds[u], pair);
                }
                if (pair)
                    vu_store(f->ds + i / 2 * QUERIES + j, vu_pair_round(ds[0], ds[1]));
            }
        }
        zero_rows(pair, f->ds, j, n_keys);
    }
    int64_t done = (n_queries + VF_LANES - 1) / VF_LANES * VF_LANES; /* the matrix unit sums over more */
    for (int64_t i = 0; AMX && pair && i < n_keys && done < tile_pad(pair, n_queries); i++)
        for (int64_t j = done; j < tile_pad(pair, n_queries); j += VF_LANES) {
            vf_put(f->s + i * QUERIES, j, (vf){0}, pair);
            vf_put(f->dp + i * QUERIES, j, (vf){0}, pair);
        }
}

/* Queries [query, end) of a head: Q and dO in both forms, lse and delta; lse and delta are 0 in padding lanes. */
SIMD void pack_queries(const struct args_attention_bwd *a, const struct problem *p, const struct backward *f, bool pair,
                       bool bf16, int64_t b, int64_t head, int64_t query, int64_t end)
{
    int64_t D = p->D, width = tile_pad(pair, D), row = p->heads * D;
    for (int64_t at = 0; query + at < end; at += QUERIES) {
        int64_t n = smaller(QUERIES, end - query - at), first = p->cu[b] + query + at;
        int64_t q = first * p->width + head * D, o = first * row + head * D;
        tile_pack_rows(pair, bf16, f->stage, units(pair, width), p->qkv, q, p->width, n, D);
        tile_transpose(f->qt + at * width, QUERIES, f->stage, units(pair, width), tile_pad(pair, n),
                       units(pair, width));
        tile_pack_rows(pair, bf16, f->stage, units(pair, width), a->dout.data, o, row, n, D);
        tile_transpose(f->dot + at * width, QUERIES, f->stage, units(pair, width), tile_pad(pair, n),
                       units(pair, width));
        tile_pack_sum_rows(pair, bf16, f->q + at * width, p->qkv, q, p->width, n, D);
        tile_pack_sum_rows(pair, bf16, f->dout + at * width, a->dout.data, o, row, n, D);
        for (int64_t i = 0; i < tile_pad(pair, n); i++) {
            vf sum = {0};
            for (int64_t d = 0; i < n && d < D; d += VF_LANES)
                sum = vf_fma(vf_get_upto(a->o.data, o + i * row + d, D - d, bf16),
                             vf_get_upto(a->dout.data, o + i * row + d, D - d, bf16), sum);
            f->delta[at + i] = vf_hsum(sum) / p->keep_scale;
            f->lse[at + i] = i < n ? ((const float *)a->lse.data)[head * p->T + first + i] : 0;
        }
    }
}

/* Adds what queries [query, end) of a head have to do with KEYS keys from `key` on. */
SIMD void panel_gradient(const struct problem *p, const struct backward *f, bool pair, bool bf16, int64_t b,
                         int64_t head, bool first_head, int64_t query, int64_t end, int64_t key)
{
    int64_t D = p->D, width = tile_pad(pair, D), kv = head / (p->heads / p->kv_heads);
    int64_t n_keys = smaller(KEYS, p->cu[b + 1] - p->cu[b] - key);
    int64_t k = (p->cu[b] + key) * p->width + (p->heads + kv) * D, v = k + p->kv_heads * D;
    tile_pack_rows(pair, bf16, f->k, units(pair, width), p->qkv, k, p->width, n_keys, D);
    tile_pack_rows(pair, bf16, f->v, units(pair, width), p->qkv, v, p->width, n_keys, D);
    tile_pack_sum_rows(pair, bf16, f->stage, p->qkv, k, p->width, n_keys, D);
    tile_transpose(f->kt, KEYS, f->stage, width, units(pair, tile_pad(pair, n_keys)), width);
    float *dk = f->dk + key * width, *dv = f->dv + key * width;
    for (int64_t at = 0; query + at < end; at += QUERIES) {
        int64_t n = smaller(QUERIES, end - query - at);
        if (p->causal && key >= query + at + n)
            continue;
        tile_product(pair, TILE_ZERO, n_keys, tile_pad(pair, n), units(pair, D), f->k, units(pair, width),
                     f->qt + at * width, f->s, QUERIES, NULL);
        tile_product(pair, TILE_ZERO, n_keys, tile_pad(pair, n), units(pair, D), f->v, units(pair, width),
                     f->dot + at * width, f->dp, QUERIES, NULL);
        gradient_block(p, f, pair, b, head, query + at, n, key, n_keys, f->lse + at, f->delta + at);
        /* The first block of queries that meets these keys starts their sums. */
        bool start = first_head && query + at == (p->causal ? key / QUERIES * QUERIES : 0);
        tile_product(pair, start ? TILE_ZERO : TILE_ADD, n_keys, width, units(pair, n), (uint32_t *)f->s, QUERIES,
                     f->dout + at * width, dv, width, NULL);
        tile_product(pair, start ? TILE_ZERO : TILE_ADD, n_keys, width, units(pair, n), (uint32_t *)f->dp, QUERIES,
                     f->q + at * width, dk, width, NULL);
        tile_product(pair, key ? TILE_ADD : TILE_ZERO, D, tile_pad(pair, n), units(pair, n_keys), f->kt, KEYS,
                     pair ? f->ds : (uint32_t *)f->dp, f->dq + at * width, QUERIES, NULL);
    }
}

/* n rows of D floats, `width` apart, times `scale` into dqkv from element `to` on. */
SIMD void put_rows(void *dqkv, int64_t to, int64_t stride, const float *from, int64_t width, int64_t n, int64_t D,
                   float scale, bool bf16)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d += VF_LANES)
            vf_put_upto(dqkv, to + i * stride + d, vf_load(from + i * width + d) * scale, D - d, bf16);
}

SIMD void backward_task(const struct args_attention_bwd *a, const struct problem *p, const struct backward *f,
                        bool pair, bool bf16, int64_t b, int64_t kv)
{
    int64_t D = p->D, width = tile_pad(pair, D), length = p->cu[b + 1] - p->cu[b], group = p->heads / p->kv_heads;
    int64_t row = p->cu[b] * p->width, queries = asking(p, b);
    float scale = p->scale * p->keep_scale;
    for (int64_t head = kv * group; head < (kv + 1) * group; head++) {
        for (int64_t query = 0; query < queries; query += CHUNK) {
            int64_t end = smaller(queries, query + CHUNK);
            pack_queries(a, p, f, pair, bf16, b, head, query, end);
            for (int64_t key = 0; key < (p->causal ? end : length); key += KEYS)
                panel_gradient(p, f, pair, bf16, b, head, head == kv * group, query, end, key);
            for (int64_t at = 0; query + at < end; at += QUERIES) {
                int64_t n = smaller(QUERIES, end - query - at);
                tile_transpose(f->stage, width, (uint32_t *)f->dq + at * width, QUERIES, width, tile_pad(pair, n));
                put_rows(a->dqkv.data, row + (query + at) * p->width + head * D, p->width, (float *)f->stage, width, n,
                         D, scale, bf16);
            }
        }
        for (int64_t i = queries; i < length; i++)
            memset((char *)a->dqkv.data + dtype_bytes(a->dqkv.dtype, row + i * p->width + head * D), 0,
                   (size_t)dtype_bytes(a->dqkv.dtype, D));
    }
    put_rows(a->dqkv.data, row + (p->heads + kv) * D, p->width, f->dk, width, length, D, scale, bf16);
    put_rows(a->dqkv.data, row + (p->heads + p->kv_heads + kv) * D, p->width, f->dv, width, length, D, p->keep_scale,
             bf16);
}

static void backward_any(const struct args_attention_bwd *a, const struct problem *p, const struct backward *f,
                         int64_t b, int64_t kv)
{
    if (!p->bf16)
        backward_task(a, p, f, false, false, b, kv);
    else
        backward_task(a, p, f, TILE_PAIRS, true, b, kv);
}

int64_t ISA(cpu_attention_bwd_workspace)(const struct args_attention_bwd *a, int threads)
{
    struct backward f;
    struct problem p = make_problem(&a->qkv, &a->cu, &a->coords, &a->rng, a->heads, a->kv_heads, a->causal, 0, 0, 0, 0);
    return (p.B * (int64_t)sizeof(struct part) + 63) / 64 * 64 +
           smaller(threads, p.B * p.kv_heads) * carve_backward(&f, NULL, p.D, p.T);
}

void ISA(cpu_attention_bwd)(const struct args_attention_bwd *a, const struct call *c)
{
    struct problem p = make_problem(&a->qkv, &a->cu, &a->coords, &a->rng, a->heads, a->kv_heads, a->causal, a->scale,
                                    a->p, a->site, a->queries);
    struct carver carver = {.base = c->workspace};
    struct part *parts = carve(&carver, p.B * (int64_t)sizeof *parts / 4);
    int64_t tasks = list_parts(parts, &p, p.T) * p.kv_heads;
    int threads = tasks > 1 ? (int)smaller(c->threads, tasks) : 1, at_once = tasks_at_once(tasks, c->threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        struct backward f;
        int64_t size = carve_backward(&f, NULL, p.D, p.T);
        carve_backward(&f, carver.base + carver.used + omp_get_thread_num() * size, p.D, p.T);
        if (AMX && p.bf16)
            amx_begin();
#pragma omp for schedule(dynamic, at_once)
        for (int64_t i = 0; i < tasks; i++)
            backward_any(a, &p, &f, parts[i / p.kv_heads].sequence, i % p.kv_heads);
        if (AMX && p.bf16)
            amx_end();
    }
    int64_t real = p.cu[p.B] * p.width, all = p.T * p.width;
    memset((char *)a->dqkv.data + dtype_bytes(a->dqkv.dtype, real), 0, (size_t)dtype_bytes(a->dqkv.dtype, all - real));
    if (a->dbias.data)
        ISA(cpu_sum_columns)(&a->dqkv, &a->dbias, c->threads);
}
