/* Scores kept between -cap and cap (Gemma Team, arXiv 2408.00118): y = cap tanh(x / cap). x, y (N,V). Going back,
 * dx = dy (1 - (y / cap)^2): x need not be kept. */
#include "graph/graph.h"

#include <math.h>

void shape_softcap(struct graph *g, struct op_softcap *n)
{
    const struct value *x = graph_value(g, n->x);
    if (shape_require(g, x->ndim == 2 && n->cap > 0, "softcap", "x must be (N,V), cap above 0"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void shape_softcap_bwd(struct graph *g, struct op_softcap_bwd *n)
{
    if (shape_same(g, n->y, n->dy, "softcap_bwd") && n->dx)
        shape_same(g, n->y, n->dx, "softcap_bwd");
}

void grad_softcap(struct grads *d, const struct op_softcap *n)
{
    struct op_softcap_bwd b = {.y = n->y, .dy = grad_of(d, n->y), .dx = grad_target(d, n->x), .cap = n->cap};
    emit_softcap_bwd(d->g, &b);
}

double flops_softcap(const struct args_softcap *a)
{
    return 10.0 * (double)a->x.shape[0] * (double)a->x.shape[1];
}

double flops_softcap_bwd(const struct args_softcap_bwd *a)
{
    return 4.0 * (double)a->y.shape[0] * (double)a->y.shape[1];
}

void ref_softcap(const struct args_softcap *a, const struct call *c)
{
    (void)c;
    for (int64_t i = 0; i < tensor_elements(&a->x); i++)
        ((double *)a->y.data)[i] = a->cap * tanh(((const double *)a->x.data)[i] / a->cap);
}

void ref_softcap_bwd(const struct args_softcap_bwd *a, const struct call *c)
{
    (void)c;
    const double *y = a->y.data, *dy = a->dy.data;
    double *dx = a->dx.data;
    for (int64_t i = 0; dx && i < tensor_elements(&a->y); i++) {
        double t = y[i] / a->cap;
        dx[i] = (a->dx.add ? dx[i] : 0) + dy[i] * (1 - t * t);
    }
}
