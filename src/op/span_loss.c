/* The loss of a stretch of tokens in each sequence, which has a softmax over its own rows for where that starts, column 0, and one
 * for where it ends, column 1.
 *     loss = 1/N sum over sequences b and sides k of 1/2 sum over its rows n with bit k in spans[n] of (lse[b,k] - z[n,k])
 *     lse[b,k] = log sum over the rows n of b of exp z[n,k];  0 where b has no rows
 *     dz[n,k] = 1/(2N) (marks[b,k] exp(z[n,k] - lse[b,k]) - [bit k in spans[n]]), with how many marks of side k there are in b;
 *               0 in rows that belong to no sequence
 * logits z (T,2); spans (T) I32: 1 start, 2 end, 3 both, 0 or below 0 neither; loss (1); lse (B,2). 1/N is step[STEP_INV_N], and
 * a backward op times the scaler's loss scale, as in op/loss.c. Inside, sums are F64. */
#include "graph/graph.h"

#include <math.h>

static bool shape_span(struct graph *g, int logits, int spans, const char *what)
{
    const struct value *z = graph_value(g, logits), *s = graph_value(g, spans);
    bool right = z->ndim == 2 && dim_equal(z->shape[1], DIM(2)) && s->ndim == 1 && s->dtype == DT_I32 &&
                 dim_equal(s->shape[0], z->shape[0]);
    return shape_require(g, right, what, "logits must be (T,2), spans (T) I32");
}

void shape_span_loss(struct graph *g, struct op_span_loss *n)
{
    if (!shape_span(g, n->logits, n->spans, "span_loss"))
        return;
    n->loss = shape_stat(g, SHAPE(DIM(1)));
    n->lse = shape_stat(g, SHAPE(DIM_B, DIM(2)));
}

void shape_span_loss_bwd(struct graph *g, struct op_span_loss_bwd *n)
{
    if (!shape_span(g, n->logits, n->spans, "span_loss_bwd") ||
        !shape_require(g, !n->scaler || graph_value(g, n->scaler)->dtype == DT_F64, "span_loss_bwd",
                       "the scaler must be F64"))
        return;
    if (n->dlogits)
        shape_same(g, n->logits, n->dlogits, "span_loss_bwd");
}

void grad_span_loss(struct grads *d, const struct op_span_loss *n)
{
    struct op_span_loss_bwd b = {.logits = n->logits,
                                 .spans = n->spans,
                                 .cu = n->cu,
                                 .lse = n->lse,
                                 .step = n->step,
                                 .dlogits = grad_target(d, n->logits)};
    if (b.dlogits)
        emit_span_loss_bwd(d->g, &b);
}

double flops_span_loss(const struct args_span_loss *a)
{
    return 24 * (double)a->logits.shape[0];
}

double flops_span_loss_bwd(const struct args_span_loss_bwd *a)
{
    return 24 * (double)a->logits.shape[0];
}

static bool marked(const struct tensor *spans, int64_t n, int side)
{
    int32_t bits = ((const int32_t *)spans->data)[n];
    return bits > 0 && (bits >> side & 1);
}

void ref_span_loss(const struct args_span_loss *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    const double *z = a->logits.data;
    double loss = 0;
    for (int64_t b = 0; b < a->lse.shape[0]; b++)
        for (int side = 0; side < 2; side++) {
            double max = -INFINITY, sum = 0, lse = 0;
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                max = z[2 * n + side] > max || isnan(z[2 * n + side]) ? z[2 * n + side] : max;
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                sum += exp(z[2 * n + side] - max);
            if (cu[b] < cu[b + 1])
                lse = max + log(sum);
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                loss += marked(&a->spans, n, side) ? (lse - z[2 * n + side]) / 2 : 0;
            ((double *)a->lse.data)[2 * b + side] = lse;
        }
    *(double *)a->loss.data = loss * ((const double *)a->step.data)[STEP_INV_N];
}

void ref_span_loss_bwd(const struct args_span_loss_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    const double *z = a->logits.data;
    double *dz = a->dlogits.data, seed = ((const double *)a->step.data)[STEP_INV_N] / 2;
    seed *= a->scaler.data ? ((const double *)a->scaler.data)[SCALER_SCALE] : 1;
    if (!dz)
        return;
    for (int64_t i = 0; !a->dlogits.add && i < 2 * a->logits.shape[0]; i++)
        dz[i] = 0;
    for (int64_t b = 0; b < a->lse.shape[0]; b++)
        for (int side = 0; side < 2; side++) {
            double marks = 0, lse = ((const double *)a->lse.data)[2 * b + side];
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                marks += marked(&a->spans, n, side);
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                dz[2 * n + side] +=
                    (marks ? marks * exp(z[2 * n + side] - lse) - marked(&a->spans, n, side) : 0) * seed;
        }
}
