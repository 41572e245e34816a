/* RMSprop (Tieleman and Hinton, 2012), as torch.optim.RMSprop; t, lr, coef and copy as in optimizer.c.
 *
 *     g += wd p ;  v = alpha v + (1-alpha) g^2 ;  d = sqrt(v) + eps
 *     mean_g is there (centered):  mean_g = alpha mean_g + (1-alpha) g ;  d = sqrt(v - mean_g^2) + eps
 *     p -= lr g / d                     or, where buf is there:  buf = momentum buf + g / d ;  p -= lr buf
 *
 * rmsprop8bit, as bitsandbytes has it: the same without mean_g and buf, v in signed codes of 8 bits (op/optimizer/codes.h). */
#include "graph/graph.h"
#include "op/optimizer/codes.h"
#include "op/optimizer/update.h"

#include <math.h>

void shape_rmsprop(struct graph *g, struct op_rmsprop *n)
{
    if (shape_same(g, n->p, n->g, "rmsprop") && shape_same(g, n->p, n->v, "rmsprop") &&
        (!n->mean_g || shape_same(g, n->p, n->mean_g, "rmsprop")) &&
        (!n->buf || shape_same(g, n->p, n->buf, "rmsprop")) && n->copy)
        shape_same(g, n->p, n->copy, "rmsprop");
}

void shape_rmsprop8bit(struct graph *g, struct op_rmsprop8bit *n)
{
    if (shape_same(g, n->p, n->g, "rmsprop8bit") && codes_fit(g, n->p, n->v, n->absmax_v, "rmsprop8bit") && n->copy)
        shape_same(g, n->p, n->copy, "rmsprop8bit");
}

double flops_rmsprop(const struct args_rmsprop *a)
{
    return 14.0 * (double)tensor_elements(&a->p);
}

double flops_rmsprop8bit(const struct args_rmsprop8bit *a)
{
    return 10.0 * (double)tensor_elements(&a->p);
}

struct factors {
    double coef, lr, alpha, eps, momentum, weight_decay;
};

/* mean_g and buf may be NULL. */
static void update(double *p, const double *g, double *v, double *mean_g, double *buf, int64_t n,
                   const struct factors *f)
{
    for (int64_t i = 0; i < n; i++) {
        double grad = f->coef * g[i] + f->weight_decay * p[i], square;
        square = v[i] = f->alpha * v[i] + (1 - f->alpha) * grad * grad;
        if (mean_g) {
            mean_g[i] = f->alpha * mean_g[i] + (1 - f->alpha) * grad;
            square -= mean_g[i] * mean_g[i];
        }
        double d = grad / (sqrt(square) + f->eps);
        if (buf)
            d = buf[i] = f->momentum * buf[i] + d;
        p[i] -= f->lr * d;
    }
}

void ref_rmsprop(const struct args_rmsprop *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data;
    struct factors f = {update_coefficient(&a->coef), step[STEP_LR], a->alpha, a->eps, a->momentum, a->weight_decay};
    if (f.coef < 0)
        return;
    update(a->p.data, a->g.data, a->v.data, a->mean_g.data, a->buf.data, tensor_elements(&a->p), &f);
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, tensor_elements(&a->p), a->p.data);
    update_round(step, a->noise, ROUND_STATE1, a->p.first, tensor_elements(&a->p), a->v.data);
    update_round(step, a->noise, ROUND_STATE2, a->p.first, tensor_elements(&a->p), a->mean_g.data);
    update_round(step, a->noise, ROUND_STATE3, a->p.first, tensor_elements(&a->p), a->buf.data);
    update_write_copy(&a->copy, &a->p);
}

void ref_rmsprop8bit(const struct args_rmsprop8bit *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data;
    struct factors f = {update_coefficient(&a->coef), step[STEP_LR], a->alpha, a->eps, 0, a->weight_decay};
    struct codes codes;
    if (f.coef < 0)
        return;
    codes_open(&codes, &a->v, &a->absmax_v, true);
    for (int64_t from = 0, all = tensor_elements(&a->p); from < all; from += MAP_BLOCK) {
        int64_t n = all - from < MAP_BLOCK ? all - from : MAP_BLOCK;
        double v[MAP_BLOCK];
        codes_read(&codes, from, n, v);
        update((double *)a->p.data + from, (const double *)a->g.data + from, v, NULL, NULL, n, &f);
        codes_write(&codes, from, n, v);
    }
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, tensor_elements(&a->p), a->p.data);
    update_write_copy(&a->copy, &a->p);
}
