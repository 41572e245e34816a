/* Disentangled attention (He et al., arXiv 2006.03654 and 2111.09543): what a query and a key are, and how far they are apart.
 *     S[i,j] = scale (q_i . k_j + q_i . K[r] + k_j . Q[r]), r = rows[i - j + N - 1] ;  P = softmax(S) over j
 *     o_i = sum_j mask[i,j] P[i,j] v_j
 *     qkv (T, 3 A D) holds queries, keys and values of A heads; relative (R, n A D) is what the model makes of relative
 *     positions, n parts as wide as the heads; K and Q are two of them, or there is but one; rows (2 N - 1) says which
 *     row of relative each distance from -(N-1) to N-1 has; no sequence has more than N rows; o (T, A D); lse (A,T)
 * Backward, with P and delta as op/attention/attention.c has them, dS[i,j] = scale P[i,j] (mask[i,j] dout_i . v_j - delta_i):
 *     dq_i = sum_j dS[i,j] (k_j + K[r]) ;  dk_j = sum_i dS[i,j] (q_i + Q[r]) ;  dv_j = sum_i mask[i,j] P[i,j] dout_i
 *     dK[r] = sum of dS[i,j] q_i, dQ[r] = sum of dS[i,j] k_j over the i, j with that r, of all sequences
 * Rows behind the last sequence get o = 0, lse = 0, dqkv = 0; parts of relative that are neither K nor Q get 0. */
#include "graph/graph.h"
#include "op/mask.h"

#include <math.h>

static bool sizes_fit(struct graph *g, const struct op_attention_disentangled *n, const char *op)
{
    const struct value *v = graph_value(g, n->qkv), *r = graph_value(g, n->relative), *rows = graph_value(g, n->rows);
    bool fits = v->ndim == 2 && dim_is_constant(v->shape[1]) && n->heads > 0 && v->shape[1].c % (3 * n->heads) == 0;
    if (!shape_require(g, fits, op, "qkv must be (T, 3 heads D)"))
        return false;
    int64_t width = v->shape[1].c / 3, parts = r->ndim == 2 ? r->shape[1].c / width : 0;
    fits = r->ndim == 2 && dim_is_constant(r->shape[0]) && dim_equal(r->shape[1], DIM(parts * width));
    return shape_require(g, fits, op, "relative must be (R, parts heads D)") &&
           shape_require(g,
                         n->queries >= 0 && n->keys >= 0 && n->queries <= parts && n->keys <= parts &&
                             n->queries + n->keys > 0 && n->queries != n->keys,
                         op, "queries and keys must be two parts of relative, or one of them 0") &&
           shape_require(g, rows->ndim == 1 && dim_is_constant(rows->shape[0]) && rows->shape[0].c % 2 == 1, op,
                         "rows must have an odd number of entries");
}

void shape_attention_disentangled(struct graph *g, struct op_attention_disentangled *n)
{
    if (!sizes_fit(g, n, "attention_disentangled"))
        return;
    const struct value *v = graph_value(g, n->qkv);
    struct dim T = v->shape[0], width = DIM(v->shape[1].c / 3);
    n->o = shape_out(g, SHAPE(T, width));
    n->lse = shape_stat(g, SHAPE(DIM(n->heads), T));
}

void shape_attention_disentangled_bwd(struct graph *g, struct op_attention_disentangled_bwd *n)
{
    const struct op_attention_disentangled forward = {.qkv = n->qkv,
                                                      .relative = n->relative,
                                                      .rows = n->rows,
                                                      .heads = n->heads,
                                                      .queries = n->queries,
                                                      .keys = n->keys};
    if (!sizes_fit(g, &forward, "attention_disentangled_bwd") ||
        !shape_same(g, n->o, n->dout, "attention_disentangled_bwd") ||
        (n->drelative && !shape_same(g, n->relative, n->drelative, "attention_disentangled_bwd")))
        return;
    const struct value *v = graph_value(g, n->qkv);
    n->dqkv = shape_out(g, SHAPE(v->shape[0], v->shape[1]));
}

void grad_attention_disentangled(struct grads *d, const struct op_attention_disentangled *n)
{
    struct op_attention_disentangled_bwd b = {.qkv = n->qkv,
                                              .relative = n->relative,
                                              .rows = n->rows,
                                              .o = n->o,
                                              .lse = n->lse,
                                              .dout = grad_of(d, n->o),
                                              .cu = n->cu,
                                              .coords = n->coords,
                                              .rng = n->rng,
                                              .drelative = grad_target(d, n->relative),
                                              .heads = n->heads,
                                              .queries = n->queries,
                                              .keys = n->keys,
                                              .scale = n->scale,
                                              .p = n->p,
                                              .site = n->site};
    emit_attention_disentangled_bwd(d->g, &b);
    grad_set(d, n->qkv, b.dqkv);
}

/* As if the rows were B sequences of equal length; `products` of D numbers for each query and key. */
static double flops(const struct tensor *o, const struct tensor *cu, double products)
{
    double T = (double)o->shape[0], B = (double)(cu->shape[0] > 1 ? cu->shape[0] - 1 : 1);
    return 2 * products * T * T / B * (double)o->shape[1];
}

double flops_attention_disentangled(const struct args_attention_disentangled *a)
{
    return flops(&a->o, &a->cu, 2 + (a->queries > 0) + (a->keys > 0));
}

double flops_attention_disentangled_bwd(const struct args_attention_disentangled_bwd *a)
{
    return flops(&a->o, &a->cu, 5 + 3 * ((a->queries > 0) + (a->keys > 0)));
}

/* One head of one sequence. */
struct task {
    const double *qkv, *relative;
    const int32_t *rows; /* of distance 0; the others lie on both sides */
    int64_t first, length, width, relative_width, D, head, queries, keys;
    double scale;
};

#define TASK(a, b, h)                                                                                                  \
    {                                                                                                                  \
        .qkv = (a)->qkv.data, .relative = (a)->relative.data,                                                          \
        .rows = (const int32_t *)(a)->rows.data + (a)->rows.shape[0] / 2, .first = ((const int32_t *)(a)->cu.data)[b], \
        .length = ((const int32_t *)(a)->cu.data)[(b) + 1] - ((const int32_t *)(a)->cu.data)[b],                       \
        .width = (a)->qkv.shape[1], .relative_width = (a)->relative.shape[1],                                          \
        .D = (a)->qkv.shape[1] / (3 * (a)->heads), .head = h, .queries = (a)->queries, .keys = (a)->keys,              \
        .scale = (a)->scale                                                                                            \
    }

/* Row i of the queries (0), keys (1) or values (2), within qkv. */
static int64_t at(const struct task *t, int64_t i, int which)
{
    return (t->first + i) * t->width + which * (t->width / 3) + t->head * t->D;
}

/* This head's row of a part of relative, for query i and key j. */
static int64_t relative_at(const struct task *t, int64_t i, int64_t j, int64_t part)
{
    return t->rows[i - j] * t->relative_width + (part - 1) * (t->width / 3) + t->head * t->D;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += a[d] * b[d];
    return sum;
}

static double score(const struct task *t, int64_t i, int64_t j)
{
    const double *q = t->qkv + at(t, i, 0), *k = t->qkv + at(t, j, 1);
    double sum = dot(q, k, t->D);
    if (t->keys)
        sum += dot(q, t->relative + relative_at(t, i, j, t->keys), t->D);
    if (t->queries)
        sum += dot(k, t->relative + relative_at(t, i, j, t->queries), t->D);
    return t->scale * sum;
}

static double mask(const struct task *t, const int32_t *coords, const int32_t *rng, int64_t site, double p, int64_t i,
                   int64_t j)
{
    if (p <= 0 || !coords)
        return 1;
    struct philox bits = mask_attention_bits(rng, site, coords[2 * t->first], t->head, i, j);
    return mask_keeps_key(bits, j, mask_threshold8(p)) ? mask_scale8(p) : 0;
}

static void forward_row(const struct args_attention_disentangled *a, const struct task *t, int64_t i)
{
    double *o = (double *)a->o.data + (t->first + i) * a->o.shape[1] + t->head * t->D;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < t->length; j++) {
        double s = score(t, i, j);
        max = s > max || isnan(s) ? s : max;
    }
    for (int64_t j = 0; j < t->length; j++) {
        double e = exp(score(t, i, j) - max), m = mask(t, a->coords.data, a->rng.data, a->site, a->p, i, j);
        const double *v = t->qkv + at(t, j, 2);
        sum += e;
        for (int64_t d = 0; d < t->D; d++)
            o[d] += m * e * v[d];
    }
    for (int64_t d = 0; d < t->D; d++)
        o[d] /= sum;
    ((double *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i] = max + log(sum);
}

void ref_attention_disentangled(const struct args_attention_disentangled *a, const struct call *c)
{
    (void)c;
    for (int64_t i = 0; i < a->o.shape[0] * a->o.shape[1]; i++)
        ((double *)a->o.data)[i] = 0;
    for (int64_t i = 0; i < a->o.shape[0] * a->heads; i++)
        ((double *)a->lse.data)[i] = 0;
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            const struct task t = TASK(a, b, h);
            for (int64_t i = 0; i < t.length; i++)
                forward_row(a, &t, i);
        }
}

/* What dS of query i and key j, ds, adds to the gradient of a content x and of the relative row beside it. */
static void add_relative(const struct task *t, double ds, const double *x, double *dx, const double *row, double *drow)
{
    for (int64_t d = 0; d < t->D; d++)
        dx[d] += ds * row[d];
    for (int64_t d = 0; drow && d < t->D; d++)
        drow[d] += ds * x[d];
}

static void backward_row(const struct args_attention_disentangled_bwd *a, const struct task *t, int64_t i)
{
    int64_t row = (t->first + i) * a->o.shape[1] + t->head * t->D;
    const double *dout = (const double *)a->dout.data + row, *q = t->qkv + at(t, i, 0);
    double lse = ((const double *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i];
    double delta = dot((const double *)a->o.data + row, dout, t->D);
    double *dqkv = a->dqkv.data, *drelative = a->drelative.data, *dq = dqkv + at(t, i, 0);
    for (int64_t j = 0; j < t->length; j++) {
        const double *k = t->qkv + at(t, j, 1), *v = t->qkv + at(t, j, 2);
        double *dk = dqkv + at(t, j, 1), *dv = dqkv + at(t, j, 2), p = exp(score(t, i, j) - lse);
        double m = mask(t, a->coords.data, a->rng.data, a->site, a->p, i, j);
        double ds = t->scale * p * (m * dot(dout, v, t->D) - delta);
        for (int64_t d = 0; d < t->D; d++) {
            dv[d] += m * p * dout[d];
            dq[d] += ds * k[d];
            dk[d] += ds * q[d];
        }
        int64_t key = t->keys ? relative_at(t, i, j, t->keys) : 0;
        int64_t query = t->queries ? relative_at(t, i, j, t->queries) : 0;
        if (t->keys)
            add_relative(t, ds, q, dq, t->relative + key, drelative ? drelative + key : NULL);
        if (t->queries)
            add_relative(t, ds, k, dk, t->relative + query, drelative ? drelative + query : NULL);
    }
}

void ref_attention_disentangled_bwd(const struct args_attention_disentangled_bwd *a, const struct call *c)
{
    (void)c;
    double *dqkv = a->dqkv.data, *drelative = a->drelative.data;
    for (int64_t i = 0; i < a->dqkv.shape[0] * a->dqkv.shape[1]; i++)
        dqkv[i] = 0;
    for (int64_t i = 0; drelative && !a->drelative.add && i < a->drelative.shape[0] * a->drelative.shape[1]; i++)
        drelative[i] = 0;
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            const struct task t = TASK(a, b, h);
            for (int64_t i = 0; i < t.length; i++)
                backward_row(a, &t, i);
        }
}
