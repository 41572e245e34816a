/* Attention of one set of sequences to another, with a bias by distance, row by row: all scores of a query, their exponentials, then the
 * sums over keys. Every thread takes heads; a head's sequences and rows are gone through in order.
 *
 * Order of sums: over D by lanes, folded at the end; over keys, over queries and over the entries of the table in order. Nothing
 * crosses threads. Bound by operations, which are not products of blocks: several times slower than attention.c. */
#include "cpu/kernels.h"
#include "op/bias_bucket.h"
#include "op/mask.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* One head of one sequence: the elements at which its first rows begin in q, and in what has the keys and values. */
struct task {
    const struct tensor *q, *keys, *table;
    const int32_t *coords, *rng;
    int64_t first, length, kv_first, kv_length, D, heads, head, furthest, site, q_at, k_at, v_at;
    float scale;
    double p;
    bool causal, bf16;
};

static int64_t first_of(const struct tensor *cu, int64_t b)
{
    return ((const int32_t *)cu->data)[b];
}

static int64_t width_of(const struct tensor *q, const struct tensor *kv)
{
    return kv->ndim ? q->shape[1] : q->shape[1] / 3;
}

/* Its place, without the op's attributes. */
static struct task place_task(const struct tensor *q, const struct tensor *kv, const struct tensor *cu,
                              const struct tensor *kv_cu, int64_t heads, int64_t b, int64_t h)
{
    bool own = !kv->ndim; /* q has the keys, too */
    const struct tensor *keys = own ? q : kv, *key_cu = own ? cu : kv_cu;
    int64_t width = width_of(q, kv);
    struct task t = {.q = q, .keys = keys, .heads = heads, .head = h, .D = width / heads};
    t.first = first_of(cu, b), t.length = first_of(cu, b + 1) - t.first;
    t.kv_first = first_of(key_cu, b), t.kv_length = first_of(key_cu, b + 1) - t.kv_first;
    t.q_at = t.first * q->shape[1] + h * t.D;
    t.k_at = t.kv_first * keys->shape[1] + (own ? width : 0) + h * t.D;
    t.v_at = t.k_at + width;
    t.bf16 = q->dtype == DT_BF16;
    return t;
}

/* Of either op's arguments, which have what it wants under the same names. */
#define TASK(t, a, b, h)                                                                                               \
    struct task t = place_task(&(a)->q, &(a)->kv, &(a)->cu, &(a)->kv_cu, (a)->heads, b, h);                            \
    t.table = &(a)->table, t.coords = (a)->coords.data, t.rng = (a)->rng.data, t.furthest = (a)->furthest;             \
    t.site = (a)->site, t.scale = (float)(a)->scale, t.p = (a)->p, t.causal = (a)->causal

/* Floats of a vector of n, with room to the next one. */
static int64_t padded(int64_t n)
{
    return (n + 15) / 16 * 16 + 16;
}

/* Row i of the queries, row j of the keys and of the values. */
SIMD int64_t q_row(const struct task *t, int64_t i)
{
    return t->q_at + i * t->q->shape[1];
}

SIMD int64_t k_row(const struct task *t, int64_t j)
{
    return t->k_at + j * t->keys->shape[1];
}

SIMD int64_t v_row(const struct task *t, int64_t j)
{
    return t->v_at + j * t->keys->shape[1];
}

/* Behind the last key that query i sees. */
SIMD int64_t end_of_keys(const struct task *t, int64_t i)
{
    return t->causal && i + 1 < t->kv_length ? i + 1 : t->kv_length;
}

SIMD float dot(const void *a, int64_t i, bool a_bf16, const void *b, int64_t j, bool b_bf16, int64_t n)
{
    vf sum = {0};
    for (int64_t d = 0; d < n; d += VF_LANES)
        sum = vf_fma(vf_get_upto(a, i + d, n - d, a_bf16), vf_get_upto(b, j + d, n - d, b_bf16), sum);
    return vf_hsum(sum);
}

/* to (n) += by * x */
SIMD void add_scaled(float *to, float by, const void *x, int64_t i, int64_t n, bool bf16)
{
    for (int64_t d = 0; d < n; d += VF_LANES)
        vf_put_upto(to, d, vf_fma(vf_get_upto(x, i + d, n - d, bf16), vf_set1(by), vf_get_upto(to, d, n - d, false)),
                    n - d, false);
}

SIMD void put_row(const struct tensor *to, int64_t at, const float *from, int64_t n, bool bf16)
{
    for (int64_t d = 0; d < n; d += VF_LANES)
        vf_put_upto(to->data, at + d, vf_get_upto(from, d, n - d, false), n - d, bf16);
}

SIMD int64_t bucket(const struct task *t, int64_t i, int64_t j)
{
    return bias_bucket(i, j, t->table->shape[0], t->furthest, t->causal);
}

SIMD float score(const struct task *t, int64_t i, int64_t j)
{
    float s = t->scale * dot(t->q->data, q_row(t, i), t->bf16, t->keys->data, k_row(t, j), t->bf16, t->D);
    if (!t->table->data)
        return s;
    vf bias = vf_get_n(t->table->data, bucket(t, i, j) * t->heads + t->head, 1, t->table->dtype == DT_BF16);
    return s + bias[0];
}

SIMD float kept(const struct task *t, int64_t i, int64_t j)
{
    if (t->p <= 0 || !t->coords)
        return 1;
    struct philox bits = mask_attention_bits(t->rng, t->site, t->coords[2 * t->first], t->head, i, j);
    return mask_keeps_key(bits, j, mask_threshold8(t->p)) ? (float)mask_scale8(t->p) : 0;
}

/* Columns of this head in the rows behind the last sequence become 0. */
SIMD void clear_rows(const struct tensor *x, int64_t from, int64_t at, int64_t n, bool bf16)
{
    vf zero = {0};
    for (int64_t t = from; t < x->shape[0]; t++)
        for (int64_t d = 0; d < n; d += VF_LANES)
            vf_put_upto(x->data, t * x->shape[1] + at + d, zero, n - d, bf16);
}

/* ---- forward ---- */

/* Of a thread: the scores of a query, and its o. */
static int64_t fwd_floats(const struct args_attention_general *a)
{
    return padded(a->kv.ndim ? a->kv.shape[0] : a->q.shape[0]) + padded(width_of(&a->q, &a->kv) / a->heads);
}

int64_t ISA(cpu_attention_general_workspace)(const struct args_attention_general *a, int threads)
{
    return threads * fwd_floats(a) * (int64_t)sizeof(float);
}

SIMD void forward_row(const struct args_attention_general *a, const struct task *t, int64_t i, float *scores, float *o)
{
    float max = -INFINITY, sum = 0;
    int64_t end = end_of_keys(t, i);
    for (int64_t j = 0; j < end; j++) {
        scores[j] = score(t, i, j);
        max = scores[j] > max || isnan(scores[j]) ? scores[j] : max;
    }
    memset(o, 0, (size_t)t->D * sizeof *o);
    for (int64_t j = 0; j < end; j++) {
        float e = expf(scores[j] - max), m = kept(t, i, j);
        sum += e;
        if (m != 0)
            add_scaled(o, m * e, t->keys->data, v_row(t, j), t->D, t->bf16);
    }
    for (int64_t d = 0; d < t->D && end; d++)
        o[d] /= sum;
    put_row(&a->o, (t->first + i) * a->o.shape[1] + t->head * t->D, o, t->D, t->bf16);
    ((float *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i] = end ? max + logf(sum) : 0;
}

void ISA(cpu_attention_general)(const struct args_attention_general *a, const struct call *c)
{
    int64_t B = a->cu.shape[0] - 1, T = a->o.shape[0], D = a->o.shape[1] / a->heads, end = first_of(&a->cu, B);
    int64_t floats = fwd_floats(a);
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int64_t h = 0; h < a->heads; h++) {
        float *o = (float *)c->workspace + omp_get_thread_num() * floats;
        for (int64_t b = 0; b < B; b++) {
            TASK(t, a, b, h);
            for (int64_t i = 0; i < t.length; i++)
                forward_row(a, &t, i, o + padded(D), o);
        }
        clear_rows(&a->o, end, h * D, D, a->o.dtype == DT_BF16);
        for (int64_t t = end; t < T; t++)
            ((float *)a->lse.data)[h * T + t] = 0;
    }
}

/* ---- backward ---- */

/* Of a thread: dq of a row, dk and dv of a sequence, the table's entries of a head. */
struct sums {
    float *dq, *dk, *dv, *entries;
};

static int64_t bwd_floats(const struct args_attention_general_bwd *a)
{
    int64_t D = a->o.shape[1] / a->heads, S = a->kv.ndim ? a->kv.shape[0] : a->q.shape[0];
    return padded(D) + 2 * padded(S * D) + padded(a->table.ndim ? a->table.shape[0] : 0);
}

int64_t ISA(cpu_attention_general_bwd_workspace)(const struct args_attention_general_bwd *a, int threads)
{
    return threads * bwd_floats(a) * (int64_t)sizeof(float);
}

SIMD void backward_row(const struct args_attention_general_bwd *a, const struct task *t, int64_t i, struct sums s)
{
    int64_t row = (t->first + i) * a->o.shape[1] + t->head * t->D, end = end_of_keys(t, i);
    float lse = ((const float *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i];
    float delta = dot(a->o.data, row, t->bf16, a->dout.data, row, t->bf16, t->D);
    memset(s.dq, 0, (size_t)t->D * sizeof *s.dq);
    for (int64_t j = 0; j < end; j++) {
        float p = expf(score(t, i, j) - lse), m = kept(t, i, j);
        float dp = dot(a->dout.data, row, t->bf16, t->keys->data, v_row(t, j), t->bf16, t->D);
        float ds = p * (m * dp - delta);
        add_scaled(s.dv + j * t->D, m * p, a->dout.data, row, t->D, t->bf16);
        add_scaled(s.dk + j * t->D, t->scale * ds, t->q->data, q_row(t, i), t->D, t->bf16);
        add_scaled(s.dq, t->scale * ds, t->keys->data, k_row(t, j), t->D, t->bf16);
        if (t->table->data)
            s.entries[bucket(t, i, j)] += ds;
    }
    put_row(&a->dq, q_row(t, i), s.dq, t->D, t->bf16);
}

SIMD void backward_head(const struct args_attention_general_bwd *a, int64_t h, struct sums s)
{
    int64_t B = a->cu.shape[0] - 1, buckets = a->table.ndim ? a->table.shape[0] : 0;
    const struct tensor *dkeys = a->kv.ndim ? &a->dkv : &a->dq;
    bool bf16 = a->dtable.dtype == DT_BF16;
    memset(s.entries, 0, (size_t)buckets * sizeof *s.entries);
    for (int64_t b = 0; b < B; b++) {
        TASK(t, a, b, h);
        memset(s.dk, 0, (size_t)(t.kv_length * t.D) * sizeof *s.dk);
        memset(s.dv, 0, (size_t)(t.kv_length * t.D) * sizeof *s.dv);
        for (int64_t i = 0; i < t.length; i++)
            backward_row(a, &t, i, s);
        for (int64_t j = 0; j < t.kv_length && dkeys->data; j++) {
            put_row(dkeys, k_row(&t, j), s.dk + j * t.D, t.D, t.bf16);
            put_row(dkeys, v_row(&t, j), s.dv + j * t.D, t.D, t.bf16);
        }
    }
    for (int64_t i = 0; a->dtable.data && i < buckets; i++)
        put_or_add(&a->dtable, i * a->heads + h, vf_set1(s.entries[i]), 1, bf16);
}

/* Columns of head h in each of the parts (queries, keys, values) of a gradient. */
SIMD void clear_parts(const struct tensor *x, const struct tensor *cu, int64_t parts, int64_t h, int64_t D)
{
    int64_t end = x->data ? first_of(cu, cu->shape[0] - 1) : 0;
    for (int64_t i = 0; i < parts && x->data; i++)
        clear_rows(x, end, i * (x->shape[1] / parts) + h * D, D, x->dtype == DT_BF16);
}

void ISA(cpu_attention_general_bwd)(const struct args_attention_general_bwd *a, const struct call *c)
{
    int64_t D = a->o.shape[1] / a->heads, S = a->kv.ndim ? a->kv.shape[0] : a->q.shape[0];
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int64_t h = 0; h < a->heads; h++) {
        float *own = (float *)c->workspace + omp_get_thread_num() * bwd_floats(a);
        struct sums s = {.dq = own, .dk = own + padded(D), .entries = own + padded(D) + 2 * padded(S * D)};
        s.dv = s.dk + padded(S * D);
        backward_head(a, h, s);
        clear_parts(&a->dq, &a->cu, a->kv.ndim ? 1 : 3, h, D);
        clear_parts(&a->dkv, &a->kv_cu, 2, h, D);
    }
}
