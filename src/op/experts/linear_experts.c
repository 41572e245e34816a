/* Linear layers without a bias of E experts, each on its own rows n of x, those from offsets[e] to offsets[e+1]-1:
 *     y[n,o] = sum_i x[n,i] w[e,o,i]
 *     dx[n,i] = sum_o dy[n,o] w[e,o,i] ;  dw[e,o,i] = sum_n dy[n,o] x[n,i], 0 for an expert without rows
 * With in_out files have w and dw as (E,I,O).
 * x (N,I), w (E,O,I), y (N,O), offsets (E+1) I32 from 0 to N. Products of 16-bit operands are summed in F32. */
#include "graph/graph.h"

/* Of w the dimension of the outputs, and that of the inputs. */
static int out_of(int64_t in_out)
{
    return in_out ? 2 : 1;
}

static int in_of(int64_t in_out)
{
    return in_out ? 1 : 2;
}

/* x_side and y_side: the dimensions of w that x and y have. */
static bool fits(struct graph *g, int rows, int other, int weight, int offsets, int x_side, int y_side, const char *op)
{
    const struct value *x = graph_value(g, rows), *y = graph_value(g, other), *w = graph_value(g, weight);
    const struct value *at = graph_value(g, offsets);
    return shape_require(g,
                         x->ndim == 2 && w->ndim == 3 && dim_equal(x->shape[1], w->shape[x_side]) &&
                             (!other || (y->ndim == 2 && dim_equal(y->shape[0], x->shape[0]) &&
                                         dim_equal(y->shape[1], w->shape[y_side]))) &&
                             at->ndim == 1 && at->dtype == DT_I32 &&
                             dim_equal(at->shape[0], dim_plus(w->shape[0], 1, DIM(1))),
                         op, "x must be (N,I), y (N,O), w (E,O,I), offsets (E+1) I32");
}

void shape_linear_experts(struct graph *g, struct op_linear_experts *n)
{
    int in = in_of(n->in_out), out = out_of(n->in_out);
    if (fits(g, n->x, 0, n->w, n->offsets, in, out, "linear_experts"))
        n->y = shape_out(g, SHAPE(graph_value(g, n->x)->shape[0], graph_value(g, n->w)->shape[out]));
}

void shape_linear_experts_dx(struct graph *g, struct op_linear_experts_dx *n)
{
    fits(g, n->dy, n->dx, n->w, n->offsets, out_of(n->in_out), in_of(n->in_out), "linear_experts_dx");
}

void shape_linear_experts_dw(struct graph *g, struct op_linear_experts_dw *n)
{
    if (n->dw)
        fits(g, n->x, n->dy, n->dw, n->offsets, in_of(n->in_out), out_of(n->in_out), "linear_experts_dw");
}

void grad_linear_experts(struct grads *d, const struct op_linear_experts *n)
{
    int dy = grad_of(d, n->y);
    /* dw first: x may die there, before dx needs room. */
    struct op_linear_experts_dw w = {
        .dy = dy, .x = n->x, .offsets = n->offsets, .dw = grad_target(d, n->w), .in_out = n->in_out};
    if (w.dw)
        emit_linear_experts_dw(d->g, &w);
    struct op_linear_experts_dx x = {
        .dy = dy, .w = n->w, .offsets = n->offsets, .dx = grad_target(d, n->x), .in_out = n->in_out};
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

/* Where w[e,o,i] is: o and i times these behind expert e. */
static void weight_strides(int64_t in_out, int64_t O, int64_t I, int64_t *o, int64_t *i)
{
    *o = in_out ? 1 : I;
    *i = in_out ? O : 1;
}

void ref_linear_experts(const struct args_linear_experts *a, const struct call *c)
{
    (void)c;
    const int32_t *offsets = a->offsets.data;
    const double *x = a->x.data, *w = a->w.data;
    int64_t E = a->w.shape[0], O = a->w.shape[out_of(a->in_out)], I = a->w.shape[in_of(a->in_out)], by_o, by_i;
    weight_strides(a->in_out, O, I, &by_o, &by_i);
    for (int64_t e = 0; e < E; e++)
        for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
            for (int64_t o = 0; o < O; o++) {
                double sum = 0;
                for (int64_t i = 0; i < I; i++)
                    sum += x[n * I + i] * w[e * O * I + o * by_o + i * by_i];
                ((double *)a->y.data)[n * O + o] = sum;
            }
}

void ref_linear_experts_dx(const struct args_linear_experts_dx *a, const struct call *c)
{
    (void)c;
    const int32_t *offsets = a->offsets.data;
    const double *dy = a->dy.data, *w = a->w.data;
    double *dx = a->dx.data;
    int64_t E = a->w.shape[0], O = a->w.shape[out_of(a->in_out)], I = a->w.shape[in_of(a->in_out)], by_o, by_i;
    weight_strides(a->in_out, O, I, &by_o, &by_i);
    for (int64_t e = 0; dx && e < E; e++)
        for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
            for (int64_t i = 0; i < I; i++) {
                double sum = a->dx.add ? dx[n * I + i] : 0;
                for (int64_t o = 0; o < O; o++)
                    sum += dy[n * O + o] * w[e * O * I + o * by_o + i * by_i];
                dx[n * I + i] = sum;
            }
}

void ref_linear_experts_dw(const struct args_linear_experts_dw *a, const struct call *c)
{
    (void)c;
    const int32_t *offsets = a->offsets.data;
    const double *dy = a->dy.data, *x = a->x.data;
    double *dw = a->dw.data;
    int64_t E = a->offsets.shape[0] - 1, O = a->dy.shape[1], I = a->x.shape[1], by_o, by_i;
    weight_strides(a->in_out, O, I, &by_o, &by_i);
    for (int64_t e = 0; dw && e < E; e++)
        for (int64_t o = 0; o < O; o++)
            for (int64_t i = 0; i < I; i++) {
                double *to = &dw[e * O * I + o * by_o + i * by_i], sum = a->dw.add ? *to : 0;
                for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
                    sum += dy[n * O + o] * x[n * I + i];
                *to = sum;
            }
}
