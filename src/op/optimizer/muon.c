/* Muon (Jordan et al., 2024; Liu et al., arXiv 2502.16982), as torch.optim.Muon: the step is the momentum of a matrix with its
 * singular values made nearly equal. lr, coef and copy as in optimizer.c. A few ops and the products of linear layers are a step;
 * pass/optimizers.c strings them together.
 *
 *     muon_momentum   buf = b buf + (1-b) g ;  u = (1-b) g + b buf           Nesterov; buf as it is stored
 *     unit            y = x / max(|x|, eps)                                  |x|^2 is the sum of the partials (sumsq)
 *     blend           y = s x + t z
 *     muon            p -= lr wd p ;  p -= lr factor o
 *
 * A negative coef (op/clip.h) leaves buf and p alone; u is then 0, so that what is made of it is finite. */
#include "graph/graph.h"
#include "op/optimizer/update.h"

#include <math.h>

void shape_muon_momentum(struct graph *g, struct op_muon_momentum *n)
{
    const struct value *buf = graph_value(g, n->buf);
    if (shape_require(g, buf->ndim == 2, "muon_momentum", "buf must be a matrix") &&
        shape_same(g, n->buf, n->g, "muon_momentum"))
        n->u = shape_out(g, SHAPE(buf->shape[0], buf->shape[1]));
}

void shape_unit(struct graph *g, struct op_unit *n)
{
    const struct value *x = graph_value(g, n->x), *partials = graph_value(g, n->partials);
    if (shape_require(g, x->ndim == 2, "unit", "x must be a matrix") &&
        shape_require(g, partials->ndim == 1 && partials->dtype == DT_F64, "unit", "partials must be (chunks) F64"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void shape_blend(struct graph *g, struct op_blend *n)
{
    const struct value *x = graph_value(g, n->x);
    if (shape_require(g, x->ndim == 2, "blend", "x must be a matrix") && shape_same(g, n->x, n->z, "blend"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void shape_muon(struct graph *g, struct op_muon *n)
{
    if (shape_same(g, n->p, n->o, "muon") && n->copy)
        shape_same(g, n->p, n->copy, "muon");
}

double flops_muon_momentum(const struct args_muon_momentum *a)
{
    return 6.0 * (double)tensor_elements(&a->buf);
}

double flops_unit(const struct args_unit *a)
{
    return (double)tensor_elements(&a->x);
}

double flops_blend(const struct args_blend *a)
{
    return 3.0 * (double)tensor_elements(&a->x);
}

double flops_muon(const struct args_muon *a)
{
    return 4.0 * (double)tensor_elements(&a->p);
}

void ref_muon_momentum(const struct args_muon_momentum *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data;
    double *buf = a->buf.data, *u = a->u.data, b = a->momentum, coef = update_coefficient(&a->coef);
    for (int64_t i = 0; i < tensor_elements(&a->buf); i++) {
        double grad = coef * g[i];
        if (coef >= 0)
            buf[i] = rounding_store(step, a->noise, ROUND_STATE1, i, b * buf[i] + (1 - b) * grad);
        u[i] = coef >= 0 ? (1 - b) * grad + b * buf[i] : 0;
    }
}

void ref_unit(const struct args_unit *a, const struct call *c)
{
    (void)c;
    double squares = 0;
    for (int64_t i = 0; i < tensor_elements(&a->partials); i++)
        squares += ((const double *)a->partials.data)[i];
    double norm = fmax(sqrt(squares), a->eps);
    for (int64_t i = 0; i < tensor_elements(&a->x); i++)
        ((double *)a->y.data)[i] = ((const double *)a->x.data)[i] / norm;
}

void ref_blend(const struct args_blend *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data, *z = a->z.data;
    for (int64_t i = 0; i < tensor_elements(&a->x); i++)
        ((double *)a->y.data)[i] = a->s * x[i] + a->t * z[i];
}

void ref_muon(const struct args_muon *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *o = a->o.data;
    double *p = a->p.data;
    if (update_coefficient(&a->coef) < 0)
        return;
    for (int64_t i = 0; i < tensor_elements(&a->p); i++) {
        double w = p[i] - step[STEP_LR] * a->weight_decay * p[i];
        p[i] = rounding_store(step, a->noise, ROUND_WEIGHT, i, w - step[STEP_LR] * a->factor * o[i]);
    }
    update_write_copy(&a->copy, &a->p);
}
