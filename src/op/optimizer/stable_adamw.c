/* StableAdamW (Wortsman et al., arXiv 2304.13013), as optimi.StableAdamW: AdamW whose rate falls, for a whole tensor, where its
 * gradient is larger than the second moment leads one to expect. t, lr, coef and copy as in optimizer.c; the shares of a
 * moment are corrected instead of the moment: stable_adamw.h.
 *
 *     m = b1 m + (1-b1) g ;  v = b2 v + (1-b2) g^2          with b1, b2 of step t: 0 at the first
 *     a = lr / max(1, sqrt(mean of g^2 / max(v, eps^2)))    the mean is over the tensor
 *     p -= a wd p ;  p -= a m / (sqrt(v) + eps)
 *
 * The mean goes by v before it is rounded as it is stored. */
#include "op/optimizer/stable_adamw.h"

#include "graph/graph.h"
#include "op/optimizer/update.h"

void shape_stable_adamw(struct graph *g, struct op_stable_adamw *n)
{
    if (shape_same(g, n->p, n->g, "stable_adamw") && shape_same(g, n->p, n->m, "stable_adamw") &&
        shape_same(g, n->p, n->v, "stable_adamw") && n->copy)
        shape_same(g, n->p, n->copy, "stable_adamw");
}

double flops_stable_adamw(const struct args_stable_adamw *a)
{
    return 22.0 * (double)tensor_elements(&a->p);
}

void ref_stable_adamw(const struct args_stable_adamw *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data;
    double *p = a->p.data, *m = a->m.data, *v = a->v.data, coef = update_coefficient(&a->coef), sum = 0;
    double rest1 = stable_adamw_rest(a->beta1, step[STEP_UPDATE]),
           rest2 = stable_adamw_rest(a->beta2, step[STEP_UPDATE]);
    int64_t n = tensor_elements(&a->p);
    if (coef < 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        double grad = coef * g[i], v1 = (1 - rest2) * v[i] + rest2 * grad * grad;
        sum += grad * grad / fmax(v1, a->eps * a->eps);
    }
    double rate = stable_adamw_rate(step[STEP_LR], sum, (double)n);
    for (int64_t i = 0; i < n; i++) {
        double grad = coef * g[i], m1 = (1 - rest1) * m[i] + rest1 * grad;
        double v1 = (1 - rest2) * v[i] + rest2 * grad * grad, w = p[i] - rate * a->weight_decay * p[i];
        p[i] = rounding_store(step, a->noise, ROUND_WEIGHT, i, w - rate * m1 / (sqrt(v1) + a->eps));
        m[i] = rounding_store(step, a->noise, ROUND_STATE1, i, m1);
        v[i] = rounding_store(step, a->noise, ROUND_STATE2, i, v1);
    }
    update_write_copy(&a->copy, &a->p);
}
