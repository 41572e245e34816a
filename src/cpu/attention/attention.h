/* attention.h: what the kernels of attention, forward and backward, share: the problem, its tasks, dropout's masks. Attention with a bias
 * by distance (attention_general.c) and disentangled attention (attention_disentangled.c) are such problems, too.
 *
 * Scores are kept transposed, S^T (keys, queries). What belongs to a query (maximum, sum, lse, delta) is then a vector
 * along the lanes, and P^T and dS^T are at once what the next products want. A block of 16 keys by VF_LANES queries is
 * one vectorised Philox call. With blocks of 64 by 64 everything an inner step touches is about 60 KB (op/attention/attention.c
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

/* Biases of scores by how far a query is behind its key. */
struct bias {
    float *
        of_distances; /* (heads, span), distance 0 at `zero`; a block of queries reads beyond the last one. NULL: none */
    int32_t *entries; /* (span): which entry of a table each is */
    float *sums;      /* (B, heads, size): gradients of a table's entries, of each task; NULL: not wanted */
    int64_t span, zero, size;
};

struct problem {
    const int32_t *cu, *kv_cu, *coords, *rng;
    const void *q,
        *kv; /* q (T, q_pitch) begins with the queries of a row; keys and values of kv (S, kv_pitch) begin at */
    int64_t k_at, v_at; /* these elements of a row; heads are D apart */
    void *o;            /* (T, heads D) */
    float *lse;         /* (heads, T) */
    const void *dout;   /* backward, as are the gradients of q and kv */
    void *dq, *dkv;     /* dkv NULL: not wanted; dq where kv is q */
    int64_t B, T, S, D, q_pitch, kv_pitch, heads, kv_heads, queries, window;
    bool bf16, causal, drop;
    uint32_t threshold;
    int64_t site;
    float scale, softcap, keep_scale; /* keep_scale: of kept weights, 1 without dropout */
    struct bias bias;
    const float *sinks; /* (heads); NULL: there are none */
};

/* What the arguments of every such op, forward and backward, have under the same names. */
#define COMMON_OF_PROBLEM(a)                                                                                           \
    .cu = (a)->cu.data, .coords = (a)->coords.data, .rng = (a)->rng.data, .o = (a)->o.data, .lse = (a)->lse.data,      \
    .B = (a)->cu.shape[0] - 1, .T = (a)->o.shape[0], .D = (a)->o.shape[1] / (a)->heads, .heads = (a)->heads,           \
    .bf16 = (a)->o.dtype == DT_BF16, .drop = (a)->p > 0 && (a)->coords.data, .threshold = mask_threshold8((a)->p),     \
    .site = (a)->site, .scale = (float)(a)->scale,                                                                     \
    .keep_scale = (a)->p > 0 && (a)->coords.data ? (float)mask_scale8((a)->p) : 1

/* Where a row has the queries of all heads, then keys of `n` heads, then their values. */
#define ROWS_OF_PROBLEM(a, rows, n)                                                                                    \
    .kv_cu = (a)->cu.data, .q = (rows).data, .kv = (rows).data, .S = (a)->o.shape[0], .q_pitch = (rows).shape[1],      \
    .kv_pitch = (rows).shape[1], .kv_heads = (n), .k_at = (a)->o.shape[1],                                             \
    .v_at = (a)->o.shape[1] + (n) * ((a)->o.shape[1] / (a)->heads)

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t blocks(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* How many rows of sequence b are asked. */
static inline int64_t asked(const struct problem *p, int64_t b)
{
    return b < p->B ? p->kv_cu[b + 1] - p->kv_cu[b] : 0;
}

/* How many rows of sequence b ask; of the padding behind the last none, and none where there is no key. */
static inline int64_t asking(const struct problem *p, int64_t b)
{
    int64_t length = b < p->B && asked(p, b) ? p->cu[b + 1] - p->cu[b] : 0;
    return p->queries ? smaller(p->queries, length) : length;
}

/* ---- what a query sees ---- */

/* Where the first block of keys begins of which a query sees one. */
static inline int64_t first_key(const struct problem *p, int64_t query)
{
    return p->window && query >= p->window ? (query - p->window + 1) / KEYS * KEYS : 0;
}

/* Behind the last of `length` keys that a query of a sequence sees. */
static inline int64_t end_key(const struct problem *p, int64_t query, int64_t length)
{
    if (p->causal)
        return smaller(query + 1, length);
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

/* Biases of a block whose first query is `offset` behind its first key: of query j and key i at j - i. */
static inline const float *biases_of(const struct problem *p, int64_t head, int64_t offset)
{
    return p->bias.of_distances + head * p->bias.span + p->bias.zero + offset;
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

/* Rows of units, `ld` apart: 0 in column j on behind the last of n, as far as the matrix unit sums. */
SIMD void zero_rows(bool pair, uint32_t *rows, int64_t ld, int64_t j, int64_t n)
{
    for (int64_t i = (n + 1) / 2; AMX && pair && i < tile_pad(pair, n) / 2; i++)
        vu_store(rows + i * ld + j, (vu){0});
}

/* ---- what the ops are made of: attention.c and attention_bwd.c ---- */

struct relative; /* relative.h; NULL: there are no relative positions */

/* o and lse of every row; the workspace is the bytes that the other says. */
int64_t ISA(attention_forward_workspace)(const struct problem *p, int threads);
void ISA(attention_forward)(const struct problem *p, void *workspace, int threads);

/* A task of it, in the memory of one thread: so many bytes. With bf16 between amx_begin and amx_end. */
int64_t ISA(attention_forward_bytes)(const struct problem *p);
void ISA(attention_forward_task)(const struct problem *p, const struct relative *r, void *memory, struct part part,
                                 int64_t head);

/* o and lse of the rows that do not ask: 0. */
void ISA(attention_forward_clear)(const struct problem *p);

/* The gradients of q and kv. */
int64_t ISA(attention_backward_workspace)(const struct problem *p, int threads);
void ISA(attention_backward)(const struct problem *p, void *workspace, int threads);

/* A task of it: a sequence, and a head that shares its keys with no other. No sequence has more than `longest` keys. */
int64_t ISA(attention_backward_bytes)(const struct problem *p, int64_t longest);
void ISA(attention_backward_task)(const struct problem *p, const struct relative *r, void *memory, int64_t longest,
                                  int64_t sequence, int64_t head);

/* Gradients of the rows that no task has: 0. */
void ISA(attention_backward_clear)(const struct problem *p);

#endif
