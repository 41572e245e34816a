/* Adagrad (Duchi et al., 2011), as torch.optim.Adagrad; t, lr, coef and copy as in optimizer.c.
 *
 *     g += wd p ;  sum += g^2 ;  p -= lr / (1 + (t-1) lr_decay) g / (sqrt(sum) + eps) */
#include "graph/graph.h"
#include "op/optimizer/update.h"

#include <math.h>

void shape_adagrad(struct graph *g, struct op_adagrad *n)
{
    if (shape_same(g, n->p, n->g, "adagrad") && shape_same(g, n->p, n->sum, "adagrad") && n->copy)
        shape_same(g, n->p, n->copy, "adagrad");
}

double flops_adagrad(const struct args_adagrad *a)
{
    return 8.0 * (double)tensor_elements(&a->p);
}

void ref_adagrad(const struct args_adagrad *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data;
    double *p = a->p.data, *sum = a->sum.data, coef = update_coefficient(&a->coef);
    double rate = step[STEP_LR] / (1 + (step[STEP_UPDATE] - 1) * a->lr_decay);
    if (coef < 0)
        return;
    for (int64_t i = 0, n = tensor_elements(&a->p); i < n; i++) {
        double grad = coef * g[i] + a->weight_decay * p[i];
        sum[i] += grad * grad;
        p[i] -= rate * grad / (sqrt(sum[i]) + a->eps);
    }
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, tensor_elements(&a->p), a->p.data);
    update_round(step, a->noise, ROUND_STATE1, a->p.first, tensor_elements(&a->p), a->sum.data);
    update_write_copy(&a->copy, &a->p);
}
