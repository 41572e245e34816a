/* The loss that balances experts (Fedus et al., arXiv 2101.03961, equations 4 to 6), as load_balancing_loss_func of transformers has it
 * for the layers of a model together:
 *     expert_use    counts[e] = counted[e] + how many of the k choices of the real rows are e
 *                   y[e] = before[e] + sum over the real rows n of p[n,e], p = softmax of the row's logits over all E experts
 *     balance_loss  w E / R^2 sum_e counts[e] sums[e] ;  R = layers cu[B], w = coef M/N
 * Rows from cu[B] on are padding. M of the N targets of the optimizer step are the micro-batch's, so that the losses of its
 * micro-batches add up to their mean, as those of targets do (op/loss.c). Choices have no gradient:
 *     dsums[e] = w E / R^2 counts[e], times the loss scale where there is one
 *     dz[n,e] = p[n,e] (dy[e] - sum_f p[n,f] dy[f]) ;  0 in padding ;  dbefore = dy
 * logits (N,E), places (k N) and offsets (E+1) of route, counted and counts (E) I32, before, y and sums (E), labels (N) I32. */
#include "graph/graph.h"
#include "op/experts/rows.h"

#include <math.h>

static bool is_vector(const struct value *v, struct dim n)
{
    return v->ndim == 1 && dim_equal(v->shape[0], n);
}

static bool is_integers(const struct value *v, struct dim n)
{
    return is_vector(v, n) && v->dtype == DT_I32;
}

/* Whether an optional value has E entries. */
static bool is_absent_or(struct graph *g, int id, struct dim E, bool integers)
{
    const struct value *v = graph_value(g, id);
    return !id || (is_vector(v, E) && (v->dtype == DT_I32) == integers);
}

void shape_expert_use(struct graph *g, struct op_expert_use *n)
{
    const struct value *z = graph_value(g, n->logits), *places = graph_value(g, n->places);
    const struct value *offsets = graph_value(g, n->offsets);
    if (!shape_require(
            g,
            z->ndim == 2 && places->ndim == 1 && places->dtype == DT_I32 &&
                is_integers(offsets, dim_plus(z->shape[1], 1, DIM(1))) &&
                is_absent_or(g, n->counted, z->shape[1], true) && is_absent_or(g, n->before, z->shape[1], false),
            "expert_use", "logits must be (N,E), places (k N), offsets (E+1) and counted (E) I32, before (E)"))
        return;
    struct dim E = z->shape[1];
    graph_value(g, n->counts = shape_stat(g, SHAPE(E)))->dtype = DT_I32;
    n->y = shape_stat(g, SHAPE(E));
}

void shape_expert_use_bwd(struct graph *g, struct op_expert_use_bwd *n)
{
    const struct value *z = graph_value(g, n->logits), *dy = graph_value(g, n->dy);
    if (!shape_require(g, z->ndim == 2 && is_vector(dy, z->shape[1]), "expert_use_bwd",
                       "logits must be (N,E), dy and dbefore (E)"))
        return;
    if (n->dlogits)
        shape_same(g, n->logits, n->dlogits, "expert_use_bwd");
    if (n->dbefore)
        shape_same(g, n->dy, n->dbefore, "expert_use_bwd");
}

static bool is_loss(struct graph *g, int counts, int other, int labels, int64_t layers, const char *op)
{
    const struct value *c = graph_value(g, counts), *y = graph_value(g, labels);
    return shape_require(g,
                         layers > 0 && c->ndim == 1 && c->dtype == DT_I32 && y->ndim == 1 && y->dtype == DT_I32 &&
                             is_absent_or(g, other, c->shape[0], false),
                         op, "counts must be (E) I32, sums (E), labels (N) I32, layers above 0");
}

void shape_balance_loss(struct graph *g, struct op_balance_loss *n)
{
    if (is_loss(g, n->counts, n->sums, n->labels, n->layers, "balance_loss"))
        n->loss = shape_stat(g, SHAPE(DIM(1)));
}

void shape_balance_loss_bwd(struct graph *g, struct op_balance_loss_bwd *n)
{
    if (is_loss(g, n->counts, n->dsums, n->labels, n->layers, "balance_loss_bwd"))
        shape_require(g, !n->scaler || graph_value(g, n->scaler)->dtype == DT_F64, "balance_loss_bwd",
                      "the scaler must be F64");
}

void grad_expert_use(struct grads *d, const struct op_expert_use *n)
{
    struct op_expert_use_bwd b = {.logits = n->logits,
                                  .dy = grad_of(d, n->y),
                                  .cu = n->cu,
                                  .dlogits = grad_target(d, n->logits),
                                  .dbefore = grad_target(d, n->before)};
    if (b.dlogits || b.dbefore)
        emit_expert_use_bwd(d->g, &b);
}

void grad_balance_loss(struct grads *d, const struct op_balance_loss *n)
{
    struct op_balance_loss_bwd b = {.counts = n->counts,
                                    .cu = n->cu,
                                    .labels = n->labels,
                                    .step = n->step,
                                    .dsums = grad_target(d, n->sums),
                                    .coef = n->coef,
                                    .layers = n->layers};
    if (b.dsums)
        emit_balance_loss_bwd(d->g, &b);
}

double flops_expert_use(const struct args_expert_use *a)
{
    return 12 * (double)a->logits.shape[0] * (double)a->logits.shape[1];
}

double flops_expert_use_bwd(const struct args_expert_use_bwd *a)
{
    return 12 * (double)a->logits.shape[0] * (double)a->logits.shape[1];
}

double flops_balance_loss(const struct args_balance_loss *a)
{
    return (double)a->labels.shape[0] + 2 * (double)a->counts.shape[0];
}

double flops_balance_loss_bwd(const struct args_balance_loss_bwd *a)
{
    return (double)a->labels.shape[0] + (double)a->counts.shape[0];
}

/* The maximum of a row of logits and its log of the sum of exponentials, as one. */
static double row_lse(const double *z, int64_t E)
{
    double max = -INFINITY, sum = 0;
    for (int64_t e = 0; e < E; e++)
        max = z[e] > max || isnan(z[e]) ? z[e] : max;
    for (int64_t e = 0; e < E; e++)
        sum += exp(z[e] - max);
    return max + log(sum);
}

static int32_t real_rows(const struct tensor *cu)
{
    return ((const int32_t *)cu->data)[cu->shape[0] - 1];
}

void ref_expert_use(const struct args_expert_use *a, const struct call *c)
{
    (void)c;
    int64_t N = a->logits.shape[0], E = a->logits.shape[1], k = N ? a->places.shape[0] / N : 0;
    const int32_t *places = a->places.data, *counted = a->counted.data;
    const double *before = a->before.data;
    int32_t *counts = a->counts.data;
    double *y = a->y.data;
    for (int64_t e = 0; e < E; e++) {
        counts[e] = counted ? counted[e] : 0;
        y[e] = before ? before[e] : 0;
    }
    for (int64_t n = 0; n < real_rows(&a->cu); n++) {
        const double *z = (const double *)a->logits.data + n * E;
        double lse = row_lse(z, E);
        for (int64_t j = 0; j < k; j++)
            counts[experts_of(a->offsets.data, E, places[n * k + j])]++;
        for (int64_t e = 0; e < E; e++)
            y[e] += exp(z[e] - lse);
    }
}

void ref_expert_use_bwd(const struct args_expert_use_bwd *a, const struct call *c)
{
    (void)c;
    int64_t N = a->logits.shape[0], E = a->logits.shape[1];
    const double *dy = a->dy.data;
    double *dbefore = a->dbefore.data;
    for (int64_t n = 0; a->dlogits.data && n < N; n++) {
        const double *z = (const double *)a->logits.data + n * E;
        double *dz = (double *)a->dlogits.data + n * E, lse = row_lse(z, E), mean = 0;
        bool real = n < real_rows(&a->cu);
        for (int64_t e = 0; e < E && real; e++)
            mean += exp(z[e] - lse) * dy[e];
        for (int64_t e = 0; e < E; e++)
            dz[e] = (a->dlogits.add ? dz[e] : 0) + (real ? exp(z[e] - lse) * (dy[e] - mean) : 0);
    }
    for (int64_t e = 0; dbefore && e < E; e++)
        dbefore[e] = (a->dbefore.add ? dbefore[e] : 0) + dy[e];
}

/* w E / R^2. */
static double factor(const struct tensor *counts, const struct tensor *cu, const struct tensor *labels,
                     const struct tensor *step, double coef, int64_t layers)
{
    double rows = (double)layers * real_rows(cu), targets = 0;
    for (int64_t n = 0; n < labels->shape[0]; n++)
        targets += ((const int32_t *)labels->data)[n] >= 0;
    double share = targets * ((const double *)step->data)[STEP_INV_N];
    return rows > 0 ? coef * share * (double)counts->shape[0] / (rows * rows) : 0;
}

void ref_balance_loss(const struct args_balance_loss *a, const struct call *c)
{
    (void)c;
    double sum = 0;
    for (int64_t e = 0; e < a->counts.shape[0]; e++)
        sum += ((const int32_t *)a->counts.data)[e] * ((const double *)a->sums.data)[e];
    *(double *)a->loss.data = sum * factor(&a->counts, &a->cu, &a->labels, &a->step, a->coef, a->layers);
}

void ref_balance_loss_bwd(const struct args_balance_loss_bwd *a, const struct call *c)
{
    (void)c;
    double *dsums = a->dsums.data, by = factor(&a->counts, &a->cu, &a->labels, &a->step, a->coef, a->layers);
    by *= a->scaler.data ? ((const double *)a->scaler.data)[SCALER_SCALE] : 1;
    for (int64_t e = 0; dsums && e < a->counts.shape[0]; e++)
        dsums[e] = (a->dsums.add ? dsums[e] : 0) + by * ((const int32_t *)a->counts.data)[e];
}
