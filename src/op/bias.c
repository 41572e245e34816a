/* A bias of a matrix's columns, where none of a product stands (op/linear.c):
 *     y[n,o] = x[n,o] + b[o]                         x and y (N,O), b (O)
 * Backward: dx = dy ; db[o] = sum_n dy[n,o], as linear_dw has it. */
#include "graph/graph.h"

void shape_bias(struct graph *g, struct op_bias *n)
{
    const struct value *x = graph_value(g, n->x), *b = graph_value(g, n->b);
    if (shape_require(g, x->ndim == 2 && b->ndim == 1 && dim_equal(x->shape[1], b->shape[0]), "bias",
                      "x must be (N,O), b (O)"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void grad_bias(struct grads *d, const struct op_bias *n)
{
    int dy = grad_of(d, n->y);
    struct op_linear_dw b = {.dy = dy, .x = n->y, .db = grad_target(d, n->b)}; /* without dW x is not read */
    if (b.db)
        emit_linear_dw(d->g, &b);
    grad_set(d, n->x, dy);
}

double flops_bias(const struct args_bias *a)
{
    return (double)tensor_elements(&a->x);
}

void ref_bias(const struct args_bias *a, const struct call *c)
{
    (void)c;
    int64_t O = a->b.shape[0];
    for (int64_t i = 0; i < tensor_elements(&a->x); i++)
        ((double *)a->y.data)[i] = ((const double *)a->x.data)[i] + ((const double *)a->b.data)[i % O];
}
