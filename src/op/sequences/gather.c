/* One row of every sequence: y[b] = x[cu[b]], or x[cu[b+1] - 1] when `last`. x (T,H), y (B,H).
 * Backward: dx is 0 but for those rows. */
#include "graph/graph.h"

void shape_gather(struct graph *g, struct op_gather *n)
{
    const struct value *x = graph_value(g, n->x);
    if (shape_require(g, x->ndim == 2, "gather", "x must be (T,H)"))
        n->y = shape_out(g, SHAPE(DIM_B, x->shape[1]));
}

void shape_gather_bwd(struct graph *g, struct op_gather_bwd *n)
{
    const struct value *dy = graph_value(g, n->dy), *dx = graph_value(g, n->dx);
    shape_require(g, dy->ndim == 2 && (!n->dx || dim_equal(dx->shape[1], dy->shape[1])), "gather_bwd",
                  "dy must be (B,H), dx (T,H)");
}

void grad_gather(struct grads *d, const struct op_gather *n)
{
    struct op_gather_bwd b = {.dy = grad_of(d, n->y), .cu = n->cu, .dx = grad_target(d, n->x), .last = n->last};
    if (b.dx)
        emit_gather_bwd(d->g, &b);
}

double flops_gather(const struct args_gather *a)
{
    (void)a;
    return 0;
}

double flops_gather_bwd(const struct args_gather_bwd *a)
{
    return (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

void ref_gather(const struct args_gather *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    int64_t H = a->x.shape[1];
    for (int64_t b = 0; b < a->y.shape[0]; b++)
        for (int64_t h = 0; h < H; h++)
            ((double *)a->y.data)[b * H + h] = ((const double *)a->x.data)[(a->last ? cu[b + 1] - 1 : cu[b]) * H + h];
}

void ref_gather_bwd(const struct args_gather_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    double *dx = a->dx.data;
    int64_t H = a->dy.shape[1];
    if (!dx)
        return;
    for (int64_t i = 0; !a->dx.add && i < a->dx.shape[0] * H; i++)
        dx[i] = 0;
    for (int64_t b = 0; b < a->dy.shape[0]; b++)
        for (int64_t h = 0; h < H; h++)
            dx[(a->last ? cu[b + 1] - 1 : cu[b]) * H + h] += ((const double *)a->dy.data)[b * H + h];
}
