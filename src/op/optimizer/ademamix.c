/* AdEMAMix (Pagliardini et al., arXiv 2409.03137), as the reference class in bitsandbytes; t, lr, coef and copy as in
 * optimizer.c; alpha and b3 at step t: ademamix.h.
 *
 *     m = b1 m + (1-b1) g ;  slow = b3 slow + (1-b3) g ;  v = b2 v + (1-b2) g^2
 *     p -= lr wd p ;  p -= lr (m/(1-b1^t) + alpha slow) / (sqrt(v)/sqrt(1-b2^t) + eps)
 *
 * ademamix8bit: the states in codes of 8 bits (op/optimizer/codes.h), m and slow signed; the step goes by what they are before they
 * are rounded to codes. */
#include "op/optimizer/ademamix.h"

#include "graph/graph.h"
#include "op/optimizer/codes.h"
#include "op/optimizer/update.h"

void shape_ademamix(struct graph *g, struct op_ademamix *n)
{
    if (shape_same(g, n->p, n->g, "ademamix") && shape_same(g, n->p, n->m, "ademamix") &&
        shape_same(g, n->p, n->slow, "ademamix") && shape_same(g, n->p, n->v, "ademamix") && n->copy)
        shape_same(g, n->p, n->copy, "ademamix");
}

void shape_ademamix8bit(struct graph *g, struct op_ademamix8bit *n)
{
    if (shape_same(g, n->p, n->g, "ademamix8bit") && codes_fit(g, n->p, n->m, n->absmax_m, "ademamix8bit") &&
        codes_fit(g, n->p, n->slow, n->absmax_slow, "ademamix8bit") &&
        codes_fit(g, n->p, n->v, n->absmax_v, "ademamix8bit") && n->copy)
        shape_same(g, n->p, n->copy, "ademamix8bit");
}

double flops_ademamix(const struct args_ademamix *a)
{
    return 20.0 * (double)tensor_elements(&a->p);
}

double flops_ademamix8bit(const struct args_ademamix8bit *a)
{
    return 20.0 * (double)tensor_elements(&a->p);
}

struct factors {
    double coef, lr, beta1, beta2, beta3, alpha, c1, c2, eps, weight_decay;
};

#define FACTORS(a)                                                                                                     \
    factors_of((a)->step.data, &(a)->coef, (a)->beta1, (a)->beta2, (a)->beta3, (a)->alpha, (a)->t_alpha, (a)->t_beta3, \
               (a)->eps, (a)->weight_decay)

static struct factors factors_of(const double *step, const struct tensor *coef, double beta1, double beta2,
                                 double beta3, double alpha, double t_alpha, double t_beta3, double eps,
                                 double weight_decay)
{
    double t = step[STEP_UPDATE];
    return (struct factors){.coef = update_coefficient(coef),
                            .lr = step[STEP_LR],
                            .beta1 = beta1,
                            .beta2 = beta2,
                            .beta3 = ademamix_beta3(beta1, beta3, t_beta3, t),
                            .alpha = ademamix_alpha(alpha, t_alpha, t),
                            .c1 = 1 - pow(beta1, t),
                            .c2 = sqrt(1 - pow(beta2, t)),
                            .eps = eps,
                            .weight_decay = weight_decay};
}

static void update(double *p, const double *g, double *m, double *slow, double *v, int64_t n, const struct factors *f)
{
    for (int64_t i = 0; i < n; i++) {
        double grad = f->coef * g[i];
        m[i] = f->beta1 * m[i] + (1 - f->beta1) * grad;
        slow[i] = f->beta3 * slow[i] + (1 - f->beta3) * grad;
        v[i] = f->beta2 * v[i] + (1 - f->beta2) * grad * grad;
        p[i] -= f->lr * f->weight_decay * p[i];
        p[i] -= f->lr * (m[i] / f->c1 + f->alpha * slow[i]) / (sqrt(v[i]) / f->c2 + f->eps);
    }
}

void ref_ademamix(const struct args_ademamix *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data;
    struct factors f = FACTORS(a);
    if (f.coef < 0)
        return;
    update(a->p.data, a->g.data, a->m.data, a->slow.data, a->v.data, tensor_elements(&a->p), &f);
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, tensor_elements(&a->p), a->p.data);
    update_round(step, a->noise, ROUND_STATE1, a->p.first, tensor_elements(&a->p), a->m.data);
    update_round(step, a->noise, ROUND_STATE2, a->p.first, tensor_elements(&a->p), a->slow.data);
    update_round(step, a->noise, ROUND_STATE3, a->p.first, tensor_elements(&a->p), a->v.data);
    update_write_copy(&a->copy, &a->p);
}

void ref_ademamix8bit(const struct args_ademamix8bit *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data;
    struct factors f = FACTORS(a);
    struct codes m_codes, slow_codes, v_codes;
    if (f.coef < 0)
        return;
    codes_open(&m_codes, &a->m, &a->absmax_m, true);
    codes_open(&slow_codes, &a->slow, &a->absmax_slow, true);
    codes_open(&v_codes, &a->v, &a->absmax_v, false);
    for (int64_t from = 0, all = tensor_elements(&a->p); from < all; from += MAP_BLOCK) {
        int64_t n = all - from < MAP_BLOCK ? all - from : MAP_BLOCK;
        double m[MAP_BLOCK], slow[MAP_BLOCK], v[MAP_BLOCK];
        codes_read(&m_codes, from, n, m);
        codes_read(&slow_codes, from, n, slow);
        codes_read(&v_codes, from, n, v);
        update((double *)a->p.data + from, (const double *)a->g.data + from, m, slow, v, n, &f);
        codes_write(&m_codes, from, n, m);
        codes_write(&slow_codes, from, n, slow);
        codes_write(&v_codes, from, n, v);
    }
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, tensor_elements(&a->p), a->p.data);
    update_write_copy(&a->copy, &a->p);
}
