/* attention.h: what the kernels of attention, forward and backward, share: the problem, its tasks, dropout's masks.
 *
 * Scores are kept transposed, S^T (keys, queries). What belongs to a query (maximum, sum, lse, delta) is then a vector
 * along the lanes, and P^T and dS^T are at once what the next products want. A block of 16 keys by VF_LANES queries is
 * one vectorised Philox call. With blocks of 64 by 64 everything an inner step touches is about 60 KB (op/attention.c
 * has the formulas; after Dao, arXiv 2307.08691).
 *
 * bf16: P and dS are rounded to bf16 for the products; scores, maxima, sums and accumulators are F32. */
#ifndef CPU_ATTENTION_ATTENTION_H
#define CPU_ATTENTION_ATTENTION_H

#include "cpu/kernels.h"
#include "cpu/product/tile.h"
#include "cpu/simd/simd_math.h"
#include "cpu/simd/simd_philox.h"
#include "op/mask.h"

#include <omp.h>

enum { QUERIES = 64, KEYS = 64, CHUNK = 512 };
#define LOG2E 1.44269504f

struct problem {
    const int32_t *cu, *coords, *rng;
    const void *qkv;
    int64_t B, T, D, width, heads, kv_heads, queries, window;
    bool bf16, causal, drop;
    uint32_t threshold;
    int64_t site;
    float scale, softcap, keep_scale; /* keep_scale: of kept weights, 1 without dropout */
};

/* Of either op's arguments, which have what it wants under the same names. A window that no sequence fills is none. */
#define PROBLEM(a)                                                                                                     \
    {                                                                                                                  \
        .cu = (a)->cu.data, .coords = (a)->coords.data, .rng = (a)->rng.data, .qkv = (a)->qkv.data,                    \
        .B = (a)->cu.shape[0] - 1, .T = (a)->qkv.shape[0], .D = (a)->qkv.shape[1] / ((a)->heads + 2 * (a)->kv_heads),  \
        .width = (a)->qkv.shape[1], .heads = (a)->heads, .kv_heads = (a)->kv_heads, .queries = (a)->queries,           \
        .window = (a)->window < (a)->qkv.shape[0] ? (a)->window : 0, .bf16 = (a)->qkv.dtype == DT_BF16,                \
        .causal = (a)->causal, .drop = (a)->p > 0 && (a)->coords.data, .threshold = mask_threshold8((a)->p),           \
        .site = (a)->site, .scale = (float)(a)->scale, .softcap = (float)(a)->softcap,                                 \
        .keep_scale = (a)->p > 0 && (a)->coords.data ? (float)mask_scale8((a)->p) : 1                                  \
    }

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t blocks(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* How many rows of sequence b ask; of the padding behind the last none. */
static inline int64_t asking(const struct problem *p, int64_t b)
{
    int64_t length = b < p->B ? p->cu[b + 1] - p->cu[b] : 0;
    return p->queries ? smaller(p->queries, length) : length;
}

/* ---- what a query sees ---- */

/* Where the first block of keys begins of which a query sees one. */
static inline int64_t first_key(const struct problem *p, int64_t query)
{
    return p->window && query >= p->window ? (query - p->window + 1) / KEYS * KEYS : 0;
}

/* Behind the last key that a query of a sequence sees. */
static inline int64_t end_key(const struct problem *p, int64_t query, int64_t length)
{
    if (p->causal)
        return query + 1;
    return p->window ? smaller(query + p->window, length) : length;
}

/* Whether some query of a block does not see some of its keys. */
static inline bool hides(const struct problem *p, int64_t query, int64_t n_queries, int64_t key, int64_t n_keys)
{
    int64_t before = query + n_queries - 1 - key, behind = key + n_keys - 1 - query; /* the furthest key of a query */
    return (p->causal && behind > 0) || (p->window && (before >= p->window || behind >= p->window));
}

/* -1 in the lanes of the queries that see a key. */
SIMD vi sees(const struct problem *p, vi queries, int64_t key)
{
    vi back = queries - (int32_t)key;
    if (!p->window)
        return back >= 0;
    int32_t window = (int32_t)p->window;
    return (back < window) & (p->causal ? back >= 0 : -back < window);
}

/* Hands out parts of a workspace; with base NULL it only counts. */
struct carver {
    char *base;
    int64_t used;
};

static inline void *carve(struct carver *c, int64_t units)
{
    void *p = c->base ? c->base + c->used : NULL;
    c->used += (4 * units + 63) / 64 * 64;
    return p;
}

/* ---- tasks: sequences by falling length class (powers of two), so that the last tasks are small ---- */

struct part { /* CHUNK queries of a sequence, or all of it */
    int32_t sequence, query;
};

static inline int64_t most_parts(int64_t B, int64_t T)
{
    return B + T / CHUNK;
}

/* The later queries of a causal sequence come first, since they see more keys. */
static inline int64_t list_parts(struct part *parts, const struct problem *p, int64_t queries)
{
    int64_t n = 0;
    for (int class = 31; class >= 0; class --)
        for (int64_t b = 0; b < p->B; b++) {
            int64_t length = p->cu[b + 1] - p->cu[b], count = blocks(asking(p, b), queries);
            for (int64_t i = 0; length >> class == 1 && i < count; i++)
                parts[n++] = (struct part){(int32_t)b, (int32_t)((p->causal ? count - 1 - i : i) * queries)};
        }
    return n;
}

/* Tasks that a thread takes at once: few enough that threads end together. */
static inline int tasks_at_once(int64_t tasks, int threads)
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

/* ---- units: floats, or pairs of bf16 ---- */

/* Units along a dimension of n elements. */
SIMD int64_t units(bool pair, int64_t n)
{
    return pair ? (n + 1) / 2 : n;
}

/* Rows of units, QUERIES apart: 0 in column j on behind the last of n, as far as the matrix unit sums. */
SIMD void zero_rows(bool pair, uint32_t *rows, int64_t j, int64_t n)
{
    for (int64_t i = (n + 1) / 2; AMX && pair && i < tile_pad(pair, n) / 2; i++)
        vu_store(rows + i * QUERIES + j, (vu){0});
}

#endif
