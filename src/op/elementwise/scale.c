/* Every element times a constant: y[n,h] = x[n,h] by. x (N,H). Its gradient is itself: dx = dy by. An adapter's few columns are
 * scaled so (pass/adapt.c). */
#include "graph/graph.h"

void shape_scale(struct graph *g, struct op_scale *n)
{
    const struct value *x = graph_value(g, n->x);
    if (shape_require(g, x->ndim == 2, "scale", "x must be (N,H)"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void grad_scale(struct grads *d, const struct op_scale *n)
{
    struct op_scale dx = {.x = grad_of(d, n->y), .by = n->by};
    emit_scale(d->g, &dx);
    grad_set(d, n->x, dx.y);
}

double flops_scale(const struct args_scale *a)
{
    return (double)a->x.shape[0] * (double)a->x.shape[1];
}

void ref_scale(const struct args_scale *a, const struct call *c)
{
    (void)c;
    for (int64_t i = 0; i < tensor_elements(&a->x); i++)
        ((double *)a->y.data)[i] = ((const double *)a->x.data)[i] * a->by;
}
