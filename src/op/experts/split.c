/* The matrices of E experts out of the one matrix w in which an adapter's file has them, as PEFT writes it:
 *     y[e,m,n] = w[e M + m, n], or with columns w[m, n E + e]
 *     dw is dy at the same places
 * w (E M,N), or (M,N E) with columns, y (E,M,N). */
#include "op/experts/split.h"
#include "graph/graph.h"

static bool divides(int64_t experts, const struct value *w, int dim)
{
    return w->ndim == 2 && experts > 0 && dim_is_constant(w->shape[dim]) && w->shape[dim].c % experts == 0;
}

void shape_split_experts(struct graph *g, struct op_split_experts *n)
{
    const struct value *w = graph_value(g, n->w);
    if (!shape_require(g, divides(n->experts, w, n->columns ? 1 : 0), "split_experts", "w must be (E M,N), or (M,N E)"))
        return;
    struct dim parted = DIM(w->shape[n->columns ? 1 : 0].c / n->experts);
    n->y = n->columns ? shape_out(g, SHAPE(DIM(n->experts), w->shape[0], parted))
                      : shape_out(g, SHAPE(DIM(n->experts), parted, w->shape[1]));
}

void shape_split_experts_bwd(struct graph *g, struct op_split_experts_bwd *n)
{
    const struct value *dy = graph_value(g, n->dy), *dw = graph_value(g, n->dw);
    bool fits = dy->ndim == 3 && (!n->dw || dw->ndim == 2);
    if (fits && n->dw) {
        int64_t E = dy->shape[0].c, M = dy->shape[1].c, N = dy->shape[2].c;
        fits = dim_equal(dw->shape[0], DIM(n->columns ? M : E * M)) &&
               dim_equal(dw->shape[1], DIM(n->columns ? N * E : N));
    }
    shape_require(g, fits, "split_experts_bwd", "dw must be (E M,N), or (M,N E)");
}

void grad_split_experts(struct grads *d, const struct op_split_experts *n)
{
    struct op_split_experts_bwd b = {.dy = grad_of(d, n->y), .dw = grad_target(d, n->w), .columns = n->columns};
    if (b.dw)
        emit_split_experts_bwd(d->g, &b);
}

double flops_split_experts(const struct args_split_experts *a)
{
    (void)a;
    return 0;
}

double flops_split_experts_bwd(const struct args_split_experts_bwd *a)
{
    return (double)tensor_elements(&a->dy);
}

void ref_split_experts(const struct args_split_experts *a, const struct call *c)
{
    (void)c;
    int64_t E = a->y.shape[0], M = a->y.shape[1], N = a->y.shape[2];
    for (int64_t i = 0; i < E * M; i++) {
        struct split_row row = split_row_of(i / M, i % M, E, M, N, a->columns);
        for (int64_t n = 0; n < N; n++)
            ((double *)a->y.data)[i * N + n] = ((const double *)a->w.data)[row.first + n * row.step];
    }
}

void ref_split_experts_bwd(const struct args_split_experts_bwd *a, const struct call *c)
{
    (void)c;
    int64_t E = a->dy.shape[0], M = a->dy.shape[1], N = a->dy.shape[2];
    double *dw = a->dw.data;
    for (int64_t i = 0; dw && i < E * M; i++) {
        struct split_row row = split_row_of(i / M, i % M, E, M, N, a->columns);
        for (int64_t n = 0; n < N; n++) {
            double *to = &dw[row.first + n * row.step];
            *to = (a->dw.add ? *to : 0) + ((const double *)a->dy.data)[i * N + n];
        }
    }
}
