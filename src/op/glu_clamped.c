/* The gated linear unit of gpt-oss (OpenAI, arXiv 2508.10925), behind the product that makes gate and up by turns:
 *     g = min(gate, limit) ;  u = min(max(up, -limit), limit) ;  y = (u + 1) g sigmoid(alpha g)
 *     x (N,2F) holds for each row gate 0, up 0, gate 1, up 1, …; y (N,F)
 * Backward, with s = sigmoid(alpha g):
 *     dgate = dy (u + 1) s (1 + alpha g (1 - s)), 0 where gate > limit ;  dup = dy g s, 0 where |up| > limit */
#include "graph/graph.h"

#include <math.h>

static bool pairs_fit(struct graph *g, int x, double limit, const char *op)
{
    const struct value *v = graph_value(g, x);
    return shape_require(g, v->ndim == 2 && dim_is_constant(v->shape[1]) && v->shape[1].c % 2 == 0, op,
                         "x must be (N,2F)") &&
           shape_require(g, limit > 0, op, "limit must be above 0");
}

void shape_glu_clamped(struct graph *g, struct op_glu_clamped *n)
{
    if (!pairs_fit(g, n->x, n->limit, "glu_clamped"))
        return;
    const struct value *x = graph_value(g, n->x);
    n->y = shape_out(g, SHAPE(x->shape[0], DIM(x->shape[1].c / 2)));
}

void shape_glu_clamped_bwd(struct graph *g, struct op_glu_clamped_bwd *n)
{
    const char *op = "glu_clamped_bwd";
    if (!pairs_fit(g, n->x, n->limit, op) || (n->dx && !shape_same(g, n->x, n->dx, op)))
        return;
    const struct value *x = graph_value(g, n->x), *dy = graph_value(g, n->dy);
    shape_require(
        g, dy->ndim == 2 && dim_equal(dy->shape[0], x->shape[0]) && dim_equal(dy->shape[1], DIM(x->shape[1].c / 2)), op,
        "x must be (N,2F), dy (N,F)");
}

void grad_glu_clamped(struct grads *d, const struct op_glu_clamped *n)
{
    struct op_glu_clamped_bwd b = {
        .x = n->x, .dy = grad_of(d, n->y), .dx = grad_target(d, n->x), .alpha = n->alpha, .limit = n->limit};
    emit_glu_clamped_bwd(d->g, &b);
}

double flops_glu_clamped(const struct args_glu_clamped *a)
{
    return 12.0 * (double)a->y.shape[0] * (double)a->y.shape[1];
}

double flops_glu_clamped_bwd(const struct args_glu_clamped_bwd *a)
{
    return 20.0 * (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

/* What a limit leaves; NaN stays. */
static double clamped(double x, double low, double high)
{
    return x > high ? high : x < low ? low : x;
}

void ref_glu_clamped(const struct args_glu_clamped *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data;
    for (int64_t i = 0; i < tensor_elements(&a->y); i++) {
        double g = clamped(x[2 * i], -INFINITY, a->limit), u = clamped(x[2 * i + 1], -a->limit, a->limit);
        ((double *)a->y.data)[i] = (u + 1) * g / (1 + exp(-a->alpha * g));
    }
}

void ref_glu_clamped_bwd(const struct args_glu_clamped_bwd *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data, *dy = a->dy.data;
    double *dx = a->dx.data;
    for (int64_t i = 0; dx && i < tensor_elements(&a->dy); i++) {
        double gate = x[2 * i], up = x[2 * i + 1];
        double g = clamped(gate, -INFINITY, a->limit), u = clamped(up, -a->limit, a->limit);
        double s = 1 / (1 + exp(-a->alpha * g));
        double dgate = gate > a->limit ? 0 : dy[i] * (u + 1) * s * (1 + a->alpha * g * (1 - s));
        double dup = fabs(up) > a->limit ? 0 : dy[i] * g * s;
        dx[2 * i] = (a->dx.add ? dx[2 * i] : 0) + dgate;
        dx[2 * i + 1] = (a->dx.add ? dx[2 * i + 1] : 0) + dup;
    }
}
