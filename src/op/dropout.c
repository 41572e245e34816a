/* Dropout of features (Srivastava et al., JMLR 15, 2014): y[n,h] = x[n,h] M[n,h], where M is 0 or the inverse of the
 * kept share, as op/mask.h defines it; dx = dy M. x (N,H), coords (N,2). */
#include "graph/graph.h"
#include "op/mask.h"

void shape_dropout(struct graph *g, struct op_dropout *n)
{
    const struct value *x = graph_value(g, n->x);
    if (shape_require(g, x->ndim == 2, "dropout", "x must be (N,H)"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void shape_dropout_bwd(struct graph *g, struct op_dropout_bwd *n)
{
    if (n->dx)
        shape_same(g, n->dy, n->dx, "dropout_bwd");
}

void grad_dropout(struct grads *d, const struct op_dropout *n)
{
    struct op_dropout_bwd b = {.dy = grad_of(d, n->y),
                               .coords = n->coords,
                               .rng = n->rng,
                               .dx = grad_target(d, n->x),
                               .p = n->p,
                               .site = n->site};
    if (b.dx)
        emit_dropout_bwd(d->g, &b);
}

double flops_dropout(const struct args_dropout *a)
{
    return (double)a->x.shape[0] * (double)a->x.shape[1];
}

double flops_dropout_bwd(const struct args_dropout_bwd *a)
{
    return (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

static double masked(double x, const struct tensor *coords, const struct tensor *rng, int64_t site, double p, int64_t n,
                     int64_t h)
{
    struct philox bits = mask_feature_bits(rng->data, site, (const int32_t *)coords->data + 2 * n, h);
    return mask_keeps_feature(bits, h, mask_threshold16(p)) ? x * mask_scale16(p) : 0;
}

void ref_dropout(const struct args_dropout *a, const struct call *c)
{
    (void)c;
    int64_t N = a->x.shape[0], H = a->x.shape[1];
    for (int64_t n = 0; n < N; n++)
        for (int64_t h = 0; h < H; h++)
            ((double *)a->y.data)[n * H + h] =
                masked(((const double *)a->x.data)[n * H + h], &a->coords, &a->rng, a->site, a->p, n, h);
}

void ref_dropout_bwd(const struct args_dropout_bwd *a, const struct call *c)
{
    (void)c;
    int64_t N = a->dy.shape[0], H = a->dy.shape[1];
    double *dx = a->dx.data;
    if (!dx)
        return;
    for (int64_t n = 0; n < N; n++)
        for (int64_t h = 0; h < H; h++) {
            int64_t i = n * H + h;
            double grad = masked(((const double *)a->dy.data)[i], &a->coords, &a->rng, a->site, a->p, n, h);
            dx[i] = (a->dx.add ? dx[i] : 0) + grad;
        }
}
