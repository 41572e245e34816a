/* Attention whose scores have a bias by distance (Raffel et al., arXiv 1910.10683; MPNet, arXiv 2004.09297):
 *     S[i,j] = scale q_i . k_j + table[bucket(i,j), head] ;  P = softmax(S) over j ;  o_i = sum_j mask[i,j] P[i,j] v_j
 *     qkv (T, 3 A D) holds queries, keys and values of A heads; table (buckets, A); o (T, A D); lse (A,T)
 * Backward, as op/attention.c has it, and
 *     dtable[b, head] = sum of dS[i,j] over the i, j of that bucket
 * Rows behind the last sequence get o = 0, lse = 0, dqkv = 0. */
#include "op/bias_bucket.h"

#include "graph/graph.h"
#include "op/mask.h"

#include <math.h>

static bool sizes_fit(struct graph *g, int qkv, int table, int64_t heads, int64_t furthest, const char *op)
{
    const struct value *v = graph_value(g, qkv), *t = graph_value(g, table);
    return shape_require(g,
                         v->ndim == 2 && dim_is_constant(v->shape[1]) && heads > 0 && v->shape[1].c % (3 * heads) == 0,
                         op, "qkv must be (T, 3 heads D)") &&
           shape_require(g, t->ndim == 2 && dim_is_constant(t->shape[0]) && dim_equal(t->shape[1], DIM(heads)), op,
                         "table must be (buckets, heads)") &&
           shape_require(g, t->shape[0].c >= 4 && t->shape[0].c % 2 == 0 && furthest > t->shape[0].c / 4, op,
                         "buckets must be even and 4 at least, and furthest above a quarter of them");
}

void shape_attention_biased(struct graph *g, struct op_attention_biased *n)
{
    if (!sizes_fit(g, n->qkv, n->table, n->heads, n->furthest, "attention_biased"))
        return;
    const struct value *v = graph_value(g, n->qkv);
    struct dim T = v->shape[0], width = DIM(v->shape[1].c / 3);
    n->o = shape_out(g, SHAPE(T, width));
    n->lse = shape_stat(g, SHAPE(DIM(n->heads), T));
}

void shape_attention_biased_bwd(struct graph *g, struct op_attention_biased_bwd *n)
{
    if (!sizes_fit(g, n->qkv, n->table, n->heads, n->furthest, "attention_biased_bwd") ||
        !shape_same(g, n->o, n->dout, "attention_biased_bwd"))
        return;
    const struct value *v = graph_value(g, n->qkv), *t = graph_value(g, n->table), *d = graph_value(g, n->dtable);
    if (shape_require(g,
                      !n->dtable ||
                          (d->ndim == 2 && dim_equal(d->shape[0], t->shape[0]) && dim_equal(d->shape[1], t->shape[1])),
                      "attention_biased_bwd", "dtable must be as the table"))
        n->dqkv = shape_out(g, SHAPE(v->shape[0], v->shape[1]));
}

void grad_attention_biased(struct grads *d, const struct op_attention_biased *n)
{
    struct op_attention_biased_bwd b = {.qkv = n->qkv,
                                        .table = n->table,
                                        .o = n->o,
                                        .lse = n->lse,
                                        .dout = grad_of(d, n->o),
                                        .cu = n->cu,
                                        .coords = n->coords,
                                        .rng = n->rng,
                                        .dtable = grad_target(d, n->table),
                                        .heads = n->heads,
                                        .furthest = n->furthest,
                                        .scale = n->scale,
                                        .p = n->p,
                                        .site = n->site};
    emit_attention_biased_bwd(d->g, &b);
    grad_set(d, n->qkv, b.dqkv);
}

/* As if the rows were B sequences of equal length. */
static double scores_of(const struct tensor *o, const struct tensor *cu)
{
    double T = (double)o->shape[0], B = (double)(cu->shape[0] > 1 ? cu->shape[0] - 1 : 1);
    return T * T / B;
}

double flops_attention_biased(const struct args_attention_biased *a)
{
    return 4.0 * scores_of(&a->o, &a->cu) * (double)a->o.shape[1];
}

double flops_attention_biased_bwd(const struct args_attention_biased_bwd *a)
{
    return 10.0 * scores_of(&a->o, &a->cu) * (double)a->o.shape[1];
}

/* One head of one sequence. */
struct task {
    const double *qkv, *table;
    int64_t first, length, width, D, heads, head, buckets, furthest;
    double scale;
};

#define TASK(a, b, h)                                                                                                  \
    {                                                                                                                  \
        .qkv = (a)->qkv.data, .table = (a)->table.data, .first = ((const int32_t *)(a)->cu.data)[b],                   \
        .length = ((const int32_t *)(a)->cu.data)[(b) + 1] - ((const int32_t *)(a)->cu.data)[b],                       \
        .width = (a)->qkv.shape[1], .D = (a)->qkv.shape[1] / (3 * (a)->heads), .heads = (a)->heads, .head = h,         \
        .buckets = (a)->table.shape[0], .furthest = (a)->furthest, .scale = (a)->scale                                 \
    }

/* Row i of the queries (0), keys (1) or values (2), within qkv. */
static int64_t at(const struct task *t, int64_t i, int which)
{
    return (t->first + i) * t->width + which * (t->width / 3) + t->head * t->D;
}

static double score(const struct task *t, int64_t i, int64_t j)
{
    const double *q = t->qkv + at(t, i, 0), *k = t->qkv + at(t, j, 1);
    double sum = 0;
    for (int64_t d = 0; d < t->D; d++)
        sum += q[d] * k[d];
    return t->scale * sum + t->table[bias_bucket(i, j, t->buckets, t->furthest) * t->heads + t->head];
}

static double mask(const struct task *t, const int32_t *coords, const int32_t *rng, int64_t site, double p, int64_t i,
                   int64_t j)
{
    if (p <= 0 || !coords)
        return 1;
    struct philox bits = mask_attention_bits(rng, site, coords[2 * t->first], t->head, i, j);
    return mask_keeps_key(bits, j, mask_threshold8(p)) ? mask_scale8(p) : 0;
}

static void forward_row(const struct args_attention_biased *a, const struct task *t, int64_t i)
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

void ref_attention_biased(const struct args_attention_biased *a, const struct call *c)
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

static void backward_row(const struct args_attention_biased_bwd *a, const struct task *t, int64_t i)
{
    int64_t row = (t->first + i) * a->o.shape[1] + t->head * t->D;
    const double *o = (const double *)a->o.data + row, *dout = (const double *)a->dout.data + row;
    const double *q = t->qkv + at(t, i, 0);
    double lse = ((const double *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i], delta = 0;
    double *dqkv = a->dqkv.data, *dtable = a->dtable.data, *dq = dqkv + at(t, i, 0);
    for (int64_t d = 0; d < t->D; d++)
        delta += dout[d] * o[d];
    for (int64_t j = 0; j < t->length; j++) {
        const double *k = t->qkv + at(t, j, 1), *v = t->qkv + at(t, j, 2);
        double *dk = dqkv + at(t, j, 1), *dv = dqkv + at(t, j, 2), p = exp(score(t, i, j) - lse), dp = 0;
        double m = mask(t, a->coords.data, a->rng.data, a->site, a->p, i, j);
        for (int64_t d = 0; d < t->D; d++)
            dp += dout[d] * v[d];
        double ds = p * (m * dp - delta);
        for (int64_t d = 0; d < t->D; d++) {
            dv[d] += m * p * dout[d];
            dq[d] += t->scale * ds * k[d];
            dk[d] += t->scale * ds * q[d];
        }
        if (dtable)
            dtable[bias_bucket(i, j, t->buckets, t->furthest) * t->heads + t->head] += ds;
    }
}

void ref_attention_biased_bwd(const struct args_attention_biased_bwd *a, const struct call *c)
{
    (void)c;
    double *dqkv = a->dqkv.data, *dtable = a->dtable.data;
    for (int64_t i = 0; i < a->dqkv.shape[0] * a->dqkv.shape[1]; i++)
        dqkv[i] = 0;
    for (int64_t i = 0; dtable && !a->dtable.add && i < a->dtable.shape[0] * a->dtable.shape[1]; i++)
        dtable[i] = 0;
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            const struct task t = TASK(a, b, h);
            for (int64_t i = 0; i < t.length; i++)
                backward_row(a, &t, i);
        }
}
