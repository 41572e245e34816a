/* The mean of each sequence's rows: y[b] = 1/n sum of x[cu[b]] … x[cu[b+1] - 1], n of them. x (T,H), y (B,H).
 * Backward: dx of each of these rows is dy[b] / n; it is 0 in rows that belong to no sequence. */
#include "graph/graph.h"

void shape_pool(struct graph *g, struct op_pool *n)
{
    const struct value *x = graph_value(g, n->x);
    if (shape_require(g, x->ndim == 2, "pool", "x must be (T,H)"))
        n->y = shape_out(g, SHAPE(DIM_B, x->shape[1]));
}

void shape_pool_bwd(struct graph *g, struct op_pool_bwd *n)
{
    const struct value *dy = graph_value(g, n->dy), *dx = graph_value(g, n->dx);
    shape_require(g, dy->ndim == 2 && (!n->dx || dim_equal(dx->shape[1], dy->shape[1])), "pool_bwd",
                  "dy must be (B,H), dx (T,H)");
}

void grad_pool(struct grads *d, const struct op_pool *n)
{
    struct op_pool_bwd b = {.dy = grad_of(d, n->y), .cu = n->cu, .dx = grad_target(d, n->x)};
    if (b.dx)
        emit_pool_bwd(d->g, &b);
}

double flops_pool(const struct args_pool *a)
{
    return (double)a->x.shape[0] * (double)a->x.shape[1];
}

double flops_pool_bwd(const struct args_pool_bwd *a)
{
    return (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

void ref_pool(const struct args_pool *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    const double *x = a->x.data;
    double *y = a->y.data;
    int64_t H = a->x.shape[1];
    for (int64_t b = 0; b < a->y.shape[0]; b++)
        for (int64_t h = 0; h < H; h++) {
            y[b * H + h] = 0;
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                y[b * H + h] += x[n * H + h] / (cu[b + 1] - cu[b]);
        }
}

void ref_pool_bwd(const struct args_pool_bwd *a, const struct call *c)
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
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            for (int64_t h = 0; h < H; h++)
                dx[n * H + h] += ((const double *)a->dy.data)[b * H + h] / (cu[b + 1] - cu[b]);
}
