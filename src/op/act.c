/* Activations, elementwise:
 *     gelu       x (1 + erf(x/sqrt 2)) / 2                                Hendrycks and Gimpel, arXiv 1606.08415
 *     gelu_tanh  x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2          the same paper's approximation
 *     relu2      max(x, 0)^2                                              So et al., arXiv 2109.08668
 *     relu, tanh, silu x/(1 + exp(-x))
 * In op `activation` alone: y = act(x), slope = act'(x), all (N,F). Elsewhere behind a product (op/linear.c).
 * Going back, du = dy * slope, with slope = act'(u) (N,F) from the forward pass; dbias (F) = sum of du over the
 * rows, which is the gradient of a bias that was added to make u. */
#include "op/act.h"
#include "graph/graph.h"

#include <math.h>

static const double SQRT_2_OVER_PI = 0.79788456080286535588, CUBIC = 0.044715;

double act_value(enum act act, double x)
{
    switch (act) {
    case ACT_gelu:
        return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case ACT_gelu_tanh:
        return 0.5 * x * (1 + tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)));
    case ACT_relu:
        return x > 0 || isnan(x) ? x : 0;
    case ACT_relu2:
        return x > 0 || isnan(x) ? x * x : 0;
    case ACT_tanh:
        return tanh(x);
    case ACT_silu:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

double act_slope(enum act act, double x)
{
    double t;
    switch (act) {
    case ACT_gelu: /* the density of the standard normal is exp(-x^2/2)/sqrt(2 pi) */
        return 0.5 * (1 + erf(x * 0.70710678118654752440)) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
    case ACT_gelu_tanh:
        t = tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
    case ACT_relu:
        return x > 0;
    case ACT_relu2:
        return x > 0 || isnan(x) ? 2 * x : 0;
    case ACT_tanh:
        t = tanh(x);
        return 1 - t * t;
    case ACT_silu:
        t = 1 / (1 + exp(-x));
        return t * (1 + x * (1 - t));
    default:
        return 1;
    }
}

void shape_activation(struct graph *g, struct op_activation *n)
{
    const struct value *x = graph_value(g, n->x);
    if (!shape_require(g, x->ndim == 2 && n->act, "activation", "x must be (N,F), and act one of those that there are"))
        return;
    struct dim N = x->shape[0], F = x->shape[1];
    n->y = shape_out(g, SHAPE(N, F));
    n->slope = shape_out(g, SHAPE(N, F));
}

void shape_act_bwd(struct graph *g, struct op_act_bwd *n)
{
    struct value slope = *graph_value(g, n->slope); /* which moves when du is added */
    const struct value *dbias = graph_value(g, n->dbias);
    if (shape_same(g, n->slope, n->dy, "act_bwd") &&
        shape_require(g,
                      !n->dbias || (slope.ndim == 2 && dbias->ndim == 1 && dim_equal(dbias->shape[0], slope.shape[1])),
                      "act_bwd", "dbias must be (F)"))
        n->du = shape_out(g, slope.ndim, slope.shape);
}

void grad_activation(struct grads *d, const struct op_activation *n)
{
    struct op_act_bwd b = {.slope = n->slope, .dy = grad_of(d, n->y)};
    emit_act_bwd(d->g, &b);
    grad_set(d, n->x, b.du);
}

double flops_activation(const struct args_activation *a)
{
    return 20.0 * (double)a->x.shape[0] * (double)a->x.shape[1];
}

double flops_act_bwd(const struct args_act_bwd *a)
{
    return 2.0 * (double)a->slope.shape[0] * (double)a->slope.shape[1];
}

void ref_activation(const struct args_activation *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data;
    double *slope = a->slope.data;
    for (int64_t i = 0; i < tensor_elements(&a->x); i++) {
        ((double *)a->y.data)[i] = act_value((enum act)a->act, x[i]);
        if (slope)
            slope[i] = act_slope((enum act)a->act, x[i]);
    }
}

void ref_act_bwd(const struct args_act_bwd *a, const struct call *c)
{
    (void)c;
    const double *slope = a->slope.data, *dy = a->dy.data;
    double *du = a->du.data, *dbias = a->dbias.data;
    int64_t N = a->slope.shape[0], F = a->slope.shape[1];
    for (int64_t i = 0; i < N * F; i++)
        du[i] = dy[i] * slope[i];
    for (int64_t f = 0; dbias && f < F; f++) {
        double sum = a->dbias.add ? dbias[f] : 0;
        for (int64_t n = 0; n < N; n++)
            sum += du[n * F + f];
        dbias[f] = sum;
    }
}
