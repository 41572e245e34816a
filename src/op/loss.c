/* The losses. 1/N (step[STEP_INV_N]) is the inverse of the number of samples or targets in the whole optimizer step, so
 * that the losses of its micro-batches add up to the mean. A backward op seeds the gradient with it, times the loss
 * scale (scaler[SCALER_SCALE]) where there is one.
 *     cross_entropy   1/N sum over rows n with label y >= 0 of (1-s) (lse - z_y) + s/V sum_v (lse - z_v), and `more`, the loss of
 *                     something else, which seeds its own gradient
 *                     lse = log sum_v exp z_v ;  dz_v = 1/N (exp(z_v - lse) - (1-s) [v = y] - s/V)
 *                     rows with a negative label are not looked at: their lse and dz are 0
 *     mse             1/(N V) sum (z - y)^2 ;  dz = 2 (z - y) / (N V)
 *     bce             1/(N V) sum max(z,0) - z y + log1p(exp(-|z|)) ;  dz = (sigmoid(z) - y) / (N V)
 * With weights w (V) float, those of torch's CrossEntropyLoss(weight) and BCEWithLogitsLoss(pos_weight), but that the first
 * is divided by the sum of the weights of its targets: 1/N is its inverse then.
 *     cross_entropy   1/N sum (1-s) w_y (lse - z_y) + s/V sum_v w_v (lse - z_v)
 *                     dz_v = 1/N ((1-s) w_y (exp(z_v - lse) - [v = y]) + s/V (exp(z_v - lse) sum_u w_u - w_v))
 *     bce             and (w-1) y (log1p(exp(-|z|)) + max(-z,0)) for each ;  dz: and (w-1) y (sigmoid(z) - 1)
 * logits z (N,V); labels (N) I32 or (N,V) float; loss (1); lse (N). Inside, sums are F64. */
#include "graph/graph.h"

#include <math.h>

static void shape_loss_bwd(struct graph *g, int logits, int scaler, int dlogits)
{
    if (shape_require(g, !scaler || graph_value(g, scaler)->dtype == DT_F64, "loss", "the scaler must be F64") &&
        dlogits)
        shape_same(g, logits, dlogits, "loss");
}

static bool shape_weights(struct graph *g, int logits, int weights)
{
    const struct value *z = graph_value(g, logits), *w = graph_value(g, weights);
    return shape_require(g, !weights || (w->ndim == 1 && dim_equal(w->shape[0], z->shape[z->ndim - 1])), "loss",
                         "weights of classes must be (V)");
}

void shape_cross_entropy(struct graph *g, struct op_cross_entropy *n)
{
    const struct value *z = graph_value(g, n->logits), *y = graph_value(g, n->labels);
    if (!shape_require(g, z->ndim == 2 && y->ndim == 1 && y->dtype == DT_I32 && dim_equal(y->shape[0], z->shape[0]),
                       "cross_entropy", "logits must be (N,V), labels (N) I32") ||
        !shape_weights(g, n->logits, n->weights))
        return;
    const struct value *more = graph_value(g, n->more);
    if (!shape_require(g, !n->more || (more->ndim == 1 && dim_equal(more->shape[0], DIM(1))), "cross_entropy",
                       "more must be (1)"))
        return;
    struct dim N = z->shape[0];
    n->loss = shape_stat(g, SHAPE(DIM(1)));
    n->lse = shape_stat(g, SHAPE(N));
}

void shape_mse(struct graph *g, struct op_mse *n)
{
    if (shape_same(g, n->logits, n->labels, "mse"))
        n->loss = shape_stat(g, SHAPE(DIM(1)));
}

void shape_bce(struct graph *g, struct op_bce *n)
{
    if (shape_same(g, n->logits, n->labels, "bce") && shape_weights(g, n->logits, n->weights))
        n->loss = shape_stat(g, SHAPE(DIM(1)));
}

void shape_cross_entropy_bwd(struct graph *g, struct op_cross_entropy_bwd *n)
{
    shape_loss_bwd(g, n->logits, n->scaler, n->dlogits);
    shape_weights(g, n->logits, n->weights);
}

void shape_mse_bwd(struct graph *g, struct op_mse_bwd *n)
{
    shape_loss_bwd(g, n->logits, n->scaler, n->dlogits);
}

void shape_bce_bwd(struct graph *g, struct op_bce_bwd *n)
{
    shape_loss_bwd(g, n->logits, n->scaler, n->dlogits);
    shape_weights(g, n->logits, n->weights);
}

void grad_cross_entropy(struct grads *d, const struct op_cross_entropy *n)
{
    struct op_cross_entropy_bwd b = {.logits = n->logits,
                                     .labels = n->labels,
                                     .lse = n->lse,
                                     .step = n->step,
                                     .weights = n->weights,
                                     .dlogits = grad_target(d, n->logits),
                                     .smoothing = n->smoothing};
    if (b.dlogits)
        emit_cross_entropy_bwd(d->g, &b);
    if (n->more)
        grad_set(d, n->more, grad_of(d, n->loss));
}

void grad_mse(struct grads *d, const struct op_mse *n)
{
    struct op_mse_bwd b = {
        .logits = n->logits, .labels = n->labels, .step = n->step, .dlogits = grad_target(d, n->logits)};
    if (b.dlogits)
        emit_mse_bwd(d->g, &b);
}

void grad_bce(struct grads *d, const struct op_bce *n)
{
    struct op_bce_bwd b = {.logits = n->logits,
                           .labels = n->labels,
                           .step = n->step,
                           .weights = n->weights,
                           .dlogits = grad_target(d, n->logits)};
    if (b.dlogits)
        emit_bce_bwd(d->g, &b);
}

static double per_logit(const struct tensor *logits, double flops)
{
    return flops * (double)logits->shape[0] * (double)logits->shape[1];
}

double flops_cross_entropy(const struct args_cross_entropy *a)
{
    return per_logit(&a->logits, 12);
}

double flops_cross_entropy_bwd(const struct args_cross_entropy_bwd *a)
{
    return per_logit(&a->logits, 12);
}

double flops_mse(const struct args_mse *a)
{
    return per_logit(&a->logits, 3);
}

double flops_mse_bwd(const struct args_mse_bwd *a)
{
    return per_logit(&a->logits, 3);
}

double flops_bce(const struct args_bce *a)
{
    return per_logit(&a->logits, 20);
}

double flops_bce_bwd(const struct args_bce_bwd *a)
{
    return per_logit(&a->logits, 12);
}

static double inverse_n(const struct tensor *step)
{
    return ((const double *)step->data)[STEP_INV_N];
}

/* What a gradient starts with: 1/N, times the loss scale where there is one. */
static double seed(const struct tensor *step, const struct tensor *scaler)
{
    return inverse_n(step) * (scaler->data ? ((const double *)scaler->data)[SCALER_SCALE] : 1);
}

static double weight_of(const struct tensor *weights, int64_t v)
{
    return weights->data ? ((const double *)weights->data)[v] : 1;
}

void ref_cross_entropy(const struct args_cross_entropy *a, const struct call *c)
{
    (void)c;
    int64_t N = a->logits.shape[0], V = a->logits.shape[1];
    double *lse = a->lse.data, loss = 0;
    for (int64_t n = 0; n < N; n++) {
        const double *z = (const double *)a->logits.data + n * V;
        int32_t label = ((const int32_t *)a->labels.data)[n];
        double max = -INFINITY, sum = 0, all = 0;
        lse[n] = 0;
        if (label < 0)
            continue;
        for (int64_t v = 0; v < V; v++)
            max = z[v] > max || isnan(z[v]) ? z[v] : max;
        for (int64_t v = 0; v < V; v++)
            sum += exp(z[v] - max);
        lse[n] = max + log(sum);
        for (int64_t v = 0; v < V; v++)
            all += weight_of(&a->weights, v) * (lse[n] - z[v]) / (double)V;
        loss += (1 - a->smoothing) * weight_of(&a->weights, label) * (lse[n] - z[label]) + a->smoothing * all;
    }
    *(double *)a->loss.data = loss * inverse_n(&a->step) + (a->more.data ? *(double *)a->more.data : 0);
}

void ref_cross_entropy_bwd(const struct args_cross_entropy_bwd *a, const struct call *c)
{
    (void)c;
    int64_t N = a->logits.shape[0], V = a->logits.shape[1];
    for (int64_t n = 0; n < N; n++) {
        const double *z = (const double *)a->logits.data + n * V;
        double *dz = (double *)a->dlogits.data + n * V, lse = ((const double *)a->lse.data)[n];
        int32_t label = ((const int32_t *)a->labels.data)[n];
        double own = label >= 0 ? (1 - a->smoothing) * weight_of(&a->weights, label) : 0,
               each = a->smoothing / (double)V;
        double all = own; /* of p; without weights 1 */
        for (int64_t v = 0; v < V; v++)
            all += each * weight_of(&a->weights, v);
        all = a->weights.data ? all : 1;
        for (int64_t v = 0; v < V; v++) {
            double p = exp(z[v] - lse), target = (v == label) * own + each * weight_of(&a->weights, v);
            double grad = label >= 0 ? (p * all - target) * seed(&a->step, &a->scaler) : 0;
            dz[v] = (a->dlogits.add ? dz[v] : 0) + grad;
        }
    }
}

void ref_mse(const struct args_mse *a, const struct call *c)
{
    (void)c;
    int64_t n = a->logits.shape[0] * a->logits.shape[1];
    const double *z = a->logits.data, *y = a->labels.data;
    double loss = 0;
    for (int64_t i = 0; i < n; i++)
        loss += (z[i] - y[i]) * (z[i] - y[i]);
    *(double *)a->loss.data = loss * inverse_n(&a->step) / (double)a->logits.shape[1];
}

void ref_mse_bwd(const struct args_mse_bwd *a, const struct call *c)
{
    (void)c;
    int64_t n = a->logits.shape[0] * a->logits.shape[1];
    const double *z = a->logits.data, *y = a->labels.data;
    double *dz = a->dlogits.data, scale = seed(&a->step, &a->scaler) / (double)a->logits.shape[1];
    for (int64_t i = 0; i < n; i++)
        dz[i] = (a->dlogits.add ? dz[i] : 0) + 2 * (z[i] - y[i]) * scale;
}

void ref_bce(const struct args_bce *a, const struct call *c)
{
    (void)c;
    int64_t n = a->logits.shape[0] * a->logits.shape[1];
    const double *z = a->logits.data, *y = a->labels.data;
    double loss = 0;
    for (int64_t i = 0; i < n; i++) {
        double more = (weight_of(&a->weights, i % a->logits.shape[1]) - 1) * y[i], log = log1p(exp(-fabs(z[i])));
        loss += fmax(z[i], 0) - z[i] * y[i] + log + more * (log + fmax(-z[i], 0));
    }
    *(double *)a->loss.data = loss * inverse_n(&a->step) / (double)a->logits.shape[1];
}

void ref_bce_bwd(const struct args_bce_bwd *a, const struct call *c)
{
    (void)c;
    int64_t n = a->logits.shape[0] * a->logits.shape[1];
    const double *z = a->logits.data, *y = a->labels.data;
    double *dz = a->dlogits.data, scale = seed(&a->step, &a->scaler) / (double)a->logits.shape[1];
    for (int64_t i = 0; i < n; i++) {
        double more = (weight_of(&a->weights, i % a->logits.shape[1]) - 1) * y[i], p = 1 / (1 + exp(-z[i]));
        dz[i] = (a->dlogits.add ? dz[i] : 0) + (p - y[i] + more * (p - 1)) * scale;
    }
}
