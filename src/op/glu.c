/* Gated linear units (Shazeer, arXiv 2002.05202), behind the product that makes gate and up side by side:
 *     y = act(gate) * up        x (N,2F) holds for each row the F elements of gate, then those of up; y (N,F)
 * Backward:
 *     dgate = dy * up * act'(gate) ;  dup = dy * act(gate) */
#include "graph/graph.h"
#include "op/act.h"

static bool halves_fit(struct graph *g, int x, const char *op)
{
    const struct value *v = graph_value(g, x);
    return shape_require(g, v->ndim == 2 && dim_is_constant(v->shape[1]) && v->shape[1].c % 2 == 0, op,
                         "x must be (N,2F)");
}

void shape_glu(struct graph *g, struct op_glu *n)
{
    if (!halves_fit(g, n->x, "glu"))
        return;
    const struct value *x = graph_value(g, n->x);
    n->y = shape_out(g, SHAPE(x->shape[0], DIM(x->shape[1].c / 2)));
}

void shape_glu_bwd(struct graph *g, struct op_glu_bwd *n)
{
    if (!halves_fit(g, n->x, "glu_bwd") || (n->dx && !shape_same(g, n->x, n->dx, "glu_bwd")))
        return;
    const struct value *x = graph_value(g, n->x), *dy = graph_value(g, n->dy);
    shape_require(
        g, dy->ndim == 2 && dim_equal(dy->shape[0], x->shape[0]) && dim_equal(dy->shape[1], DIM(x->shape[1].c / 2)),
        "glu_bwd", "x must be (N,2F), dy (N,F)");
}

void grad_glu(struct grads *d, const struct op_glu *n)
{
    struct op_glu_bwd b = {.x = n->x, .dy = grad_of(d, n->y), .dx = grad_target(d, n->x), .act = n->act};
    emit_glu_bwd(d->g, &b);
}

double flops_glu(const struct args_glu *a)
{
    return 10.0 * (double)a->y.shape[0] * (double)a->y.shape[1];
}

double flops_glu_bwd(const struct args_glu_bwd *a)
{
    return 15.0 * (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

void ref_glu(const struct args_glu *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data;
    double *y = a->y.data;
    int64_t N = a->y.shape[0], F = a->y.shape[1];
    for (int64_t n = 0; n < N; n++)
        for (int64_t f = 0; f < F; f++)
            y[n * F + f] = act_value((enum act)a->act, x[2 * n * F + f]) * x[(2 * n + 1) * F + f];
}

void ref_glu_bwd(const struct args_glu_bwd *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data, *dy = a->dy.data;
    double *dx = a->dx.data;
    int64_t N = a->dy.shape[0], F = a->dy.shape[1];
    for (int64_t n = 0; dx && n < N; n++)
        for (int64_t f = 0; f < F; f++) {
            int64_t gate = 2 * n * F + f, up = gate + F;
            double dgate = dy[n * F + f] * x[up] * act_slope((enum act)a->act, x[gate]);
            double dup = dy[n * F + f] * act_value((enum act)a->act, x[gate]);
            dx[gate] = (a->dx.add ? dx[gate] : 0) + dgate;
            dx[up] = (a->dx.add ? dx[up] : 0) + dup;
        }
}
