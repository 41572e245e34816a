/* Residual, dropout and layer normalisation in one (Ba et al., arXiv 1607.06450):
 *     h = res + dropout(x)            x, res, h, y (N,H); either of res and dropout may be absent
 *     mean[n] = 1/H sum h ;  rstd[n] = 1/sqrt(1/H sum (h - mean)^2 + eps)      biased variance, two passes
 *     y = (h - mean) rstd s + beta                   s = gamma, or 1 + gamma with one_plus (Nemotron); beta may be absent
 * Backward, with z = (h - mean) rstd and g = dy s:
 *     dh' = dh + rstd (g - mean_H(g) - z mean_H(g z)) ;  dres = dh' ;  dx = dropout mask of dh'
 *     dgamma = sum_n dy z ;  dbeta = sum_n dy ;  dbias = sum_n dx, the gradient of a bias that was added to make x */
#include "graph/graph.h"
#include "op/mask.h"

#include <math.h>

void shape_norm(struct graph *g, struct op_norm *n)
{
    const struct value *x = graph_value(g, n->x), *gamma = graph_value(g, n->gamma);
    if (!shape_require(g, x->ndim == 2 && gamma->ndim == 1 && dim_equal(gamma->shape[0], x->shape[1]), "norm",
                       "x must be (N,H), gamma (H)") ||
        (n->res && !shape_same(g, n->x, n->res, "norm")) || (n->beta && !shape_same(g, n->gamma, n->beta, "norm")))
        return;
    struct dim N = x->shape[0], H = x->shape[1];
    n->y = shape_out(g, SHAPE(N, H));
    if (n->res || n->p > 0)
        n->h = shape_out(g, SHAPE(N, H));
    n->mean = shape_stat(g, SHAPE(N));
    n->rstd = shape_stat(g, SHAPE(N));
}

void shape_norm_bwd(struct graph *g, struct op_norm_bwd *n)
{
    if (shape_same(g, n->dy, n->h, "norm_bwd") && (!n->dh || shape_same(g, n->dh, n->h, "norm_bwd")) &&
        (!n->dx || shape_same(g, n->dx, n->h, "norm_bwd")) && (!n->dres || shape_same(g, n->dres, n->h, "norm_bwd")))
        if (shape_same(g, n->mean, n->rstd, "norm_bwd") && n->dbias)
            shape_same(g, n->gamma, n->dbias, "norm_bwd");
}

void grad_norm(struct grads *d, const struct op_norm *n)
{
    int h = n->h ? n->h : n->x;
    struct op_norm_bwd b = {.dy = grad_of(d, n->y),
                            .dh = n->h ? grad_of(d, n->h) : 0,
                            .h = h,
                            .gamma = n->gamma,
                            .mean = n->mean,
                            .rstd = n->rstd,
                            .coords = n->coords,
                            .rng = n->rng,
                            .dx = grad_target(d, n->x),
                            .dres = grad_target(d, n->res),
                            .dgamma = grad_target(d, n->gamma),
                            .dbeta = grad_target(d, n->beta),
                            .p = n->p,
                            .site = n->site,
                            .one_plus = n->one_plus};
    emit_norm_bwd(d->g, &b);
}

double flops_norm(const struct args_norm *a)
{
    return 10.0 * (double)a->x.shape[0] * (double)a->x.shape[1];
}

double flops_norm_bwd(const struct args_norm_bwd *a)
{
    return 16.0 * (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

static double mask(const struct tensor *coords, const struct tensor *rng, int64_t site, double p, int64_t n, int64_t h)
{
    if (p <= 0 || !coords->data)
        return 1;
    struct philox bits = mask_feature_bits(rng->data, site, (const int32_t *)coords->data + 2 * n, h);
    return mask_keeps_feature(bits, h, mask_threshold16(p)) ? mask_scale16(p) : 0;
}

void ref_norm(const struct args_norm *a, const struct call *c)
{
    (void)c;
    const double *x = a->x.data, *res = a->res.data, *gamma = a->gamma.data, *beta = a->beta.data;
    double *y = a->y.data, *hs = a->h.data, one = a->one_plus ? 1 : 0;
    int64_t N = a->x.shape[0], H = a->x.shape[1];
    for (int64_t n = 0; n < N; n++) {
        double mean = 0, variance = 0;
        for (int64_t h = 0; h < H; h++) { /* y holds h until the statistics are known */
            int64_t i = n * H + h;
            y[i] = (res ? res[i] : 0) + x[i] * mask(&a->coords, &a->rng, a->site, a->p, n, h);
            if (hs)
                hs[i] = y[i];
            mean += y[i] / (double)H;
        }
        for (int64_t h = 0; h < H; h++)
            variance += (y[n * H + h] - mean) * (y[n * H + h] - mean) / (double)H;
        double rstd = 1 / sqrt(variance + a->eps);
        for (int64_t h = 0; h < H; h++)
            y[n * H + h] = (y[n * H + h] - mean) * rstd * (one + gamma[h]) + (beta ? beta[h] : 0);
        ((double *)a->mean.data)[n] = mean;
        ((double *)a->rstd.data)[n] = rstd;
    }
}

void ref_norm_bwd(const struct args_norm_bwd *a, const struct call *c)
{
    (void)c;
    const double *dy = a->dy.data, *dh = a->dh.data, *hs = a->h.data, *gamma = a->gamma.data;
    double *dx = a->dx.data, *dres = a->dres.data, one = a->one_plus ? 1 : 0;
    double *dgamma = a->dgamma.data, *dbeta = a->dbeta.data, *dbias = a->dbias.data;
    int64_t N = a->dy.shape[0], H = a->dy.shape[1];
    for (int64_t h = 0; h < H; h++) {
        if (dgamma && !a->dgamma.add)
            dgamma[h] = 0;
        if (dbeta && !a->dbeta.add)
            dbeta[h] = 0;
        if (dbias && !a->dbias.add)
            dbias[h] = 0;
    }
    for (int64_t n = 0; n < N; n++) {
        double mean = ((const double *)a->mean.data)[n], rstd = ((const double *)a->rstd.data)[n];
        double mean_g = 0, mean_gz = 0;
        for (int64_t h = 0; h < H; h++) {
            double z = (hs[n * H + h] - mean) * rstd, g = dy[n * H + h] * (one + gamma[h]);
            mean_g += g / (double)H;
            mean_gz += g * z / (double)H;
        }
        for (int64_t h = 0; h < H; h++) {
            int64_t i = n * H + h;
            double z = (hs[i] - mean) * rstd;
            double grad = (dh ? dh[i] : 0) + rstd * (dy[i] * (one + gamma[h]) - mean_g - z * mean_gz);
            if (dres)
                dres[i] = (a->dres.add ? dres[i] : 0) + grad;
            double branch = grad * mask(&a->coords, &a->rng, a->site, a->p, n, h);
            if (dx)
                dx[i] = (a->dx.add ? dx[i] : 0) + branch;
            if (dbias)
                dbias[h] += branch;
            if (dgamma)
                dgamma[h] += dy[i] * z;
            if (dbeta)
                dbeta[h] += dy[i];
        }
    }
}
