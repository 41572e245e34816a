/* The gradient of attention on blocks that stay in the cache (attention.h):
 *     S^T = K Q^T ;  dP^T = V dO^T ;  dV += P^T dO ;  dK += dS^T Q ;  dQ^T += K^T dS^T
 *
 * Order of sums, fixed by shape: products sum over D, or over the keys or queries of one block, in order; blocks are added in
 * order of keys (dQ), or of head, then queries (dK, dV). A task, made by one thread, is (sequence, some heads of one key head);
 * where a key head has several tasks, their dK and dV are added in the order of heads. */
#include "cpu/attention/relative.h"

struct backward {       /* of one thread */
    uint32_t *k, *v;    /* (KEYS, D) rows of a panel */
    uint32_t *kt;       /* (D, KEYS) K^T */
    uint32_t *qt, *dot; /* (CHUNK / QUERIES, D, QUERIES) Q^T and dO^T, block by block */
    uint32_t *q, *dout; /* (CHUNK, D) Q and dO for sums over queries */
    uint32_t *stage;    /* (QUERIES, D) */
    float *s, *dp;      /* (KEYS, QUERIES) S^T then P^T, dP^T then dS^T, in place */
    uint32_t *ds;       /* (KEYS, QUERIES) dS^T for sums over keys; for floats the same as dp */
    float *slopes;      /* (KEYS, QUERIES) dS^T, not rounded; for floats the same as dp */
    float *dq;          /* (CHUNK / QUERIES, D, QUERIES) dQ^T */
    float *lse, *delta; /* (CHUNK) */
    float *dk, *dv;     /* (longest, D) */
    float *distances;   /* (span) gradients of biases */
};

static int64_t carve_backward(struct backward *f, void *base, const struct problem *p, int64_t longest)
{
    struct carver c = {.base = base};
    int64_t width = tile_pad(TILE_PAIRS, p->D); /* the wider */
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
    f->slopes = carve(&c, KEYS * QUERIES);
    f->dq = carve(&c, CHUNK * width);
    f->lse = carve(&c, CHUNK);
    f->delta = carve(&c, CHUNK);
    f->dk = carve(&c, blocks(longest, KEYS) * KEYS * width);
    f->dv = carve(&c, blocks(longest, KEYS) * KEYS * width);
    f->distances = carve(&c, p->bias.span);
    return c.used;
}

/* From S^T and dP^T of a block to P^T with its mask (rows of units, QUERIES apart), and dS^T = P^T (dP^T - delta) both
 * as rows (in dp) and for sums over keys (in ds), and where `slopes` says so not rounded. The scale of kept weights is left to
 * the end: delta is divided by it. */
SIMD void gradient_block(const struct problem *p, const struct backward *f, bool pair, int64_t b, int64_t head,
                         int64_t query, int64_t n_queries, int64_t key, int64_t n_keys, const float *lse,
                         const float *delta, bool slopes)
{
    const float *bias = p->bias.of_distances ? biases_of(p, head, query - key) : NULL;
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
                    vf less = bias ? vf_fma(vf_load(bias + j - i - u), vf_set1(LOG2E), -log_sum) : -log_sum;
                    vf w = vf_exp2(vf_fma(score, factor, less)), dw = vf_load(dp + j), kept = w;
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
                    if (pair && slopes)
                        vf_store(f->slopes + (i + u) * QUERIES + j, ds[u]);
                }
                if (pair)
                    vu_store(f->ds + i / 2 * QUERIES + j, vu_pair_round(ds[0], ds[1]));
            }
        }
        zero_rows(pair, f->ds, QUERIES, j, n_keys);
    }
    int64_t done = (n_queries + VF_LANES - 1) / VF_LANES * VF_LANES; /* the matrix unit sums over more */
    for (int64_t i = 0; AMX && pair && i < n_keys && done < tile_pad(pair, n_queries); i++)
        for (int64_t j = done; j < tile_pad(pair, n_queries); j += VF_LANES) {
            vf_put(f->s + i * QUERIES, j, (vf){0}, pair);
            vf_put(f->dp + i * QUERIES, j, (vf){0}, pair);
            vf_store(f->slopes + i * QUERIES + j, (vf){0});
        }
}

/* Adds dS^T of a block to the gradients of the biases. Keys that follow each other would read what was just written, shifted by a lane,
 * which is slow: those VF_LANES apart come one after the other. */
SIMD void sum_distances(const struct problem *p, const struct backward *f, const float *slopes, int64_t offset,
                        int64_t n_queries, int64_t n_keys)
{
    float *sums = f->distances + p->bias.zero + offset;
    for (int64_t t = 0; t < VF_LANES; t++)
        for (int64_t i = t; i < n_keys; i += VF_LANES)
            for (int64_t j = 0; j < n_queries; j += VF_LANES)
                vf_store(sums + j - i, vf_load(sums + j - i) + vf_load(slopes + i * QUERIES + j));
}

static void clear_distances(const struct problem *p, const struct backward *f, int64_t b)
{
    int64_t least = 1 - asked(p, b), end = asking(p, b) + QUERIES;
    memset(f->distances + p->bias.zero + least, 0, 4 * (size_t)(end - least));
}

/* Gradients of a table's entries, of a task: in the order of distances. */
static void sum_entries(const struct problem *p, const struct backward *f, int64_t b, int64_t head)
{
    float *sums = p->bias.sums + (b * p->heads + head) * p->bias.size;
    const float *from = f->distances + p->bias.zero;
    const int32_t *entries = p->bias.entries + p->bias.zero;
    memset(sums, 0, 4 * (size_t)p->bias.size);
    for (int64_t d = 1 - asked(p, b); d < asking(p, b); d++)
        sums[entries[d]] += from[d] * p->keep_scale;
}

/* Queries [query, end) of a head: Q and dO in both forms, lse and delta; in padding lanes lse makes P 0. */
SIMD void pack_queries(const struct problem *p, const struct backward *f, bool pair, bool bf16, int64_t b, int64_t head,
                       int64_t query, int64_t end)
{
    int64_t D = p->D, width = tile_pad(pair, D), row = p->heads * D;
    for (int64_t at = 0; query + at < end; at += QUERIES) {
        int64_t n = smaller(QUERIES, end - query - at), first = p->cu[b] + query + at;
        int64_t q = first * p->q_pitch + head * D, o = first * row + head * D;
        tile_pack_rows(pair, bf16, f->stage, units(pair, width), p->q, q, p->q_pitch, n, D);
        tile_transpose(f->qt + at * width, QUERIES, f->stage, units(pair, width), tile_pad(pair, n),
                       units(pair, width));
        tile_pack_rows(pair, bf16, f->stage, units(pair, width), p->dout, o, row, n, D);
        tile_transpose(f->dot + at * width, QUERIES, f->stage, units(pair, width), tile_pad(pair, n),
                       units(pair, width));
        tile_pack_sum_rows(pair, bf16, f->q + at * width, p->q, q, p->q_pitch, n, D);
        tile_pack_sum_rows(pair, bf16, f->dout + at * width, p->dout, o, row, n, D);
        for (int64_t i = 0; i < tile_pad(pair, n); i++) {
            vf sum = {0};
            for (int64_t d = 0; i < n && d < D; d += VF_LANES)
                sum = vf_fma(vf_get_upto(p->o, o + i * row + d, D - d, bf16),
                             vf_get_upto(p->dout, o + i * row + d, D - d, bf16), sum);
            f->delta[at + i] = vf_hsum(sum) / p->keep_scale;
            f->lse[at + i] = i < n ? p->lse[head * p->T + first + i] : INFINITY;
        }
    }
}

/* Whether some keys of a sequence may have no query that sees them in its first blocks, or at all. */
static inline bool some_unseen(const struct problem *p, int64_t b)
{
    return p->window || (p->causal && asked(p, b) > asking(p, b));
}

/* Adds what queries [query, end) of a head have to do with KEYS keys from `key` on. */
SIMD void panel_gradient(const struct problem *p, const struct backward *f, const struct relative *r, bool pair,
                         bool bf16, int64_t b, int64_t head, bool first_head, int64_t query, int64_t end, int64_t key)
{
    int64_t D = p->D, width = tile_pad(pair, D), kv = head / (p->heads / p->kv_heads);
    int64_t length = asked(p, b), n_keys = smaller(KEYS, length - key);
    int64_t row = (p->kv_cu[b] + key) * p->kv_pitch + kv * D, k = row + p->k_at, v = row + p->v_at;
    bool adds = !first_head || some_unseen(p, b), wants_slopes = r || p->bias.sums;
    const float *slopes = pair ? f->slopes : f->dp;
    tile_pack_rows(pair, bf16, f->k, units(pair, width), p->kv, k, p->kv_pitch, n_keys, D);
    tile_pack_rows(pair, bf16, f->v, units(pair, width), p->kv, v, p->kv_pitch, n_keys, D);
    tile_pack_sum_rows(pair, bf16, f->stage, p->kv, k, p->kv_pitch, n_keys, D);
    tile_transpose(f->kt, KEYS, f->stage, width, units(pair, tile_pad(pair, n_keys)), width);
    float *dk = f->dk + key * width, *dv = f->dv + key * width;
    for (int64_t at = 0; query + at < end; at += QUERIES) {
        int64_t n = smaller(QUERIES, end - query - at), offset = query + at - key;
        int64_t first = first_key(p, query + at);
        const uint32_t *q = f->q + at * width, *qt = f->qt + at * width;
        float *dq = f->dq + at * width;
        if (key < first || key >= end_key(p, query + at + n - 1, length))
            continue;
        tile_product(pair, TILE_ZERO, n_keys, tile_pad(pair, n), units(pair, D), f->k, units(pair, width), qt, f->s,
                     QUERIES, NULL);
        if (r)
            add_relative_scores(r, pair, D, f->s, f->k, qt, n_keys, n, offset);
        tile_product(pair, TILE_ZERO, n_keys, tile_pad(pair, n), units(pair, D), f->v, units(pair, width),
                     f->dot + at * width, f->dp, QUERIES, NULL);
        gradient_block(p, f, pair, b, head, query + at, n, key, n_keys, f->lse + at, f->delta + at, wants_slopes);
        /* The first block of queries that meets these keys starts their sums. */
        bool start = !adds && query + at == (p->causal ? key / QUERIES * QUERIES : 0);
        tile_product(pair, start ? TILE_ZERO : TILE_ADD, n_keys, width, units(pair, n), (uint32_t *)f->s, QUERIES,
                     f->dout + at * width, dv, width, NULL);
        tile_product(pair, start ? TILE_ZERO : TILE_ADD, n_keys, width, units(pair, n), (uint32_t *)f->dp, QUERIES, q,
                     dk, width, NULL);
        tile_product(pair, key > first ? TILE_ADD : TILE_ZERO, D, tile_pad(pair, n), units(pair, n_keys), f->kt, KEYS,
                     pair ? f->ds : (uint32_t *)f->dp, dq, QUERIES, NULL);
        if (r)
            add_relative_gradients(r, pair, D, slopes, f->kt, q, dk, dq, n_keys, n, offset);
        if (p->bias.sums)
            sum_distances(p, f, slopes, offset, n, n_keys);
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

/* Sums of a key head's parts, (parts, S, 2 K D): dK and dV of all key heads, as they lie in a row of dkv. */
SIMD void put_sums(const struct problem *p, const struct backward *f, bool pair, bool bf16, struct heads_of_task t,
                   float *sums)
{
    int64_t D = p->D, width = tile_pad(pair, D), first = p->kv_cu[t.sequence], length = asked(p, t.sequence);
    if (sums) {
        int64_t row = 2 * p->kv_heads * D, to = (t.part * p->S + first) * row + t.kv * D;
        put_rows(sums, to, row, f->dk, width, length, D, 1, false);
        put_rows(sums, to + p->kv_heads * D, row, f->dv, width, length, D, 1, false);
    } else if (p->dkv) {
        int64_t to = first * p->kv_pitch + t.kv * D;
        put_rows(p->dkv, to + p->k_at, p->kv_pitch, f->dk, width, length, D, p->scale * p->keep_scale, bf16);
        put_rows(p->dkv, to + p->v_at, p->kv_pitch, f->dv, width, length, D, p->keep_scale, bf16);
    }
}

/* Elements [at, at + n) of a gradient become 0. */
static void clear_elements(const struct problem *p, void *gradient, int64_t at, int64_t n)
{
    int64_t element = p->bf16 ? 2 : 4;
    memset((char *)gradient + element * at, 0, (size_t)(element * n));
}

SIMD void backward_task(const struct problem *p, const struct backward *f, const struct relative *r, bool pair,
                        bool bf16, struct heads_of_task t, float *sums)
{
    int64_t b = t.sequence, D = p->D, width = tile_pad(pair, D), length = asked(p, b);
    int64_t row = p->cu[b] * p->q_pitch, queries = asking(p, b), n_sums = blocks(length, KEYS) * KEYS * width;
    if (some_unseen(p, b)) {
        memset(f->dk, 0, 4 * (size_t)n_sums);
        memset(f->dv, 0, 4 * (size_t)n_sums);
    }
    if (p->bias.sums)
        clear_distances(p, f, b);
    for (int64_t head = t.from; head < t.end; head++) {
        for (int64_t query = 0; query < queries; query += CHUNK) {
            int64_t end = smaller(queries, query + CHUNK);
            pack_queries(p, f, pair, bf16, b, head, query, end);
            for (int64_t key = first_key(p, query); key < end_key(p, end - 1, length); key += KEYS)
                panel_gradient(p, f, r, pair, bf16, b, head, head == t.from, query, end, key);
            for (int64_t at = 0; query + at < end; at += QUERIES) {
                int64_t n = smaller(QUERIES, end - query - at);
                tile_transpose(f->stage, width, (uint32_t *)f->dq + at * width, QUERIES, width, tile_pad(pair, n));
                put_rows(p->dq, row + (query + at) * p->q_pitch + head * D, p->q_pitch, (float *)f->stage, width, n, D,
                         p->scale * p->keep_scale, bf16);
            }
        }
        for (int64_t i = queries; i < p->cu[b + 1] - p->cu[b]; i++)
            clear_elements(p, p->dq, row + i * p->q_pitch + head * D, D);
        if (p->bias.sums)
            sum_entries(p, f, b, head);
    }
    put_sums(p, f, pair, bf16, t, sums);
}

static void backward_any(const struct problem *p, const struct backward *f, const struct relative *r,
                         struct heads_of_task t, float *sums)
{
    if (!p->bf16)
        backward_task(p, f, r, false, false, t, sums);
    else
        backward_task(p, f, r, TILE_PAIRS, true, t, sums);
}

int64_t ISA(attention_backward_bytes)(const struct problem *p, int64_t longest)
{
    struct backward f;
    return carve_backward(&f, NULL, p, longest);
}

void ISA(attention_backward_task)(const struct problem *p, const struct relative *r, void *memory, int64_t longest,
                                  int64_t sequence, int64_t head)
{
    struct backward f;
    carve_backward(&f, memory, p, longest);
    backward_any(p, &f, r, (struct heads_of_task){sequence, head, 0, head, head + 1}, NULL);
}

void ISA(attention_backward_clear)(const struct problem *p)
{
    int64_t rows = p->cu[p->B], kv_rows = p->kv_cu[p->B];
    for (int64_t b = 0; b < p->B && p->kv != p->q; b++) {
        if (asking(p, b))
            continue;
        clear_elements(p, p->dq, p->cu[b] * p->q_pitch, (p->cu[b + 1] - p->cu[b]) * p->q_pitch);
        if (p->dkv)
            clear_elements(p, p->dkv, p->kv_cu[b] * p->kv_pitch, asked(p, b) * p->kv_pitch);
    }
    clear_elements(p, p->dq, rows * p->q_pitch, (p->T - rows) * p->q_pitch);
    if (p->dkv)
        clear_elements(p, p->dkv, kv_rows * p->kv_pitch, (p->S - kv_rows) * p->kv_pitch);
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
static void add_parts(const struct problem *p, const float *sums, int64_t parts, int threads)
{
    int64_t row = 2 * p->kv_heads * p->D, n_keys = p->kv_heads * p->D;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < p->kv_cu[p->B]; i++)
        for (int64_t d = 0; d < row; d += VF_LANES) {
            vf sum = {0}, scale = vf_set1(p->keep_scale);
            scale *= vf_select(vi_iota() + (int32_t)d < (int32_t)n_keys, vf_set1(p->scale), vf_set1(1));
            for (int64_t k = 0; k < parts; k++)
                sum += vf_get_upto(sums, (k * p->S + i) * row + d, row - d, false);
            vf_put_upto(p->dkv, i * p->kv_pitch + p->k_at + d, sum * scale, row - d, p->bf16);
        }
}

int64_t ISA(attention_backward_workspace)(const struct problem *p, int threads)
{
    int64_t parts = blocks(p->heads / p->kv_heads, heads_at_once(p));
    struct carver c = {0};
    carve(&c, p->B * (int64_t)sizeof(struct part) / 4);
    carve(&c, parts > 1 ? parts * p->S * 2 * p->kv_heads * p->D : 0);
    return c.used + smaller(threads, p->B * p->kv_heads * parts) * ISA(attention_backward_bytes)(p, p->S);
}

void ISA(attention_backward)(const struct problem *p, void *workspace, int max_threads)
{
    struct carver carver = {.base = workspace};
    struct part *parts = carve(&carver, p->B * (int64_t)sizeof *parts / 4);
    int64_t group = p->heads / p->kv_heads, heads = heads_at_once(p), in_group = blocks(group, heads);
    float *sums = in_group > 1 ? carve(&carver, in_group * p->S * 2 * p->kv_heads * p->D) : NULL;
    int64_t of_sequence = p->kv_heads * in_group, tasks = list_parts(parts, p, p->T) * of_sequence;
    int64_t bytes = ISA(attention_backward_bytes)(p, p->S);
    int threads = tasks > 1 ? (int)smaller(max_threads, tasks) : 1, at_once = tasks_at_once(tasks, max_threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        struct backward f;
        carve_backward(&f, carver.base + carver.used + omp_get_thread_num() * bytes, p, p->S);
        if (AMX && p->bf16)
            amx_begin();
#pragma omp for schedule(dynamic, at_once)
        for (int64_t i = 0; i < tasks; i++) {
            int64_t kv = i % of_sequence / in_group, k = i % in_group, from = kv * group + k * heads;
            struct heads_of_task t = {parts[i / of_sequence].sequence, kv, k, from,
                                      smaller(from + heads, (kv + 1) * group)};
            backward_any(p, &f, NULL, t, sums);
        }
        if (AMX && p->bf16)
            amx_end();
    }
    if (sums)
        add_parts(p, sums, in_group, max_threads);
    ISA(attention_backward_clear)(p);
}

/* ---- the op ---- */

static struct problem problem_of(const struct args_attention_bwd *a)
{
    return (struct problem){COMMON_OF_PROBLEM(a),
                            ROWS_OF_PROBLEM(a, a->qkv, a->kv_heads),
                            .dout = a->dout.data,
                            .dq = a->dqkv.data,
                            .dkv = a->dqkv.data,
                            .queries = a->queries,
                            .window = a->window < a->o.shape[0] ? a->window : 0,
                            .softcap = (float)a->softcap,
                            .causal = a->causal};
}

int64_t ISA(cpu_attention_bwd_workspace)(const struct args_attention_bwd *a, int threads)
{
    struct problem p = problem_of(a);
    return ISA(attention_backward_workspace)(&p, threads);
}

void ISA(cpu_attention_bwd)(const struct args_attention_bwd *a, const struct call *c)
{
    struct problem p = problem_of(a);
    ISA(attention_backward)(&p, c->workspace, c->threads);
    if (a->dbias.data)
        ISA(cpu_sum_columns)(&a->dqkv, &a->dbias, c->threads);
}
