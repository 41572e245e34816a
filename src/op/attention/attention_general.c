/* Attention of the rows of some sequences to those of others, or to their own, with a bias by distance (Vaswani et al., arXiv 1706.03762;
 * Raffel et al., arXiv 1910.10683; MPNet, arXiv 2004.09297). For query i of a sequence and key j of the sequence of the same number:
 *     S[i,j] = scale q_i . k_j + table[bucket(i,j), head] ;  P = softmax(S) over j ;  o_i = sum_j mask[i,j] P[i,j] v_j
 *     furthest 0: S[i,j] = scale q_i . k_j + (j - i) table[0, head]: ALiBi (Press et al., arXiv 2108.12409)
 *     q (T, A D) of A heads and kv (S, 2 A D), keys and values; or q (T, 3 A D) with all three; table (buckets, A); o (T, A D);
 *     lse (A,T); causal: over j <= i alone
 * Backward, as op/attention/attention.c has it, and
 *     dtable[b, head] = sum of dS[i,j] over the i, j of that bucket
 * Rows behind the last sequence get o = 0, lse = 0, dq = 0, dkv = 0; so do queries that see no key. */
#include "op/attention/bias_bucket.h"

#include "graph/graph.h"
#include "op/mask.h"

#include <math.h>

static bool keys_fit(struct graph *g, int q, int kv, int kv_cu, int64_t heads, const char *op)
{
    const struct value *v = graph_value(g, q), *k = graph_value(g, kv);
    int64_t parts = kv ? 1 : 3;
    return shape_require(g, (kv != 0) == (kv_cu != 0), op, "kv and kv_cu come together") &&
           shape_require(
               g, v->ndim == 2 && dim_is_constant(v->shape[1]) && heads > 0 && v->shape[1].c % (parts * heads) == 0, op,
               "q must be (T, heads D), or (T, 3 heads D) without kv") &&
           shape_require(g, !kv || (k->ndim == 2 && dim_equal(k->shape[1], DIM(2 * v->shape[1].c))), op,
                         "kv must be (S, 2 heads D)");
}

static bool table_fits(struct graph *g, int table, int64_t heads, int64_t furthest, bool causal, const char *op)
{
    const struct value *t = graph_value(g, table);
    if (!table)
        return true;
    if (!furthest)
        return shape_require(
            g, causal && t->ndim == 2 && dim_equal(t->shape[0], DIM(1)) && dim_equal(t->shape[1], DIM(heads)), op,
            "with furthest 0 it is causal, and the table (1, heads)");
    return shape_require(g, t->ndim == 2 && dim_is_constant(t->shape[0]) && dim_equal(t->shape[1], DIM(heads)), op,
                         "table must be (buckets, heads)") &&
           shape_require(g, t->shape[0].c >= 4 && t->shape[0].c % 2 == 0 && furthest > t->shape[0].c / (causal ? 2 : 4),
                         op,
                         "buckets must be even and 4 at least, and furthest above a quarter of them (causal: half)");
}

/* Of q, without the keys and values that may stand behind it. */
static struct dim width_of_queries(const struct value *q, int kv)
{
    return DIM(kv ? q->shape[1].c : q->shape[1].c / 3);
}

void shape_attention_general(struct graph *g, struct op_attention_general *n)
{
    const char *op = "attention_general";
    if (!keys_fit(g, n->q, n->kv, n->kv_cu, n->heads, op) ||
        !table_fits(g, n->table, n->heads, n->furthest, n->causal, op))
        return;
    struct dim T = graph_value(g, n->q)->shape[0], width = width_of_queries(graph_value(g, n->q), n->kv);
    n->o = shape_out(g, SHAPE(T, width));
    n->lse = shape_stat(g, SHAPE(DIM(n->heads), T));
}

void shape_attention_general_bwd(struct graph *g, struct op_attention_general_bwd *n)
{
    const char *op = "attention_general_bwd";
    if (!keys_fit(g, n->q, n->kv, n->kv_cu, n->heads, op) ||
        !table_fits(g, n->table, n->heads, n->furthest, n->causal, op) || !shape_same(g, n->o, n->dout, op))
        return;
    const struct value *t = graph_value(g, n->table), *d = graph_value(g, n->dtable);
    if (!shape_require(g, !n->dtable || n->furthest, op, "with furthest 0 the table has no gradient"))
        return;
    if (!shape_require(g,
                       !n->dtable || (n->table && d->ndim == 2 && dim_equal(d->shape[0], t->shape[0]) &&
                                      dim_equal(d->shape[1], t->shape[1])),
                       op, "dtable must be as the table"))
        return;
    struct value q = *graph_value(g, n->q), kv = *graph_value(g, n->kv);
    n->dq = shape_out(g, SHAPE(q.shape[0], q.shape[1]));
    if (n->kv)
        n->dkv = shape_out(g, SHAPE(kv.shape[0], kv.shape[1]));
}

void grad_attention_general(struct grads *d, const struct op_attention_general *n)
{
    struct op_attention_general_bwd b = {.q = n->q,
                                         .kv = n->kv,
                                         .table = n->table,
                                         .o = n->o,
                                         .lse = n->lse,
                                         .dout = grad_of(d, n->o),
                                         .cu = n->cu,
                                         .kv_cu = n->kv_cu,
                                         .coords = n->coords,
                                         .rng = n->rng,
                                         .dtable = grad_target(d, n->table),
                                         .heads = n->heads,
                                         .furthest = n->furthest,
                                         .causal = n->causal,
                                         .scale = n->scale,
                                         .p = n->p,
                                         .site = n->site};
    emit_attention_general_bwd(d->g, &b);
    grad_set(d, n->q, b.dq);
    if (n->kv)
        grad_set(d, n->kv, b.dkv);
}

/* As if the rows were B sequences of equal length. */
static double scores_of(const struct tensor *o, const struct tensor *kv, const struct tensor *cu)
{
    double T = (double)o->shape[0], S = kv->ndim ? (double)kv->shape[0] : T;
    return T * S / (double)(cu->shape[0] > 1 ? cu->shape[0] - 1 : 1);
}

double flops_attention_general(const struct args_attention_general *a)
{
    return (a->causal ? 2.0 : 4.0) * scores_of(&a->o, &a->kv, &a->cu) * (double)a->o.shape[1];
}

double flops_attention_general_bwd(const struct args_attention_general_bwd *a)
{
    return (a->causal ? 5.0 : 10.0) * scores_of(&a->o, &a->kv, &a->cu) * (double)a->o.shape[1];
}

/* One head of one sequence: where its first rows begin in q, k and v, and how far it is to the next. */
struct task {
    const double *q, *k, *v, *table;
    int64_t q_pitch, kv_pitch, first, length, kv_first, kv_length, D, heads, head, buckets, furthest;
    bool causal;
    double scale;
};

static int64_t first_of(const struct tensor *cu, int64_t b)
{
    return ((const int32_t *)cu->data)[b];
}

static int64_t length_of(const struct tensor *cu, int64_t b)
{
    return first_of(cu, b + 1) - first_of(cu, b);
}

/* Of either op's arguments, which have what it wants under the same names. */
#define TASK(a, b, h) make_task(&(a)->q, &(a)->kv, &(a)->table, &(a)->cu, &(a)->kv_cu, (a)->heads, b, h)

static struct task make_task(const struct tensor *q, const struct tensor *kv, const struct tensor *table,
                             const struct tensor *cu, const struct tensor *kv_cu, int64_t heads, int64_t b, int64_t h)
{
    const struct tensor *keys = kv->data ? kv : q, *key_cu = kv->data ? kv_cu : cu;
    int64_t width = kv->data ? q->shape[1] : q->shape[1] / 3, D = width / heads, to_keys = kv->data ? 0 : width;
    struct task t = {.q_pitch = q->shape[1], .kv_pitch = keys->shape[1], .D = D, .heads = heads, .head = h};
    t.first = first_of(cu, b), t.length = length_of(cu, b);
    t.kv_first = first_of(key_cu, b), t.kv_length = length_of(key_cu, b);
    t.q = (const double *)q->data + t.first * t.q_pitch + h * D;
    t.k = (const double *)keys->data + t.kv_first * t.kv_pitch + to_keys + h * D;
    t.v = t.k + width;
    t.table = table->data;
    t.buckets = table->shape[0];
    return t;
}

/* Behind the last key that query i sees. */
static int64_t end_of_keys(const struct task *t, int64_t i)
{
    return t->causal && i + 1 < t->kv_length ? i + 1 : t->kv_length;
}

static int64_t entry(const struct task *t, int64_t i, int64_t j)
{
    return bias_bucket(i, j, t->buckets, t->furthest, t->causal) * t->heads + t->head;
}

static double bias(const struct task *t, int64_t i, int64_t j)
{
    if (!t->table)
        return 0;
    return t->furthest ? t->table[entry(t, i, j)] : (double)(j - i) * t->table[t->head];
}

static double score(const struct task *t, int64_t i, int64_t j)
{
    const double *q = t->q + i * t->q_pitch, *k = t->k + j * t->kv_pitch;
    double sum = 0;
    for (int64_t d = 0; d < t->D; d++)
        sum += q[d] * k[d];
    return t->scale * sum + bias(t, i, j);
}

static double mask(const struct task *t, const int32_t *coords, const int32_t *rng, int64_t site, double p, int64_t i,
                   int64_t j)
{
    if (p <= 0 || !coords)
        return 1;
    struct philox bits = mask_attention_bits(rng, site, coords[2 * t->first], t->head, i, j);
    return mask_keeps_key(bits, j, mask_threshold8(p)) ? mask_scale8(p) : 0;
}

static void forward_row(const struct args_attention_general *a, const struct task *t, int64_t i)
{
    double *o = (double *)a->o.data + (t->first + i) * a->o.shape[1] + t->head * t->D;
    double max = -INFINITY, sum = 0;
    int64_t end = end_of_keys(t, i);
    for (int64_t j = 0; j < end; j++) {
        double s = score(t, i, j);
        max = s > max || isnan(s) ? s : max;
    }
    for (int64_t j = 0; j < end; j++) {
        double e = exp(score(t, i, j) - max), m = mask(t, a->coords.data, a->rng.data, a->site, a->p, i, j);
        const double *v = t->v + j * t->kv_pitch;
        sum += e;
        for (int64_t d = 0; d < t->D; d++)
            o[d] += m * e * v[d];
    }
    for (int64_t d = 0; d < t->D && end; d++)
        o[d] /= sum;
    ((double *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i] = end ? max + log(sum) : 0;
}

void ref_attention_general(const struct args_attention_general *a, const struct call *c)
{
    (void)c;
    for (int64_t i = 0; i < a->o.shape[0] * a->o.shape[1]; i++)
        ((double *)a->o.data)[i] = 0;
    for (int64_t i = 0; i < a->o.shape[0] * a->heads; i++)
        ((double *)a->lse.data)[i] = 0;
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            struct task t = TASK(a, b, h);
            t.furthest = a->furthest, t.causal = a->causal, t.scale = a->scale;
            for (int64_t i = 0; i < t.length; i++)
                forward_row(a, &t, i);
        }
}

/* Where the gradients of a task's rows begin. */
struct sums {
    double *dq, *dk, *dv; /* dk, dv NULL: not wanted */
};

static void backward_row(const struct args_attention_general_bwd *a, const struct task *t, int64_t i, struct sums to)
{
    int64_t row = (t->first + i) * a->o.shape[1] + t->head * t->D;
    const double *o = (const double *)a->o.data + row, *dout = (const double *)a->dout.data + row;
    const double *q = t->q + i * t->q_pitch;
    double lse = ((const double *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i], delta = 0;
    double *dtable = a->dtable.data, *dq = to.dq + i * t->q_pitch;
    for (int64_t d = 0; d < t->D; d++)
        delta += dout[d] * o[d];
    for (int64_t j = 0; j < end_of_keys(t, i); j++) {
        const double *k = t->k + j * t->kv_pitch, *v = t->v + j * t->kv_pitch;
        double p = exp(score(t, i, j) - lse), dp = 0;
        double m = mask(t, a->coords.data, a->rng.data, a->site, a->p, i, j);
        for (int64_t d = 0; d < t->D; d++)
            dp += dout[d] * v[d];
        double ds = p * (m * dp - delta);
        for (int64_t d = 0; d < t->D; d++)
            dq[d] += t->scale * ds * k[d];
        for (int64_t d = 0; d < t->D && to.dk; d++) {
            to.dv[j * t->kv_pitch + d] += m * p * dout[d];
            to.dk[j * t->kv_pitch + d] += t->scale * ds * q[d];
        }
        if (dtable)
            dtable[entry(t, i, j)] += ds;
    }
}

static void clear(const struct tensor *t)
{
    for (int64_t i = 0; t->data && i < t->shape[0] * t->shape[1]; i++)
        ((double *)t->data)[i] = 0;
}

void ref_attention_general_bwd(const struct args_attention_general_bwd *a, const struct call *c)
{
    (void)c;
    const struct tensor *keys = a->kv.data ? &a->kv : &a->q, *dkeys = a->kv.data ? &a->dkv : &a->dq;
    clear(&a->dq);
    clear(&a->dkv);
    if (!a->dtable.add)
        clear(&a->dtable);
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            struct task t = TASK(a, b, h);
            t.furthest = a->furthest, t.causal = a->causal, t.scale = a->scale;
            struct sums to = {.dq = (double *)a->dq.data + (t.q - (const double *)a->q.data)};
            if (dkeys->data) {
                to.dk = (double *)dkeys->data + (t.k - (const double *)keys->data);
                to.dv = (double *)dkeys->data + (t.v - (const double *)keys->data);
            }
            for (int64_t i = 0; i < t.length; i++)
                backward_row(a, &t, i, to);
        }
}
