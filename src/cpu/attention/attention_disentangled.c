/* Disentangled attention, row by row: all scores of a query, their exponentials, then the sums over keys. A score is q . (k + K[r]) +
 * k . Q[r], in one pass over D. Every thread takes heads; a head's sequences and rows are gone through in order.
 *
 * Order of sums: over D by lanes, folded at the end; over keys, over queries and over sequences in order. Nothing crosses
 * threads. Bound by operations, which are not products of blocks: several times slower than attention.c. */
#include "cpu/kernels.h"
#include "op/mask.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* One head of one sequence. */
struct task {
    const struct tensor *qkv, *relative;
    const int32_t *coords, *rng;
    const int32_t *rows; /* of distance 0; the others lie on both sides */
    int64_t first, length, width, relative_width, D, head, site;
    int64_t queries, keys; /* columns of relative where their heads begin; -1: that term is left out */
    float scale;
    double p;
    bool bf16;
};

#define PART(a, n, h)                                                                                                  \
    ((a)->n ? ((a)->n - 1) * ((a)->qkv.shape[1] / 3) + (h) * ((a)->qkv.shape[1] / (3 * (a)->heads)) : -1)

#define TASK(a, b, h)                                                                                                  \
    {                                                                                                                  \
        .qkv = &(a)->qkv, .relative = &(a)->relative, .coords = (a)->coords.data, .rng = (a)->rng.data,                \
        .rows = (const int32_t *)(a)->rows.data + (a)->rows.shape[0] / 2, .first = ((const int32_t *)(a)->cu.data)[b], \
        .length = ((const int32_t *)(a)->cu.data)[(b) + 1] - ((const int32_t *)(a)->cu.data)[b],                       \
        .width = (a)->qkv.shape[1], .relative_width = (a)->relative.shape[1],                                          \
        .D = (a)->qkv.shape[1] / (3 * (a)->heads), .head = h, .site = (a)->site, .queries = PART(a, queries, h),       \
        .keys = PART(a, keys, h), .scale = (float)(a)->scale, .p = (a)->p, .bf16 = (a)->qkv.dtype == DT_BF16           \
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

SIMD int64_t relative_row(const struct task *t, int64_t i, int64_t j)
{
    return t->rows[i - j] * t->relative_width;
}

SIMD float dot(const void *a, int64_t i, const void *b, int64_t j, int64_t n, bool bf16)
{
    vf sum = {0};
    for (int64_t d = 0; d < n; d += VF_LANES)
        sum = vf_fma(vf_get_upto(a, i + d, n - d, bf16), vf_get_upto(b, j + d, n - d, bf16), sum);
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

SIMD float score(const struct task *t, int64_t i, int64_t j)
{
    const void *x = t->qkv->data, *relative = t->relative->data;
    int64_t qi = place(t, i, 0), kj = place(t, j, 1), r = relative_row(t, i, j), n = t->D;
    vf sum = {0};
    for (int64_t d = 0; d < n; d += VF_LANES) {
        vf q = vf_get_upto(x, qi + d, n - d, t->bf16), k = vf_get_upto(x, kj + d, n - d, t->bf16), key = k;
        if (t->keys >= 0)
            key += vf_get_upto(relative, r + t->keys + d, n - d, t->bf16);
        sum = vf_fma(q, key, sum);
        if (t->queries >= 0)
            sum = vf_fma(k, vf_get_upto(relative, r + t->queries + d, n - d, t->bf16), sum);
    }
    return t->scale * vf_hsum(sum);
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

int64_t ISA(cpu_attention_disentangled_workspace)(const struct args_attention_disentangled *a, int threads)
{
    return threads * (padded(a->qkv.shape[0]) + padded(a->qkv.shape[1])) * (int64_t)sizeof(float);
}

SIMD void forward_row(const struct args_attention_disentangled *a, const struct task *t, int64_t i, float *scores,
                      float *o)
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

void ISA(cpu_attention_disentangled)(const struct args_attention_disentangled *a, const struct call *c)
{
    int64_t B = a->cu.shape[0] - 1, T = a->o.shape[0], D = a->o.shape[1] / a->heads;
    int64_t end = B > 0 ? ((const int32_t *)a->cu.data)[B] : 0;
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

/* Of a thread: dq of a row, dk and dv of a sequence, the gradients of a head's part of relative. */
static int64_t bwd_floats(const struct args_attention_disentangled_bwd *a)
{
    int64_t D = a->qkv.shape[1] / (3 * a->heads);
    return padded(D) + 2 * padded(a->qkv.shape[0] * D) + 2 * padded(a->relative.shape[0] * D);
}

int64_t ISA(cpu_attention_disentangled_bwd_workspace)(const struct args_attention_disentangled_bwd *a, int threads)
{
    return threads * bwd_floats(a) * (int64_t)sizeof(float);
}

struct sums {
    float *dq, *dk, *dv, *queries, *keys; /* the last two: (R,D) */
};

SIMD void backward_row(const struct args_attention_disentangled_bwd *a, const struct task *t, int64_t i, struct sums s)
{
    const void *x = t->qkv->data, *relative = t->relative->data;
    int64_t row = (t->first + i) * a->o.shape[1] + t->head * t->D, D = t->D, qi = place(t, i, 0);
    float lse = ((const float *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i];
    float delta = dot(a->o.data, row, a->dout.data, row, D, t->bf16);
    memset(s.dq, 0, (size_t)D * sizeof *s.dq);
    for (int64_t j = 0; j < t->length; j++) {
        int64_t kj = place(t, j, 1), r = relative_row(t, i, j), n = t->rows[i - j];
        float p = expf(score(t, i, j) - lse), m = kept(t, i, j);
        float ds = t->scale * p * (m * dot(a->dout.data, row, x, place(t, j, 2), D, t->bf16) - delta);
        add_scaled(s.dv + j * D, m * p, a->dout.data, row, D, t->bf16);
        add_scaled(s.dk + j * D, ds, x, qi, D, t->bf16);
        add_scaled(s.dq, ds, x, kj, D, t->bf16);
        if (t->keys >= 0) {
            add_scaled(s.dq, ds, relative, r + t->keys, D, t->bf16);
            add_scaled(s.keys + n * D, ds, x, qi, D, t->bf16);
        }
        if (t->queries >= 0) {
            add_scaled(s.dk + j * D, ds, relative, r + t->queries, D, t->bf16);
            add_scaled(s.queries + n * D, ds, x, kj, D, t->bf16);
        }
    }
    put_row(&a->dqkv, qi, s.dq, D, t->bf16);
}

/* This head's columns of each part of relative: what was added up for it, or nothing. */
SIMD void finish_relative(const struct args_attention_disentangled_bwd *a, int64_t h, struct sums s)
{
    int64_t width = a->o.shape[1], D = width / a->heads;
    bool bf16 = a->drelative.dtype == DT_BF16;
    for (int64_t part = 1; part <= a->relative.shape[1] / width; part++) {
        const float *from = part == a->keys ? s.keys : part == a->queries ? s.queries : NULL;
        for (int64_t r = 0; r < a->relative.shape[0]; r++)
            for (int64_t d = 0; d < D; d += VF_LANES)
                put_or_add(&a->drelative, r * a->relative.shape[1] + (part - 1) * width + h * D + d,
                           from ? vf_get_upto(from, r * D + d, D - d, false) : vf_set1(0), D - d, bf16);
    }
}

SIMD void backward_head(const struct args_attention_disentangled_bwd *a, int64_t h, struct sums s)
{
    int64_t B = a->cu.shape[0] - 1, D = a->o.shape[1] / a->heads;
    memset(s.queries, 0, (size_t)(a->relative.shape[0] * D) * sizeof *s.queries);
    memset(s.keys, 0, (size_t)(a->relative.shape[0] * D) * sizeof *s.keys);
    for (int64_t b = 0; b < B; b++) {
        const struct task t = TASK(a, b, h);
        memset(s.dk, 0, (size_t)(t.length * D) * sizeof *s.dk);
        memset(s.dv, 0, (size_t)(t.length * D) * sizeof *s.dv);
        for (int64_t i = 0; i < t.length; i++)
            backward_row(a, &t, i, s);
        for (int64_t j = 0; j < t.length; j++) {
            put_row(&a->dqkv, place(&t, j, 1), s.dk + j * D, D, t.bf16);
            put_row(&a->dqkv, place(&t, j, 2), s.dv + j * D, D, t.bf16);
        }
    }
    if (a->drelative.data)
        finish_relative(a, h, s);
}

void ISA(cpu_attention_disentangled_bwd)(const struct args_attention_disentangled_bwd *a, const struct call *c)
{
    int64_t B = a->cu.shape[0] - 1, T = a->qkv.shape[0], width = a->o.shape[1], D = width / a->heads;
    int64_t end = B > 0 ? ((const int32_t *)a->cu.data)[B] : 0;
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int64_t h = 0; h < a->heads; h++) {
        float *own = (float *)c->workspace + omp_get_thread_num() * bwd_floats(a);
        struct sums s = {.dq = own, .dk = own + padded(D)};
        s.dv = s.dk + padded(T * D);
        s.queries = s.dv + padded(T * D);
        s.keys = s.queries + padded(a->relative.shape[0] * D);
        backward_head(a, h, s);
        for (int which = 0; which < 3; which++)
            clear_rows(&a->dqkv, end, which * width + h * D, D, a->dqkv.dtype == DT_BF16);
    }
}
