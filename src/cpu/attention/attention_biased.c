/* Attention with a bias by distance, row by row: all scores of a query, their exponentials, then the sums over keys. Every thread takes
 * heads; a head's sequences and rows are gone through in order.
 *
 * Order of sums: over D by lanes, folded at the end; over keys, over queries and over the entries of the table in order. Nothing
 * crosses threads. Bound by operations, which are not products of blocks: several times slower than attention.c. */
#include "cpu/kernels.h"
#include "op/bias_bucket.h"
#include "op/mask.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* One head of one sequence. */
struct task {
    const struct tensor *qkv, *table;
    const int32_t *coords, *rng;
    int64_t first, length, width, D, heads, head, buckets, furthest, site;
    float scale;
    double p;
    bool bf16;
};

#define TASK(a, b, h)                                                                                                  \
    {                                                                                                                  \
        .qkv = &(a)->qkv, .table = &(a)->table, .coords = (a)->coords.data, .rng = (a)->rng.data,                      \
        .first = ((const int32_t *)(a)->cu.data)[b],                                                                   \
        .length = ((const int32_t *)(a)->cu.data)[(b) + 1] - ((const int32_t *)(a)->cu.data)[b],                       \
        .width = (a)->qkv.shape[1], .D = (a)->qkv.shape[1] / (3 * (a)->heads), .heads = (a)->heads, .head = h,         \
        .buckets = (a)->table.shape[0], .furthest = (a)->furthest, .site = (a)->site, .scale = (float)(a)->scale,      \
        .p = (a)->p, .bf16 = (a)->qkv.dtype == DT_BF16                                                                 \
    }

/* Floats of a vector of n, with room to the next one. */
static int64_t padded(int64_t n)
{
    return (n + 15) / 16 * 16 + 16;
}

/* Row i of the queries (0), keys (1) or values (2), within qkv. */
SIMD int64_t place(const struct task *t, int64_t i, int which)
{
    return (t->first + i) * t->width + which * (t->width / 3) + t->head * t->D;
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

SIMD int64_t entry(const struct task *t, int64_t i, int64_t j)
{
    return bias_bucket(i, j, t->buckets, t->furthest) * t->heads + t->head;
}

SIMD float score(const struct task *t, int64_t i, int64_t j)
{
    float s = dot(t->qkv->data, place(t, i, 0), t->bf16, t->qkv->data, place(t, j, 1), t->bf16, t->D);
    vf bias = vf_get_n(t->table->data, entry(t, i, j), 1, t->table->dtype == DT_BF16);
    return t->scale * s + bias[0];
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

int64_t ISA(cpu_attention_biased_workspace)(const struct args_attention_biased *a, int threads)
{
    return threads * (padded(a->qkv.shape[0]) + padded(a->qkv.shape[1])) * (int64_t)sizeof(float);
}

SIMD void forward_row(const struct args_attention_biased *a, const struct task *t, int64_t i, float *scores, float *o)
{
    float max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < t->length; j++) {
        scores[j] = score(t, i, j);
        max = scores[j] > max || isnan(scores[j]) ? scores[j] : max;
    }
    memset(o, 0, (size_t)t->D * sizeof *o);
    for (int64_t j = 0; j < t->length; j++) {
        float e = expf(scores[j] - max), m = kept(t, i, j);
        sum += e;
        if (m != 0)
            add_scaled(o, m * e, t->qkv->data, place(t, j, 2), t->D, t->bf16);
    }
    for (int64_t d = 0; d < t->D; d++)
        o[d] /= sum;
    put_row(&a->o, (t->first + i) * a->o.shape[1] + t->head * t->D, o, t->D, t->bf16);
    ((float *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i] = max + logf(sum);
}

void ISA(cpu_attention_biased)(const struct args_attention_biased *a, const struct call *c)
{
    int64_t B = a->cu.shape[0] - 1, T = a->o.shape[0], D = a->o.shape[1] / a->heads, end = 0;
    const int32_t *cu = a->cu.data;
    end = B > 0 ? cu[B] : 0;
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int64_t h = 0; h < a->heads; h++) {
        float *scores = (float *)c->workspace + omp_get_thread_num() * (padded(T) + padded(a->qkv.shape[1]));
        for (int64_t b = 0; b < B; b++) {
            const struct task t = TASK(a, b, h);
            for (int64_t i = 0; i < t.length; i++)
                forward_row(a, &t, i, scores, scores + padded(T));
        }
        clear_rows(&a->o, end, h * D, D, a->o.dtype == DT_BF16);
        for (int64_t t = end; t < T; t++)
            ((float *)a->lse.data)[h * T + t] = 0;
    }
}

/* ---- backward ---- */

/* Of a thread: dq of a row, dk and dv of a sequence, the table's entries of a head. */
static int64_t bwd_floats(const struct args_attention_biased_bwd *a)
{
    int64_t D = a->qkv.shape[1] / (3 * a->heads);
    return padded(D) + 2 * padded(a->qkv.shape[0] * D) + padded(a->table.shape[0]);
}

int64_t ISA(cpu_attention_biased_bwd_workspace)(const struct args_attention_biased_bwd *a, int threads)
{
    return threads * bwd_floats(a) * (int64_t)sizeof(float);
}

struct sums {
    float *dq, *dk, *dv, *entries;
};

SIMD void backward_row(const struct args_attention_biased_bwd *a, const struct task *t, int64_t i, struct sums s)
{
    int64_t row = (t->first + i) * a->o.shape[1] + t->head * t->D;
    float lse = ((const float *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i];
    float delta = dot(a->o.data, row, t->bf16, a->dout.data, row, t->bf16, t->D);
    memset(s.dq, 0, (size_t)t->D * sizeof *s.dq);
    for (int64_t j = 0; j < t->length; j++) {
        float p = expf(score(t, i, j) - lse), m = kept(t, i, j);
        float dp = dot(a->dout.data, row, t->bf16, t->qkv->data, place(t, j, 2), t->bf16, t->D);
        float ds = p * (m * dp - delta);
        add_scaled(s.dv + j * t->D, m * p, a->dout.data, row, t->D, t->bf16);
        add_scaled(s.dk + j * t->D, t->scale * ds, t->qkv->data, place(t, i, 0), t->D, t->bf16);
        add_scaled(s.dq, t->scale * ds, t->qkv->data, place(t, j, 1), t->D, t->bf16);
        s.entries[entry(t, i, j) / t->heads] += ds;
    }
    put_row(&a->dqkv, place(t, i, 0), s.dq, t->D, t->bf16);
}

SIMD void backward_head(const struct args_attention_biased_bwd *a, int64_t h, struct sums s)
{
    int64_t B = a->cu.shape[0] - 1, buckets = a->table.shape[0];
    bool bf16 = a->dtable.dtype == DT_BF16;
    memset(s.entries, 0, (size_t)buckets * sizeof *s.entries);
    for (int64_t b = 0; b < B; b++) {
        const struct task t = TASK(a, b, h);
        memset(s.dk, 0, (size_t)(t.length * t.D) * sizeof *s.dk);
        memset(s.dv, 0, (size_t)(t.length * t.D) * sizeof *s.dv);
        for (int64_t i = 0; i < t.length; i++)
            backward_row(a, &t, i, s);
        for (int64_t j = 0; j < t.length; j++) {
            put_row(&a->dqkv, place(&t, j, 1), s.dk + j * t.D, t.D, t.bf16);
            put_row(&a->dqkv, place(&t, j, 2), s.dv + j * t.D, t.D, t.bf16);
        }
    }
    for (int64_t i = 0; a->dtable.data && i < buckets; i++)
        put_or_add(&a->dtable, i * a->heads + h, vf_set1(s.entries[i]), 1, bf16);
}

void ISA(cpu_attention_biased_bwd)(const struct args_attention_biased_bwd *a, const struct call *c)
{
    int64_t B = a->cu.shape[0] - 1, T = a->qkv.shape[0], width = a->o.shape[1], D = width / a->heads;
    int64_t end = B > 0 ? ((const int32_t *)a->cu.data)[B] : 0;
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int64_t h = 0; h < a->heads; h++) {
        float *own = (float *)c->workspace + omp_get_thread_num() * bwd_floats(a);
        struct sums s = {.dq = own, .dk = own + padded(D), .entries = own + padded(D) + 2 * padded(T * D)};
        s.dv = s.dk + padded(T * D);
        backward_head(a, h, s);
        for (int which = 0; which < 3; which++)
            clear_rows(&a->dqkv, end, which * width + h * D, D, a->dqkv.dtype == DT_BF16);
    }
}
