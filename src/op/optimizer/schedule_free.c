/* Schedule-free AdamW and SGD (Defazio et al., arXiv 2405.15682), as the package schedulefree has them; t, lr, coef and copy as in
 * optimizer.c. A sequence z makes the steps, the weight x is its average, and gradients are taken at y between the two. x is what is
 * stored, evaluated and saved; beside it lies d = z - x, which begins at 0.
 *
 *     ahead                 y = x + (1-b1) d
 *     schedule_free_adamw   v = b2 v + (1-b2) g^2 ;  u = g / (sqrt(v / (1-b2^t)) + eps) + wd y
 *     schedule_free_sgd     u = g + wd y                                                           momentum is b1
 *     both                  e = d - lr u ;  x += c e ;  d = (1-c) e                                e is the new z - the old x
 *
 * lr, with its warm-up, and the average's share c of the step are scalars of the step (schedule/average.h). */
#include "graph/graph.h"
#include "op/optimizer/update.h"

#include <math.h>

void shape_ahead(struct graph *g, struct op_ahead *n)
{
    const struct value *p = graph_value(g, n->p);
    if (shape_same(g, n->p, n->d, "ahead"))
        n->y = shape_out(g, p->ndim, p->shape);
}

void shape_schedule_free_adamw(struct graph *g, struct op_schedule_free_adamw *n)
{
    const char *op = "schedule_free_adamw";
    if (shape_same(g, n->p, n->g, op) && shape_same(g, n->p, n->d, op) && shape_same(g, n->p, n->v, op) && n->copy)
        shape_same(g, n->p, n->copy, op);
}

void shape_schedule_free_sgd(struct graph *g, struct op_schedule_free_sgd *n)
{
    const char *op = "schedule_free_sgd";
    if (shape_same(g, n->p, n->g, op) && shape_same(g, n->p, n->d, op) && n->copy)
        shape_same(g, n->p, n->copy, op);
}

double flops_ahead(const struct args_ahead *a)
{
    return 2.0 * (double)tensor_elements(&a->p);
}

double flops_schedule_free_adamw(const struct args_schedule_free_adamw *a)
{
    return 17.0 * (double)tensor_elements(&a->p);
}

double flops_schedule_free_sgd(const struct args_schedule_free_sgd *a)
{
    return 9.0 * (double)tensor_elements(&a->p);
}

void ref_ahead(const struct args_ahead *a, const struct call *c)
{
    (void)c;
    const double *p = a->p.data, *d = a->d.data;
    for (int64_t i = 0; i < tensor_elements(&a->p); i++)
        ((double *)a->y.data)[i] = p[i] + a->by * d[i];
}

/* What all elements of a step share. */
struct factors {
    double lr, share, by, weight_decay;
};

static struct factors factors_of(const double *step, double beta1, double weight_decay)
{
    return (struct factors){step[STEP_LR], step[STEP_AVERAGE], 1 - beta1, weight_decay};
}

/* u without decay. */
static void move(double *p, double *d, double u, const struct factors *f)
{
    double e = *d - f->lr * (u + f->weight_decay * (*p + f->by * *d));
    *p += f->share * e;
    *d = (1 - f->share) * e;
}

void ref_schedule_free_adamw(const struct args_schedule_free_adamw *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data, coef = update_coefficient(&a->coef);
    double *p = a->p.data, *d = a->d.data, *v = a->v.data, correction = 1 - pow(a->beta2, step[STEP_UPDATE]);
    struct factors f = factors_of(step, a->beta1, a->weight_decay);
    int64_t n = tensor_elements(&a->p);
    if (coef < 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        double grad = coef * g[i];
        v[i] = a->beta2 * v[i] + (1 - a->beta2) * grad * grad;
        move(&p[i], &d[i], grad / (sqrt(v[i] / correction) + a->eps), &f);
    }
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, n, p);
    update_round(step, a->noise, ROUND_STATE1, a->p.first, n, d);
    update_round(step, a->noise, ROUND_STATE2, a->p.first, n, v);
    update_write_copy(&a->copy, &a->p);
}

void ref_schedule_free_sgd(const struct args_schedule_free_sgd *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data, coef = update_coefficient(&a->coef);
    double *p = a->p.data, *d = a->d.data;
    struct factors f = factors_of(step, a->momentum, a->weight_decay);
    int64_t n = tensor_elements(&a->p);
    if (coef < 0)
        return;
    for (int64_t i = 0; i < n; i++)
        move(&p[i], &d[i], coef * g[i], &f);
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, n, p);
    update_round(step, a->noise, ROUND_STATE1, a->p.first, n, d);
    update_write_copy(&a->copy, &a->p);
}
