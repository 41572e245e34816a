/* Residual and root-mean-square normalisation in one (Zhang and Sennrich, arXiv 1910.07467):
 *     h = res + x                      x, res, h, y (N,H); res may be absent; rstd and y are of h as it is stored
 *     rstd[n] = 1/sqrt(1/H sum h^2 + eps)
 *     y = h rstd s                     s = gamma, or 1 + gamma with one_plus (Gemma)
 * Backward, with z = h rstd and g = dy s:
 *     dh' = dh + rstd (g - z mean_H(g z)) ;  dres = dx = dh' ;  dgamma = sum_n dy z */
#include "graph/graph.h"

#include <math.h>

void shape_rms_norm(struct graph *g, struct op_rms_norm *n)
{
    const struct value *x = graph_value(g, n->x), *gamma = graph_value(g, n->gamma);
    if (!shape_require(g, x->ndim == 2 && gamma->ndim == 1 && dim_equal(gamma->shape[0], x->shape[1]), "rms_norm",
                       "x must be (N,H), gamma (H)") ||
        (n->res && !shape_same(g, n->x, n->res, "rms_norm")))
        return;
    struct dim N = x->shape[0], H = x->shape[1];
    n->y = shape_out(g, SHAPE(N, H));
    if (n->res)
        n->h = shape_out(g, SHAPE(N, H));
    n->rstd = shape_stat(g, SHAPE(N));
}

void shape_rms_norm_bwd(struct graph *g, struct op_rms_norm_bwd *n)
{
    const struct value *rstd = graph_value(g, n->rstd), *h = graph_value(g, n->h);
    if (shape_same(g, n->dy, n->h, "rms_norm_bwd") && (!n->dh || shape_same(g, n->dh, n->h, "rms_norm_bwd")) &&
        (!n->dx || shape_same(g, n->dx, n->h, "rms_norm_bwd")) &&
        (!n->dres || shape_same(g, n->dres, n->h, "rms_norm_bwd")) &&
        (!n->dgamma || shape_same(g, n->dgamma, n->gamma, "rms_norm_bwd")))
        shape_require(g, rstd->ndim == 1 && dim_equal(rstd->shape[0], h->shape[0]), "rms_norm_bwd",
                      "h must be (N,H), rstd (N)");
}

void grad_rms_norm(struct grads *d, const struct op_rms_norm *n)
{
    struct op_rms_norm_bwd b = {.dy = grad_of(d, n->y),
                                .dh = n->h ? grad_of(d, n->h) : 0,
                                .h = n->h ? n->h : n->x,
                                .gamma = n->gamma,
                                .rstd = n->rstd,
                                .dx = grad_target(d, n->x),
                                .dres = grad_target(d, n->res),
                                .dgamma = grad_target(d, n->gamma),
                                .one_plus = n->one_plus};
    emit_rms_norm_bwd(d->g, &b);
}

double flops_rms_norm(const struct args_rms_norm *a)
{
    return 5.0 * (double)a->x.shape[0] * (double)a->x.shape[1];
}

double flops_rms_norm_bwd(const struct args_rms_norm_bwd *a)
{
    return 10.0 * (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

void ref_rms_norm(const struct args_rms_norm *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data, *res = a->res.data, *gamma = a->gamma.data;
    double *y = a->y.data, *hs = a->h.data, one = a->one_plus ? 1 : 0;
    int64_t N = a->x.shape[0], H = a->x.shape[1];
    for (int64_t n = 0; n < N; n++) {
        double squares = 0;
        for (int64_t i = n * H; i < (n + 1) * H; i++) { /* y holds h until rstd is known */
            y[i] = (res ? res[i] : 0) + x[i];
            if (hs)
                hs[i] = y[i];
            squares += y[i] * y[i];
        }
        double rstd = 1 / sqrt(squares / (double)H + a->eps);
        for (int64_t h = 0; h < H; h++)
            y[n * H + h] *= rstd * (one + gamma[h]);
        ((double *)a->rstd.data)[n] = rstd;
    }
}

void ref_rms_norm_bwd(const struct args_rms_norm_bwd *a, const struct call *c)
{
    (void)c;
    const double *dy = a->dy.data, *dh = a->dh.data, *hs = a->h.data, *gamma = a->gamma.data;
    double *dx = a->dx.data, *dres = a->dres.data, *dgamma = a->dgamma.data, one = a->one_plus ? 1 : 0;
    int64_t N = a->dy.shape[0], H = a->dy.shape[1];
    for (int64_t h = 0; dgamma && !a->dgamma.add && h < H; h++)
        dgamma[h] = 0;
    for (int64_t n = 0; n < N; n++) {
        double rstd = ((const double *)a->rstd.data)[n], mean_gz = 0;
        for (int64_t h = 0; h < H; h++)
            mean_gz += dy[n * H + h] * (one + gamma[h]) * hs[n * H + h] * rstd / (double)H;
        for (int64_t h = 0; h < H; h++) {
            int64_t i = n * H + h;
            double z = hs[i] * rstd, grad = (dh ? dh[i] : 0) + rstd * (dy[i] * (one + gamma[h]) - z * mean_gz);
            if (dres)
                dres[i] = (a->dres.add ? dres[i] : 0) + grad;
            if (dx)
                dx[i] = (a->dx.add ? dx[i] : 0) + grad;
            if (dgamma)
                dgamma[h] += dy[i] * z;
        }
    }
}
