/* Lion (Chen et al., arXiv 2302.06675), as bitsandbytes has it; t, lr, coef and copy as in optimizer.c.
 *
 *     p -= lr wd p ;  p -= lr sign(b1 m + (1-b1) g) ;  m = b2 m + (1-b2) g
 *
 * lion8bit: m in codes of 8 bits (op/optimizer/codes.h); the step goes by what was read, and is not rounded. */
#include "graph/graph.h"
#include "op/optimizer/codes.h"
#include "op/optimizer/update.h"

void shape_lion(struct graph *g, struct op_lion *n)
{
    if (shape_same(g, n->p, n->g, "lion") && shape_same(g, n->p, n->m, "lion") && n->copy)
        shape_same(g, n->p, n->copy, "lion");
}

void shape_lion8bit(struct graph *g, struct op_lion8bit *n)
{
    if (shape_same(g, n->p, n->g, "lion8bit") && codes_fit(g, n->p, n->m, n->absmax_m, "lion8bit") && n->copy)
        shape_same(g, n->p, n->copy, "lion8bit");
}

double flops_lion(const struct args_lion *a)
{
    return 9.0 * (double)tensor_elements(&a->p);
}

double flops_lion8bit(const struct args_lion8bit *a)
{
    return 9.0 * (double)tensor_elements(&a->p);
}

struct factors {
    double coef, lr, beta1, beta2, weight_decay;
};

static void update(double *p, const double *g, double *m, int64_t n, const struct factors *f)
{
    for (int64_t i = 0; i < n; i++) {
        double grad = f->coef * g[i], mixed = f->beta1 * m[i] + (1 - f->beta1) * grad;
        p[i] -= f->lr * f->weight_decay * p[i];
        p[i] -= f->lr * ((mixed > 0) - (mixed < 0));
        m[i] = f->beta2 * m[i] + (1 - f->beta2) * grad;
    }
}

void ref_lion(const struct args_lion *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data;
    struct factors f = {update_coefficient(&a->coef), step[STEP_LR], a->beta1, a->beta2, a->weight_decay};
    if (f.coef < 0)
        return;
    update(a->p.data, a->g.data, a->m.data, tensor_elements(&a->p), &f);
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, tensor_elements(&a->p), a->p.data);
    update_round(step, a->noise, ROUND_STATE1, a->p.first, tensor_elements(&a->p), a->m.data);
    update_write_copy(&a->copy, &a->p);
}

void ref_lion8bit(const struct args_lion8bit *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data;
    struct factors f = {update_coefficient(&a->coef), step[STEP_LR], a->beta1, a->beta2, a->weight_decay};
    struct codes codes;
    if (f.coef < 0)
        return;
    codes_open(&codes, &a->m, &a->absmax_m, true);
    for (int64_t from = 0, all = tensor_elements(&a->p); from < all; from += MAP_BLOCK) {
        int64_t n = all - from < MAP_BLOCK ? all - from : MAP_BLOCK;
        double m[MAP_BLOCK];
        codes_read(&codes, from, n, m);
        update((double *)a->p.data + from, (const double *)a->g.data + from, m, n, &f);
        codes_write(&codes, from, n, m);
    }
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, tensor_elements(&a->p), a->p.data);
    update_write_copy(&a->copy, &a->p);
}
