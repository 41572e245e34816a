/* The norm of all gradients, clipping, and the updates. t = step[STEP_UPDATE] counts updates from 1, lr =
 * step[STEP_LR], coef is what every gradient is multiplied with (absent: 1); a negative one means that the gradients
 * are not finite, and an update then changes nothing at all. `copy` is p once more, in a type of 16 bits. With `noise`,
 * p and the states are rounded as they are stored (op/optimizer/rounding.h); an update goes by what they were before that.
 *
 *     sumsq   partials[at + i] = sum of g^2 over the i-th SUMSQ_CHUNK elements, in F64
 *     clip    op/clip.h
 *
 *     adamw   Loshchilov and Hutter, arXiv 1711.05101, as torch.optim.AdamW
 *             p -= lr wd p ;  m = b1 m + (1-b1) g ;  v = b2 v + (1-b2) g^2
 *             p -= lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps)
 *             decay_last: p -= lr wd p stands last, as in bitsandbytes' AdamW
 *
 *     sgd     as torch.optim.SGD
 *             g += wd p ;  buf = g at t = 1, then mu buf + (1-dampening) g
 *             p -= lr (nesterov ? g + mu buf : mu ? buf : g) */
#include "graph/graph.h"
#include "op/clip.h"
#include "op/optimizer/update.h"

#include <math.h>

void shape_sumsq(struct graph *g, struct op_sumsq *n)
{
    const struct value *partials = graph_value(g, n->partials);
    shape_require(g, partials->ndim == 1 && partials->dtype == DT_F64, "sumsq", "partials must be (chunks) F64");
}

void shape_clip(struct graph *g, struct op_clip *n)
{
    if (n->scaler && !shape_require(g, graph_value(g, n->scaler)->dtype == DT_F64, "clip", "the scaler must be F64"))
        return;
    n->norm = shape_stat(g, SHAPE(DIM(1)));
    n->coef = shape_stat(g, SHAPE(DIM(1)));
}

void shape_adamw(struct graph *g, struct op_adamw *n)
{
    if (shape_same(g, n->p, n->g, "adamw") && shape_same(g, n->p, n->m, "adamw") &&
        shape_same(g, n->p, n->v, "adamw") && n->copy)
        shape_same(g, n->p, n->copy, "adamw");
}

void shape_sgd(struct graph *g, struct op_sgd *n)
{
    if (shape_same(g, n->p, n->g, "sgd") && (!n->buf || shape_same(g, n->p, n->buf, "sgd")) && n->copy)
        shape_same(g, n->p, n->copy, "sgd");
}

double flops_sumsq(const struct args_sumsq *a)
{
    return 2.0 * (double)tensor_elements(&a->g);
}

double flops_clip(const struct args_clip *a)
{
    return (double)tensor_elements(&a->partials);
}

double flops_adamw(const struct args_adamw *a)
{
    return 15.0 * (double)tensor_elements(&a->p);
}

double flops_sgd(const struct args_sgd *a)
{
    return 8.0 * (double)tensor_elements(&a->p);
}

void ref_sumsq(const struct args_sumsq *a, const struct call *c)
{
    (void)c;
    const double *g = a->g.data;
    double *partials = sumsq_partials(a);
    int64_t n = tensor_elements(&a->g);
    for (int64_t i = 0; i < n; i++) {
        if (i % SUMSQ_CHUNK == 0)
            partials[i / SUMSQ_CHUNK] = 0;
        partials[i / SUMSQ_CHUNK] += g[i] * g[i];
    }
}

void ref_clip(const struct args_clip *a, const struct call *c)
{
    (void)c;
    double sum = 0;
    for (int64_t i = 0; i < a->partials.shape[0]; i++)
        sum += ((const double *)a->partials.data)[i];
    clip_decide(sum, a->max_norm, a->scaler.data, a->norm.data, a->coef.data);
}

void ref_adamw(const struct args_adamw *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data;
    double *p = a->p.data, *m = a->m.data, *v = a->v.data, coef = update_coefficient(&a->coef);
    double lr = step[STEP_LR], c1 = 1 - pow(a->beta1, step[STEP_UPDATE]), c2 = 1 - pow(a->beta2, step[STEP_UPDATE]);
    if (coef < 0)
        return;
    for (int64_t i = 0, n = tensor_elements(&a->p); i < n; i++) {
        double grad = g[i] * coef, w = p[i];
        if (!a->decay_last)
            w -= lr * a->weight_decay * w;
        double m1 = a->beta1 * m[i] + (1 - a->beta1) * grad, m2 = a->beta2 * v[i] + (1 - a->beta2) * grad * grad;
        w -= lr / c1 * m1 / (sqrt(m2) / sqrt(c2) + a->eps);
        if (a->decay_last)
            w -= lr * a->weight_decay * w;
        p[i] = rounding_store(step, a->noise, ROUND_WEIGHT, a->p.first + i, w);
        m[i] = rounding_store(step, a->noise, ROUND_STATE1, a->p.first + i, m1);
        v[i] = rounding_store(step, a->noise, ROUND_STATE2, a->p.first + i, m2);
    }
    update_write_copy(&a->copy, &a->p);
}

void ref_sgd(const struct args_sgd *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data;
    double *p = a->p.data, *buf = a->buf.data, coef = update_coefficient(&a->coef);
    if (coef < 0)
        return;
    for (int64_t i = 0, n = tensor_elements(&a->p); i < n; i++) {
        double grad = g[i] * coef + a->weight_decay * p[i], d = grad;
        if (buf) {
            double b = step[STEP_UPDATE] == 1 ? grad : a->momentum * buf[i] + (1 - a->dampening) * grad;
            d = a->nesterov ? grad + a->momentum * b : b;
            buf[i] = rounding_store(step, a->noise, ROUND_STATE1, a->p.first + i, b);
        }
        p[i] = rounding_store(step, a->noise, ROUND_WEIGHT, a->p.first + i, p[i] - step[STEP_LR] * d);
    }
    update_write_copy(&a->copy, &a->p);
}
