/* Attention on blocks that stay in the cache (attention.h):
 *     S^T = K Q^T ;  P^T = exp(S^T - m) ;  O^T = O^T diag(exp(m_old - m)) + V^T P^T
 * Bound by multiply-adds; the exponentials are about a fifth of the time.
 *
 * Order of sums, fixed by shape: products sum over D, or over the keys of one block, in order; blocks are added in order of
 * keys. A task, made by one thread, is (sequence, head, CHUNK queries), so no sum crosses threads. */
#include "cpu/attention/relative.h"

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

/* Block of n_keys by n_queries scores: new maxima, and P^T in place of S^T as (keys in units, QUERIES). `starts`: max and sum
 * are not there yet. A query may see no key of its first blocks: the maximum is -inf until it does. */
SIMD void softmax_block(const struct problem *p, const struct forward *f, bool pair, int64_t b, int64_t head,
                        int64_t query, int64_t n_queries, int64_t key, int64_t n_keys, bool starts, float *max,
                        float *sum)
{
    const float *bias = p->bias.of_distances ? biases_of(p, head, query - key) : NULL;
    bool edge = hides(p, query, n_queries, key, n_keys), changed = edge || p->softcap > 0 || bias;
    float per_cap = p->softcap > 0 ? p->scale / p->softcap : 0;
    for (int64_t j = 0; j < n_queries; j += VF_LANES) {
        float *s = f->scores + j;
        vi queries = vi_iota() + (int32_t)(query + j);
        vf old = starts ? vf_set1(-INFINITY) : vf_load(max + j), m = old, total = {0};
        for (int64_t i = 0; i < n_keys; i++) {
            vf x = vf_load(s + i * QUERIES);
            x = p->softcap > 0 ? vf_tanh(x * per_cap) * p->softcap : x * p->scale;
            if (bias)
                x += vf_load(bias + j - i);
            if (edge)
                x = vf_select(sees(p, queries, key + i), x, vf_set1(-INFINITY));
            if (changed)
                vf_store(s + i * QUERIES, x);
            m = vf_max(m, x);
        }
        vf factor = vf_set1(LOG2E * (changed ? 1 : p->scale)), m2 = m * LOG2E; /* e^x = 2^(x log2 e) */
        vf fall = (old - m) * LOG2E;
        if (p->window) {
            m2 = vf_where(m > -INFINITY, m2);
            fall = vf_select(m > -INFINITY, fall, vf_set1(-INFINITY));
        }
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
        zero_rows(pair, (uint32_t *)s, QUERIES, 0, n_keys);
        vf shrink = vf_exp2(fall);
        vf_store(f->shrink + j, shrink);
        vf_store(max + j, m);
        vf_store(sum + j, starts ? total : vf_fma(vf_load(sum + j), shrink, total));
    }
}

SIMD void pack_keys(const struct problem *p, const struct forward *f, bool pair, bool bf16, int64_t b, int64_t head,
                    int64_t key, int64_t n_keys)
{
    int64_t D = p->D, width = tile_pad(pair, D), kv = head / (p->heads / p->kv_heads);
    int64_t row = (p->kv_cu[b] + key) * p->kv_pitch + kv * D, k = row + p->k_at, v = row + p->v_at;
    tile_pack_rows(pair, bf16, f->k, units(pair, width), p->kv, k, p->kv_pitch, n_keys, D);
    for (int64_t i = 0; i < n_keys; i += KEYS) {
        int64_t n = smaller(KEYS, n_keys - i);
        tile_pack_sum_rows(pair, bf16, f->stage, p->kv, v + i * p->kv_pitch, p->kv_pitch, n, D);
        tile_transpose(f->v + i * width, KEYS, f->stage, width, units(pair, tile_pad(pair, n)), width);
    }
}

/* The head's sink becomes part of the sums of a block of queries. A sum that a sink far above all scores makes infinite is right for
 * o, which is 0 then; lse has another. */
SIMD void add_sink(float sink, int64_t n_queries, const float *max, float *sum, float *lse)
{
    for (int64_t i = 0; i < n_queries; i += VF_LANES) {
        vf m = vf_load(max + i), l = vf_load(sum + i), s = vf_set1(sink), top = vf_max(s, m);
        vf total = vf_fma(l, vf_exp2((m - top) * LOG2E), vf_exp2((s - top) * LOG2E));
        vf_put_upto(lse, i, top + vf_log(total), n_queries - i, false);
        vf_store(sum + i, l + vf_exp2((s - m) * LOG2E));
    }
}

/* Writes o and lse of a finished block of queries. */
SIMD void finish_queries(const struct problem *p, const struct forward *f, bool pair, bool bf16, int64_t b,
                         int64_t head, int64_t query, int64_t n_queries, const float *o, const float *max, float *sum)
{
    int64_t D = p->D, width = tile_pad(pair, D), first = p->cu[b] + query;
    float *rows = (float *)f->stage, *lse = p->lse + head * p->T + first;
    tile_transpose((uint32_t *)rows, width, (const uint32_t *)o, QUERIES, width, tile_pad(pair, n_queries));
    if (p->sinks)
        add_sink(p->sinks[head], n_queries, max, sum, lse);
    for (int64_t i = 0; i < n_queries; i++)
        for (int64_t d = 0; d < D; d += VF_LANES)
            vf_put_upto(p->o, (first + i) * p->heads * D + head * D + d,
                        vf_load(rows + i * width + d) * (p->keep_scale / sum[i]), D - d, bf16);
    for (int64_t i = 0; i < n_queries && !p->sinks; i += VF_LANES)
        vf_put_upto(lse, i, vf_load(max + i) + vf_log(vf_load(sum + i)), n_queries - i, false);
}

/* S^T of a block, before its scale. */
SIMD void score_block(const struct problem *p, const struct forward *f, const struct relative *r, bool pair,
                      const uint32_t *keys, int64_t n_keys, int64_t n_queries, int64_t offset)
{
    int64_t ld = units(pair, tile_pad(pair, p->D));
    tile_product(pair, TILE_ZERO, n_keys, tile_pad(pair, n_queries), units(pair, p->D), keys, ld, f->q, f->scores,
                 QUERIES, NULL);
    if (r)
        add_relative_scores(r, pair, p->D, f->scores, keys, f->q, n_keys, n_queries, offset);
}

SIMD void forward_task(const struct problem *p, const struct forward *f, const struct relative *r, bool pair, bool bf16,
                       struct part part, int64_t head)
{
    int64_t b = part.sequence, D = p->D, width = tile_pad(pair, D), length = asked(p, b);
    int64_t end = smaller(asking(p, b), part.query + CHUNK), n_keys = end_key(p, end - 1, length);
    for (int64_t chunk = first_key(p, part.query); chunk < n_keys; chunk += CHUNK) {
        int64_t chunk_end = smaller(n_keys, chunk + CHUNK);
        pack_keys(p, f, pair, bf16, b, head, chunk, chunk_end - chunk);
        for (int64_t query = part.query; query < end; query += QUERIES) {
            int64_t n = smaller(QUERIES, end - query), at = query - part.query;
            int64_t first = first_key(p, query), stop = smaller(chunk_end, end_key(p, query + n - 1, length));
            if (first >= stop || chunk >= stop)
                continue;
            float *o = f->o + at * width, *max = f->max + at, *sum = f->sum + at;
            tile_pack_rows(pair, bf16, f->stage, units(pair, width), p->q, (p->cu[b] + query) * p->q_pitch + head * D,
                           p->q_pitch, n, D);
            tile_transpose(f->q, QUERIES, f->stage, units(pair, width), tile_pad(pair, n), units(pair, width));
            for (int64_t key = chunk > first ? chunk : first; key < stop; key += KEYS) {
                int64_t m = smaller(KEYS, chunk_end - key), in_chunk = key - chunk;
                score_block(p, f, r, pair, f->k + in_chunk * units(pair, width), m, n, query - key);
                softmax_block(p, f, pair, b, head, query, n, key, m, key == first, max, sum);
                tile_product(pair, key > first ? TILE_SCALE : TILE_ZERO, D, tile_pad(pair, n), units(pair, m),
                             f->v + in_chunk * width, KEYS, (uint32_t *)f->scores, o, QUERIES, f->shrink);
            }
        }
    }
    for (int64_t query = part.query; query < end; query += QUERIES) {
        int64_t at = query - part.query;
        finish_queries(p, f, pair, bf16, b, head, query, smaller(QUERIES, end - query), f->o + at * width, f->max + at,
                       f->sum + at);
    }
}

/* One copy of the code for each type of the products and of the tensor. */
static void forward_any(const struct problem *p, const struct forward *f, const struct relative *r, struct part part,
                        int64_t head)
{
    if (!p->bf16)
        forward_task(p, f, r, false, false, part, head);
    else
        forward_task(p, f, r, TILE_PAIRS, true, part, head);
}

int64_t ISA(attention_forward_bytes)(const struct problem *p)
{
    struct forward f;
    return carve_forward(&f, NULL, p->D);
}

void ISA(attention_forward_task)(const struct problem *p, const struct relative *r, void *memory, struct part part,
                                 int64_t head)
{
    struct forward f;
    carve_forward(&f, memory, p->D);
    forward_any(p, &f, r, part, head);
}

void ISA(attention_forward_clear)(const struct problem *p)
{
    int64_t row = p->heads * p->D, element = p->bf16 ? 2 : 4;
    for (int64_t b = 0; b <= p->B; b++) {
        int64_t from = p->cu[b] + asking(p, b), rows = (b < p->B ? p->cu[b + 1] : p->T) - from;
        memset((char *)p->o + element * from * row, 0, (size_t)(element * rows * row));
        for (int64_t h = 0; h < p->heads && rows > 0; h++)
            memset(p->lse + h * p->T + from, 0, 4 * (size_t)rows);
    }
}

int64_t ISA(attention_forward_workspace)(const struct problem *p, int threads)
{
    int64_t parts = most_parts(p->B, p->T);
    return (parts * (int64_t)sizeof(struct part) + 63) / 64 * 64 +
           smaller(threads, parts * p->heads) * ISA(attention_forward_bytes)(p);
}

void ISA(attention_forward)(const struct problem *p, void *workspace, int max_threads)
{
    struct carver carver = {.base = workspace};
    struct part *parts = carve(&carver, most_parts(p->B, p->T) * (int64_t)sizeof *parts / 4);
    int64_t tasks = list_parts(parts, p, CHUNK) * p->heads, bytes = ISA(attention_forward_bytes)(p);
    int threads = tasks > 1 ? (int)smaller(max_threads, tasks) : 1, at_once = tasks_at_once(tasks, max_threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        struct forward f;
        carve_forward(&f, carver.base + carver.used + omp_get_thread_num() * bytes, p->D);
        if (AMX && p->bf16)
            amx_begin();
#pragma omp for schedule(dynamic, at_once)
        for (int64_t i = 0; i < tasks; i++)
            forward_any(p, &f, NULL, parts[i / p->heads], i % p->heads);
        if (AMX && p->bf16)
            amx_end();
    }
    ISA(attention_forward_clear)(p);
}

/* ---- the op ---- */

static struct problem problem_of(const struct args_attention *a)
{
    return (struct problem){COMMON_OF_PROBLEM(a),         ROWS_OF_PROBLEM(a, a->qkv, a->kv_heads),
                            .queries = a->queries,        .window = a->window < a->o.shape[0] ? a->window : 0,
                            .softcap = (float)a->softcap, .causal = a->causal,
                            .sinks = a->sinks.data};
}

int64_t ISA(cpu_attention_workspace)(const struct args_attention *a, int threads)
{
    struct problem p = problem_of(a);
    return ISA(attention_forward_workspace)(&p, threads);
}

void ISA(cpu_attention)(const struct args_attention *a, const struct call *c)
{
    struct problem p = problem_of(a);
    ISA(attention_forward)(&p, c->workspace, c->threads);
}
