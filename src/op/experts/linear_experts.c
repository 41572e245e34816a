/* Linear layers without a bias of E experts, each on its own rows n of x, those from offsets[e] to offsets[e+1]-1:
 *     y[n,o] = sum_i x[n,i] w[e,o,i]
 *     dx[n,i] = sum_o dy[n,o] w[e,o,i] ;  dw[e,o,i] = sum_n dy[n,o] x[n,i], 0 for an expert without rows
 * x (N,I), w (E,O,I), y (N,O), offsets (E+1) I32 from 0 to N. Products of 16-bit operands are summed in F32. */
#include "graph/graph.h"

static bool fits(struct graph *g, int rows, int other, int weight, int offsets, bool in_first, const char *op)
{
    const struct value *x = graph_value(g, rows), *y = graph_value(g, other), *w = graph_value(g, weight);
    const struct value *at = graph_value(g, offsets);
    return shape_require(g,
                         x->ndim == 2 && w->ndim == 3 && dim_equal(x->shape[1], w->shape[in_first ? 2 : 1]) &&
                             (!other || (y->ndim == 2 && dim_equal(y->shape[0], x->shape[0]) &&
                                         dim_equal(y->shape[1], w->shape[in_first ? 1 : 2]))) &&
                             at->ndim == 1 && at->dtype == DT_I32 &&
                             dim_equal(at->shape[0], dim_plus(w->shape[0], 1, DIM(1))),
                         op, "x must be (N,I), y (N,O), w (E,O,I), offsets (E+1) I32");
}

void shape_linear_experts(struct graph *g, struct op_linear_experts *n)
{
    if (fits(g, n->x, 0, n->w, n->offsets, true, "linear_experts"))
        n->y = shape_out(g, SHAPE(graph_value(g, n->x)->shape[0], graph_value(g, n->w)->shape[1]));
}

void shape_linear_experts_dx(struct graph *g, struct op_linear_experts_dx *n)
{
    fits(g, n->dy, n->dx, n->w, n->offsets, false, "linear_experts_dx");
}

void shape_linear_experts_dw(struct graph *g, struct op_linear_experts_dw *n)
{
    if (n->dw)
        fits(g, n->x, n->dy, n->dw, n->offsets, true, "linear_experts_dw");
}

void grad_linear_experts(struct grads *d, const struct op_linear_experts *n)
{
    int dy = grad_of(d, n->y);
    /* dw first: x may die there, before dx needs room. */
    struct op_linear_experts_dw w = {.dy = dy, .x = n->x, .offsets = n->offsets, .dw = grad_target(d, n->w)};
    if (w.dw)
        emit_linear_experts_dw(d->g, &w);
    struct op_linear_experts_dx x = {.dy = dy, .w = n->w, .offsets = n->offsets, .dx = grad_target(d, n->x)};
    if (x.dx)
        emit_linear_experts_dx(d->g, &x);
}

double flops_linear_experts(const struct args_linear_experts *a)
{
    return 2.0 * (double)a->x.shape[0] * (double)a->w.shape[1] * (double)a->w.shape[2];
}

double flops_linear_experts_dx(const struct args_linear_experts_dx *a)
{
    return 2.0 * (double)a->dy.shape[0] * (double)a->w.shape[1] * (double)a->w.shape[2];
}

double flops_linear_experts_dw(const struct args_linear_experts_dw *a)
{
    return 2.0 * (double)a->x.shape[0] * (double)a->x.shape[1] * (double)a->dy.shape[1];
}

void ref_linear_experts(const struct args_linear_experts *a, const struct call *c)
{
    (void)c;
    const int32_t *offsets = a->offsets.data;
    const double *x = a->x.data, *w = a->w.data;
    int64_t E = a->w.shape[0], O = a->w.shape[1], I = a->w.shape[2];
    for (int64_t e = 0; e < E; e++)
        for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
            for (int64_t o = 0; o < O; o++) {
                double sum = 0;
                for (int64_t i = 0; i < I; i++)
                    sum += x[n * I + i] * w[(e * O + o) * I + i];
                ((double *)a->y.data)[n * O + o] = sum;
            }
}

void ref_linear_experts_dx(const struct args_linear_experts_dx *a, const struct call *c)
{
    (void)c;
    const int32_t *offsets = a->offsets.data;
    const double *dy = a->dy.data, *w = a->w.data;
    double *dx = a->dx.data;
    int64_t E = a->w.shape[0], O = a->w.shape[1], I = a->w.shape[2];
    for (int64_t e = 0; dx && e < E; e++)
        for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
            for (int64_t i = 0; i < I; i++) {
                double sum = a->dx.add ? dx[n * I + i] : 0;
                for (int64_t o = 0; o < O; o++)
                    sum += dy[n * O + o] * w[(e * O + o) * I + i];
                dx[n * I + i] = sum;
            }
}

void ref_linear_experts_dw(const struct args_linear_experts_dw *a, const struct call *c)
{
    (void)c;
    const int32_t *offsets = a->offsets.data;
    const double *dy = a->dy.data, *x = a->x.data;
    double *dw = a->dw.data;
    int64_t E = a->offsets.shape[0] - 1, O = a->dy.shape[1], I = a->x.shape[1];
    for (int64_t e = 0; dw && e < E; e++)
        for (int64_t o = 0; o < O; o++)
            for (int64_t i = 0; i < I; i++) {
                double *to = &dw[(e * O + o) * I + i], sum = a->dw.add ? *to : 0;
                for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
                    sum += dy[n * O + o] * x[n * I + i];
                *to = sum;
            }
}
