/* A factor for each row, as the expert that all tokens share has it:
 *     y[n] = s x[n] with s = sigmoid(logits[n,0])                 x (N,H), logits (N,1)
 * Backward:
 *     dx[n] = s dy[n] ;  dlogits[n,0] = s (1 - s) times the dot product of dy[n] and x[n] */
#include "graph/graph.h"

#include <math.h>

static bool fits(struct graph *g, int rows, int of_rows, const char *op)
{
    const struct value *x = graph_value(g, rows), *logits = graph_value(g, of_rows);
    return shape_require(g,
                         x->ndim == 2 && logits->ndim == 2 && dim_equal(logits->shape[0], x->shape[0]) &&
                             dim_is_constant(logits->shape[1]) && logits->shape[1].c == 1,
                         op, "x must be (N,H), logits (N,1)");
}

void shape_gate_rows(struct graph *g, struct op_gate_rows *n)
{
    const struct value *x = graph_value(g, n->x);
    if (fits(g, n->x, n->logits, "gate_rows"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void shape_gate_rows_bwd(struct graph *g, struct op_gate_rows_bwd *n)
{
    if (!fits(g, n->x, n->logits, "gate_rows_bwd"))
        return;
    shape_same(g, n->x, n->dy, "gate_rows_bwd");
    if (n->dx)
        shape_same(g, n->x, n->dx, "gate_rows_bwd");
    if (n->dlogits)
        shape_same(g, n->logits, n->dlogits, "gate_rows_bwd");
}

void grad_gate_rows(struct grads *d, const struct op_gate_rows *n)
{
    struct op_gate_rows_bwd b = {.dy = grad_of(d, n->y),
                                 .x = n->x,
                                 .logits = n->logits,
                                 .dx = grad_target(d, n->x),
                                 .dlogits = grad_target(d, n->logits)};
    if (b.dx || b.dlogits)
        emit_gate_rows_bwd(d->g, &b);
}

double flops_gate_rows(const struct args_gate_rows *a)
{
    return (double)tensor_elements(&a->x);
}

double flops_gate_rows_bwd(const struct args_gate_rows_bwd *a)
{
    return 3.0 * (double)tensor_elements(&a->x);
}

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

void ref_gate_rows(const struct args_gate_rows *a, const struct call *c)
{
    (void)c;
    int64_t H = a->x.shape[1];
    for (int64_t n = 0; n < a->x.shape[0]; n++)
        for (int64_t h = 0; h < H; h++)
            ((double *)a->y.data)[n * H + h] =
                sigmoid(((const double *)a->logits.data)[n]) * ((const double *)a->x.data)[n * H + h];
}

void ref_gate_rows_bwd(const struct args_gate_rows_bwd *a, const struct call *c)
{
    (void)c;
    const double *dy = a->dy.data, *x = a->x.data, *logits = a->logits.data;
    double *dx = a->dx.data, *dlogits = a->dlogits.data;
    int64_t H = a->x.shape[1];
    for (int64_t n = 0; n < a->x.shape[0]; n++) {
        double s = sigmoid(logits[n]), dot = 0;
        for (int64_t i = n * H; i < (n + 1) * H; i++) {
            dot += dy[i] * x[i];
            if (dx)
                dx[i] = (a->dx.add ? dx[i] : 0) + s * dy[i];
        }
        if (dlogits)
            dlogits[n] = (a->dlogits.add ? dlogits[n] : 0) + s * sigmoid(-logits[n]) * dot;
    }
}
