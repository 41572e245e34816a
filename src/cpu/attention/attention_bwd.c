/* The gradient of attention on blocks that stay in the cache (attention.h):
 *     S^T = K Q^T ;  dP^T = V dO^T ;  dV += P^T dO ;  dK += dS^T Q ;  dQ^T += K^T dS^T
 *
 * Order of sums, fixed by shape: products sum over D, or over the keys or queries of one block, in order; blocks are added in
 * order of keys (dQ), or of head, then queries (dK, dV). A task, made by one thread, is (sequence, some heads of one key head);
 * where a key head has several tasks, their dK and dV are added in the order of heads. */
#include "cpu/attention/attention.h"

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
    bool edge = hides(p, query, n_queries, key, n_keys), capped = p->softcap > 0;
    float per_cap = capped ? p->scale / p->softcap : 0;
    for (int64_t j = 0; j < n_queries; j += VF_LANES) {
        vi queries = vi_iota() + (int32_t)(query + j);
        vf log_sum = vf_load(lse + j) * LOG2E, row_delta = vf_load(delta + j),
           factor = vf_set1((capped ? p->softcap : p->scale) * LOG2E);
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
                    vf score = capped ? vf_tanh(vf_load(s + j) * per_cap) : vf_load(s + j);
                    vf w = vf_exp2(vf_fma(score, factor, -log_sum)), dw = vf_load(dp + j), kept = w;
                    if (edge)
                        kept = w = vf_where(sees(p, queries, key + i + u), w);
                    if (p->drop) {
                        vi keep = keeps(bits, t + u, p->threshold);
                        kept = vf_where(keep, w);
                        dw = vf_where(keep, dw);
                    }
                    ds[u] = w * (dw - row_delta);
                    if (capped)
                        ds[u] *= 1 - score * score;
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
    int64_t length = p->cu[b + 1] - p->cu[b], n_keys = smaller(KEYS, length - key);
    int64_t k = (p->cu[b] + key) * p->width + (p->heads + kv) * D, v = k + p->kv_heads * D;
    tile_pack_rows(pair, bf16, f->k, units(pair, width), p->qkv, k, p->width, n_keys, D);
    tile_pack_rows(pair, bf16, f->v, units(pair, width), p->qkv, v, p->width, n_keys, D);
    tile_pack_sum_rows(pair, bf16, f->stage, p->qkv, k, p->width, n_keys, D);
    tile_transpose(f->kt, KEYS, f->stage, width, units(pair, tile_pad(pair, n_keys)), width);
    float *dk = f->dk + key * width, *dv = f->dv + key * width;
    for (int64_t at = 0; query + at < end; at += QUERIES) {
        int64_t n = smaller(QUERIES, end - query - at);
        int64_t first = first_key(p, query + at);
        if (key < first || key >= end_key(p, query + at + n - 1, length))
            continue;
        tile_product(pair, TILE_ZERO, n_keys, tile_pad(pair, n), units(pair, D), f->k, units(pair, width),
                     f->qt + at * width, f->s, QUERIES, NULL);
        tile_product(pair, TILE_ZERO, n_keys, tile_pad(pair, n), units(pair, D), f->v, units(pair, width),
                     f->dot + at * width, f->dp, QUERIES, NULL);
        gradient_block(p, f, pair, b, head, query + at, n, key, n_keys, f->lse + at, f->delta + at);
        /* The first block of queries that meets these keys starts their sums; with a window there may be none. */
        bool start = first_head && !p->window && query + at == (p->causal ? key / QUERIES * QUERIES : 0);
        tile_product(pair, start ? TILE_ZERO : TILE_ADD, n_keys, width, units(pair, n), (uint32_t *)f->s, QUERIES,
                     f->dout + at * width, dv, width, NULL);
        tile_product(pair, start ? TILE_ZERO : TILE_ADD, n_keys, width, units(pair, n), (uint32_t *)f->dp, QUERIES,
                     f->q + at * width, dk, width, NULL);
        tile_product(pair, key > first ? TILE_ADD : TILE_ZERO, D, tile_pad(pair, n), units(pair, n_keys), f->kt, KEYS,
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

/* What one thread does: the queries of heads [from, end), which share a key head, of a sequence. */
struct heads_of_task {
    int64_t sequence, kv, part, from, end;
};

/* Sums of a key head's parts, (parts, T, 2 K D): dK and dV of all key heads, as they lie in a row of dqkv. */
SIMD void put_sums(const struct args_attention_bwd *a, const struct problem *p, const struct backward *f, bool pair,
                   bool bf16, struct heads_of_task t, float *sums)
{
    int64_t D = p->D, width = tile_pad(pair, D), first = p->cu[t.sequence], length = p->cu[t.sequence + 1] - first;
    if (sums) {
        int64_t row = 2 * p->kv_heads * D, to = (t.part * p->T + first) * row + t.kv * D;
        put_rows(sums, to, row, f->dk, width, length, D, 1, false);
        put_rows(sums, to + p->kv_heads * D, row, f->dv, width, length, D, 1, false);
    } else {
        int64_t to = first * p->width + (p->heads + t.kv) * D;
        put_rows(a->dqkv.data, to, p->width, f->dk, width, length, D, p->scale * p->keep_scale, bf16);
        put_rows(a->dqkv.data, to + p->kv_heads * D, p->width, f->dv, width, length, D, p->keep_scale, bf16);
    }
}

SIMD void backward_task(const struct args_attention_bwd *a, const struct problem *p, const struct backward *f,
                        bool pair, bool bf16, struct heads_of_task t, float *sums)
{
    int64_t b = t.sequence, D = p->D, width = tile_pad(pair, D), length = p->cu[b + 1] - p->cu[b];
    int64_t row = p->cu[b] * p->width, queries = asking(p, b), n_sums = blocks(length, KEYS) * KEYS * width;
    if (p->window) { /* some keys may have no query */
        memset(f->dk, 0, 4 * (size_t)n_sums);
        memset(f->dv, 0, 4 * (size_t)n_sums);
    }
    for (int64_t head = t.from; head < t.end; head++) {
        for (int64_t query = 0; query < queries; query += CHUNK) {
            int64_t end = smaller(queries, query + CHUNK);
            pack_queries(a, p, f, pair, bf16, b, head, query, end);
            for (int64_t key = first_key(p, query); key < end_key(p, end - 1, length); key += KEYS)
                panel_gradient(p, f, pair, bf16, b, head, head == t.from, query, end, key);
            for (int64_t at = 0; query + at < end; at += QUERIES) {
                int64_t n = smaller(QUERIES, end - query - at);
                tile_transpose(f->stage, width, (uint32_t *)f->dq + at * width, QUERIES, width, tile_pad(pair, n));
                put_rows(a->dqkv.data, row + (query + at) * p->width + head * D, p->width, (float *)f->stage, width, n,
                         D, p->scale * p->keep_scale, bf16);
            }
        }
        for (int64_t i = queries; i < length; i++)
            memset((char *)a->dqkv.data + dtype_bytes(a->dqkv.dtype, row + i * p->width + head * D), 0,
                   (size_t)dtype_bytes(a->dqkv.dtype, D));
    }
    put_sums(a, p, f, pair, bf16, t, sums);
}

static void backward_any(const struct args_attention_bwd *a, const struct problem *p, const struct backward *f,
                         struct heads_of_task t, float *sums)
{
    if (!p->bf16)
        backward_task(a, p, f, false, false, t, sums);
    else
        backward_task(a, p, f, TILE_PAIRS, true, t, sums);
}

enum { SPREAD = 16 }; /* tasks of a sequence, where it has so many heads: one long sequence should keep threads busy */

/* Heads of a task: all that share a key head, or, where key heads are few, some of them. Depends on the shape alone, as the
 * order of sums does. */
static int64_t heads_at_once(const struct problem *p)
{
    int64_t group = p->heads / p->kv_heads;
    return blocks(group, smaller(group, blocks(SPREAD, p->kv_heads)));
}

/* Adds up the parts of dK and dV, in order. */
static void add_parts(const struct args_attention_bwd *a, const struct problem *p, const float *sums, int64_t parts,
                      int threads)
{
    int64_t row = 2 * p->kv_heads * p->D, n_keys = p->kv_heads * p->D;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < p->cu[p->B]; i++)
        for (int64_t d = 0; d < row; d += VF_LANES) {
            vf sum = {0}, scale = vf_set1(p->keep_scale);
            scale *= vf_select(vi_iota() + (int32_t)d < (int32_t)n_keys, vf_set1(p->scale), vf_set1(1));
            for (int64_t k = 0; k < parts; k++)
                sum += vf_get_upto(sums, (k * p->T + i) * row + d, row - d, false);
            vf_put_upto(a->dqkv.data, i * p->width + p->heads * p->D + d, sum * scale, row - d, p->bf16);
        }
}

int64_t ISA(cpu_attention_bwd_workspace)(const struct args_attention_bwd *a, int threads)
{
    struct backward f;
    struct problem p = PROBLEM(a);
    int64_t parts = blocks(p.heads / p.kv_heads, heads_at_once(&p));
    struct carver c = {0};
    carve(&c, p.B * (int64_t)sizeof(struct part) / 4);
    carve(&c, parts > 1 ? parts * p.T * 2 * p.kv_heads * p.D : 0);
    return c.used + smaller(threads, p.B * p.kv_heads * parts) * carve_backward(&f, NULL, p.D, p.T);
}

void ISA(cpu_attention_bwd)(const struct args_attention_bwd *a, const struct call *c)
{
    struct problem p = PROBLEM(a);
    struct carver carver = {.base = c->workspace};
    struct part *parts = carve(&carver, p.B * (int64_t)sizeof *parts / 4);
    int64_t group = p.heads / p.kv_heads, heads = heads_at_once(&p), in_group = blocks(group, heads);
    float *sums = in_group > 1 ? carve(&carver, in_group * p.T * 2 * p.kv_heads * p.D) : NULL;
    int64_t of_sequence = p.kv_heads * in_group, tasks = list_parts(parts, &p, p.T) * of_sequence;
    int threads = tasks > 1 ? (int)smaller(c->threads, tasks) : 1, at_once = tasks_at_once(tasks, c->threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        struct backward f;
        int64_t size = carve_backward(&f, NULL, p.D, p.T);
        carve_backward(&f, carver.base + carver.used + omp_get_thread_num() * size, p.D, p.T);
        if (AMX && p.bf16)
            amx_begin();
#pragma omp for schedule(dynamic, at_once)
        for (int64_t i = 0; i < tasks; i++) {
            int64_t kv = i % of_sequence / in_group, k = i % in_group, from = kv * group + k * heads;
            struct heads_of_task t = {parts[i / of_sequence].sequence, kv, k, from,
                                      smaller(from + heads, (kv + 1) * group)};
            backward_any(a, &p, &f, t, sums);
        }
        if (AMX && p.bf16)
            amx_end();
    }
    if (sums)
        add_parts(a, &p, sums, in_group, c->threads);
    int64_t real = p.cu[p.B] * p.width, all = p.T * p.width;
    memset((char *)a->dqkv.data + dtype_bytes(a->dqkv.dtype, real), 0, (size_t)dtype_bytes(a->dqkv.dtype, all - real));
    if (a->dbias.data)
        ISA(cpu_sum_columns)(&a->dqkv, &a->dbias, c->threads);
}
