/* DoRA (Liu et al., arXiv 2402.09353), an adapter that gives each row of a weight a length of its own:
 *     norm[o] = |w[o,:] + s sum_k b[o,k] a[k,:]|                         w (O,I) or (I,O) when in_out, a (r,I), b (O,r)
 *     u[n,o] = z[n,o] m[o] / norm[o] + bias[o] ;  y = act(u) ;  slope = act'(u)
 * where z (N,O) is the layer with its adapter, without its bias. The norm is a constant going back, as PEFT has it:
 *     dz = dy m / norm ;  dm[o] = sum_n dy z / norm ;  dbias[o] = sum_n dy
 * A row whose norm is 0 counts as 0, not as 0/0. */
#include "graph/graph.h"
#include "op/act.h"

#include <math.h>

void shape_dora_norm(struct graph *g, struct op_dora_norm *n)
{
    const struct value *w = graph_value(g, n->w), *a = graph_value(g, n->a), *b = graph_value(g, n->b);
    int out = n->in_out ? 1 : 0;
    if (shape_require(g,
                      w->ndim == 2 && a->ndim == 2 && b->ndim == 2 && dim_equal(a->shape[1], w->shape[1 - out]) &&
                          dim_equal(b->shape[0], w->shape[out]) && dim_equal(a->shape[0], b->shape[1]),
                      "dora_norm", "w must be (O,I), a (r,I), b (O,r)"))
        n->norm = shape_stat(g, SHAPE(w->shape[out]));
}

/* Whether `id`, which may be absent, has an entry for each column of z. */
static bool is_of_columns(const struct graph *g, int id, int z)
{
    const struct value *v = graph_value(g, id);
    return !id || (v->ndim == 1 && dim_equal(v->shape[0], graph_value(g, z)->shape[1]));
}

void shape_dora(struct graph *g, struct op_dora *n)
{
    const struct value *z = graph_value(g, n->z);
    if (!shape_require(g,
                       z->ndim == 2 && is_of_columns(g, n->m, n->z) && is_of_columns(g, n->norm, n->z) &&
                           is_of_columns(g, n->bias, n->z),
                       "dora", "z must be (N,O), m, norm and bias (O)"))
        return;
    struct dim N = z->shape[0], O = z->shape[1];
    n->y = shape_out(g, SHAPE(N, O));
    if (n->act)
        n->slope = shape_out(g, SHAPE(N, O));
}

void shape_dora_bwd(struct graph *g, struct op_dora_bwd *n)
{
    const struct value *z = graph_value(g, n->z);
    if (shape_same(g, n->z, n->dy, "dora_bwd") && (!n->dz || shape_same(g, n->z, n->dz, "dora_bwd")))
        shape_require(g,
                      z->ndim == 2 && is_of_columns(g, n->m, n->z) && is_of_columns(g, n->norm, n->z) &&
                          is_of_columns(g, n->dm, n->z) && is_of_columns(g, n->dbias, n->z),
                      "dora_bwd", "z must be (N,O), m, norm, dm and dbias (O)");
}

void grad_dora(struct grads *d, const struct op_dora *n)
{
    int dy = grad_of(d, n->y);
    if (n->act) {
        struct op_act_bwd a = {.slope = n->slope, .dy = dy};
        emit_act_bwd(d->g, &a);
        dy = a.du;
    }
    struct op_dora_bwd b = {.dy = dy,
                            .z = n->z,
                            .m = n->m,
                            .norm = n->norm,
                            .dz = grad_target(d, n->z),
                            .dm = grad_target(d, n->m),
                            .dbias = grad_target(d, n->bias)};
    emit_dora_bwd(d->g, &b);
}

double flops_dora_norm(const struct args_dora_norm *a)
{
    return 2.0 * ((double)a->a.shape[0] + 1) * (double)a->w.shape[0] * (double)a->w.shape[1];
}

double flops_dora(const struct args_dora *a)
{
    return 2.0 * (double)a->z.shape[0] * (double)a->z.shape[1];
}

double flops_dora_bwd(const struct args_dora_bwd *a)
{
    return 3.0 * (double)a->z.shape[0] * (double)a->z.shape[1];
}

void ref_dora_norm(const struct args_dora_norm *args, const struct call *c)
{
    (void)c;
    const double *w = args->w.data, *a = args->a.data, *b = args->b.data;
    int64_t r = args->a.shape[0], I = args->a.shape[1], O = args->b.shape[0];
    for (int64_t o = 0; o < O; o++) {
        double squares = 0;
        for (int64_t i = 0; i < I; i++) {
            double x = args->in_out ? w[i * O + o] : w[o * I + i];
            for (int64_t k = 0; k < r; k++)
                x += args->scale * b[o * r + k] * a[k * I + i];
            squares += x * x;
        }
        ((double *)args->norm.data)[o] = sqrt(squares);
    }
}

static double one_over(double norm)
{
    return norm > 0 ? 1 / norm : 0;
}

void ref_dora(const struct args_dora *a, const struct call *c)
{
    (void)c;
    const double *z = a->z.data, *m = a->m.data, *norm = a->norm.data, *bias = a->bias.data;
    double *y = a->y.data, *slope = a->slope.data;
    int64_t N = a->z.shape[0], O = a->z.shape[1], pitch = tensor_pitch(&a->y);
    for (int64_t n = 0; n < N; n++)
        for (int64_t o = 0; o < O; o++) {
            double u = z[n * O + o] * m[o] * one_over(norm[o]) + (bias ? bias[o] : 0);
            y[n * pitch + o] = act_value((enum act)a->act, u);
            if (slope)
                slope[n * O + o] = act_slope((enum act)a->act, u);
        }
}

void ref_dora_bwd(const struct args_dora_bwd *a, const struct call *c)
{
    (void)c;
    const double *dy = a->dy.data, *z = a->z.data, *m = a->m.data, *norm = a->norm.data;
    double *dz = a->dz.data, *dm = a->dm.data, *dbias = a->dbias.data;
    int64_t N = a->z.shape[0], O = a->z.shape[1], pitch = tensor_pitch(&a->dy);
    for (int64_t o = 0; o < O; o++) {
        double sum_m = a->dm.add ? dm[o] : 0, sum_bias = a->dbias.add ? dbias[o] : 0;
        for (int64_t n = 0; n < N; n++) {
            double g = dy[n * pitch + o];
            sum_m += g * z[n * O + o] * one_over(norm[o]);
            sum_bias += g;
            if (dz)
                dz[n * O + o] = (a->dz.add ? dz[n * O + o] : 0) + g * m[o] * one_over(norm[o]);
        }
        if (dm)
            dm[o] = sum_m;
        if (dbias)
            dbias[o] = sum_bias;
    }
}
