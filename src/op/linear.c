/* A linear layer with bias and activation, and its gradients:
 *     u[n,o] = sum_i x[n,i] w[o,i] + b[o] + add[n,o] ;  y = act(u) ;  slope = act'(u)
 *     dx[n,i] = sum_o dy[n,o] w[o,i] ;  dw[o,i] = sum_n dy[n,o] x[n,i] ;  db[o] = sum_n dy[n,o]
 * and linear_dx_act, what two layers have between them, where the first one's activation made the second one's x:
 *     du[n,i] = dx[n,i] slope[n,i] ;  dbias[i] = sum_n du[n,i]
 * x (N,I), w (O,I) or (I,O) when in_out, b (O) in F32 or, where the backend's narrow_bias says so, in y's type, y and slope (N,O):
 * add (N,O), such as what an adapter adds to the layer (pass/adapt.c). u itself is not kept. Products of 16-bit
 * operands are summed in F32; one that is added to a gradient of 16 bits may be rounded to them before that. */
#include "graph/graph.h"
#include "op/act.h"
#include "op/dx_act.h"

void shape_linear(struct graph *g, struct op_linear *n)
{
    const struct value *x = graph_value(g, n->x), *w = graph_value(g, n->w), *b = graph_value(g, n->b);
    int out = n->in_out ? 1 : 0;
    if (!shape_require(g, x->ndim == 2 && w->ndim == 2 && dim_equal(x->shape[1], w->shape[1 - out]), "linear",
                       "x must be (N,I) and w (O,I)") ||
        !shape_require(g, !n->b || (b->ndim == 1 && dim_equal(b->shape[0], w->shape[out])), "linear", "b must be (O)"))
        return;
    struct dim N = x->shape[0], O = w->shape[out];
    const struct value *add = graph_value(g, n->add);
    if (!shape_require(g, !n->add || (add->ndim == 2 && dim_equal(add->shape[0], N) && dim_equal(add->shape[1], O)),
                       "linear", "add must be (N,O)"))
        return;
    n->y = shape_out(g, SHAPE(N, O));
    if (n->act)
        n->slope = shape_out(g, SHAPE(N, O));
}

void shape_linear_dx(struct graph *g, struct op_linear_dx *n)
{
    const struct value *dy = graph_value(g, n->dy), *w = graph_value(g, n->w), *dx = graph_value(g, n->dx);
    int out = n->in_out ? 1 : 0;
    shape_require(g,
                  dy->ndim == 2 && w->ndim == 2 && dim_equal(dy->shape[1], w->shape[out]) && dx->ndim == 2 &&
                      dim_equal(dx->shape[0], dy->shape[0]) && dim_equal(dx->shape[1], w->shape[1 - out]),
                  "linear_dx", "dy must be (N,O), w (O,I), dx (N,I)");
}

void shape_linear_dw(struct graph *g, struct op_linear_dw *n)
{
    const struct value *dy = graph_value(g, n->dy), *x = graph_value(g, n->x), *dw = graph_value(g, n->dw);
    int out = n->in_out ? 1 : 0;
    shape_require(
        g,
        dy->ndim == 2 && x->ndim == 2 && dim_equal(dy->shape[0], x->shape[0]) &&
            (!n->dw || (dim_equal(dw->shape[out], dy->shape[1]) && dim_equal(dw->shape[1 - out], x->shape[1]))) &&
            (!n->db || dim_equal(graph_value(g, n->db)->shape[0], dy->shape[1])),
        "linear_dw", "dy must be (N,O), x (N,I), dw (O,I), db (O)");
}

void shape_linear_dx_act(struct graph *g, struct op_linear_dx_act *n)
{
    const struct value *dy = graph_value(g, n->dy), *w = graph_value(g, n->w);
    const struct value *slope = graph_value(g, n->slope), *dbias = graph_value(g, n->dbias);
    int out = n->in_out ? 1 : 0;
    if (shape_require(g,
                      dy->ndim == 2 && w->ndim == 2 && dim_equal(dy->shape[1], w->shape[out]) && slope->ndim == 2 &&
                          dim_equal(slope->shape[0], dy->shape[0]) && dim_equal(slope->shape[1], w->shape[1 - out]) &&
                          (!n->dbias || (dbias->ndim == 1 && dim_equal(dbias->shape[0], slope->shape[1]))),
                      "linear_dx_act", "dy must be (N,O), w (O,I), slope (N,I), dbias (I)"))
        n->du = shape_out(g, SHAPE(slope->shape[0], slope->shape[1]));
}

void grad_linear(struct grads *d, const struct op_linear *n)
{
    int dy = grad_of(d, n->y);
    if (n->act) {
        struct op_act_bwd a = {.slope = n->slope, .dy = dy};
        emit_act_bwd(d->g, &a);
        dy = a.du;
    }
    if (n->add && d->wanted[n->add])
        grad_set(d, n->add, dy);
    /* dw first: x may die there, before dx needs room. */
    struct op_linear_dw w = {
        .dy = dy, .x = n->x, .dw = grad_target(d, n->w), .db = grad_target(d, n->b), .in_out = n->in_out};
    if (w.dw || w.db)
        emit_linear_dw(d->g, &w);
    struct op_linear_dx x = {.dy = dy, .w = n->w, .dx = grad_target(d, n->x), .in_out = n->in_out};
    if (x.dx)
        emit_linear_dx(d->g, &x);
}

double flops_linear(const struct args_linear *a)
{
    return 2.0 * (double)a->x.shape[0] * (double)a->w.shape[0] * (double)a->w.shape[1];
}

double flops_linear_dx(const struct args_linear_dx *a)
{
    return 2.0 * (double)a->dy.shape[0] * (double)a->w.shape[0] * (double)a->w.shape[1];
}

double flops_linear_dw(const struct args_linear_dw *a)
{
    return 2.0 * (double)a->x.shape[0] * (double)a->x.shape[1] * (double)a->dy.shape[1];
}

double flops_linear_dx_act(const struct args_linear_dx_act *a)
{
    struct args_linear_dx dx = dx_act_product(a);
    struct args_act_bwd act = dx_act_slope(a);
    return flops_linear_dx(&dx) + flops_act_bwd(&act);
}

/* Strides of w for (o, i), whichever way it lies. */
static void weight_strides(const struct tensor *w, int64_t in_out, int64_t *o, int64_t *i)
{
    *o = in_out ? 1 : w->shape[1];
    *i = in_out ? w->shape[1] : 1;
}

void ref_linear(const struct args_linear *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data, *w = a->w.data, *b = a->b.data, *add = a->add.data;
    double *y = a->y.data, *slope = a->slope.data;
    int64_t N = a->x.shape[0], I = a->x.shape[1], O = a->y.shape[1], so, si;
    int64_t x_pitch = tensor_pitch(&a->x), y_pitch = tensor_pitch(&a->y);
    int64_t add_pitch = add ? tensor_pitch(&a->add) : 0;
    weight_strides(&a->w, a->in_out, &so, &si);
    for (int64_t n = 0; n < N; n++)
        for (int64_t o = 0; o < O; o++) {
            double sum = (b ? b[o] : 0) + (add ? add[n * add_pitch + o] : 0);
            for (int64_t i = 0; i < I; i++)
                sum += x[n * x_pitch + i] * w[o * so + i * si];
            y[n * y_pitch + o] = act_value((enum act)a->act, sum);
            if (slope)
                slope[n * O + o] = act_slope((enum act)a->act, sum);
        }
}

void ref_linear_dx(const struct args_linear_dx *a, const struct call *c)
{
    (void)c;
    const double *dy = a->dy.data, *w = a->w.data;
    double *dx = a->dx.data;
    int64_t N = a->dx.shape[0], I = a->dx.shape[1], O = a->dy.shape[1], so, si;
    int64_t dx_pitch = tensor_pitch(&a->dx), dy_pitch = tensor_pitch(&a->dy);
    weight_strides(&a->w, a->in_out, &so, &si);
    for (int64_t n = 0; n < N; n++)
        for (int64_t i = 0; i < I; i++) {
            double sum = a->dx.add ? dx[n * dx_pitch + i] : 0;
            for (int64_t o = 0; o < O; o++)
                sum += dy[n * dy_pitch + o] * w[o * so + i * si];
            dx[n * dx_pitch + i] = sum;
        }
}

void ref_linear_dw(const struct args_linear_dw *a, const struct call *c)
{
    (void)c;
    const double *dy = a->dy.data, *x = a->x.data;
    double *dw = a->dw.data, *db = a->db.data;
    int64_t N = a->x.shape[0], I = a->x.shape[1], O = a->dy.shape[1];
    int64_t x_pitch = tensor_pitch(&a->x), dy_pitch = tensor_pitch(&a->dy);
    for (int64_t o = 0; dw && o < O; o++)
        for (int64_t i = 0; i < I; i++) {
            double *to = a->in_out ? &dw[i * O + o] : &dw[o * I + i];
            double sum = a->dw.add ? *to : 0;
            for (int64_t n = 0; n < N; n++)
                sum += dy[n * dy_pitch + o] * x[n * x_pitch + i];
            *to = sum;
        }
    for (int64_t o = 0; db && o < O; o++) {
        double sum = a->db.add ? db[o] : 0;
        for (int64_t n = 0; n < N; n++)
            sum += dy[n * dy_pitch + o];
        db[o] = sum;
    }
}

void ref_linear_dx_act(const struct args_linear_dx_act *a, const struct call *c)
{
    struct args_linear_dx dx = dx_act_product(a);
    struct args_act_bwd act = dx_act_slope(a);
    ref_linear_dx(&dx, c);
    ref_act_bwd(&act, c);
}
