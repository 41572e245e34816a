/* Of each row its neighbours in the sequence, and itself, side by side: x (T,H), y (T, H width), with half = (width - 1) / 2
 *     y[n, h width + k] = x[n + k - half, h], 0 where the sequence of n has no such row
 * so that a convolution over rows (torch's Conv1d, padded with `half` zeros at a sequence's ends) is a product with its weight
 * (O,I,width) as it lies in memory. Going back dx[n,h] = sum_k dy[n - k + half, h width + k]. Rows behind all sequences have none. */
#include "graph/graph.h"

static bool is_width(int64_t width)
{
    return width > 0 && width % 2;
}

void shape_neighbours(struct graph *g, struct op_neighbours *n)
{
    const struct value *x = graph_value(g, n->x);
    if (shape_require(g, x->ndim == 2 && is_width(n->width), "neighbours", "x must be (T,H), width odd"))
        n->y = shape_out(g, SHAPE(x->shape[0], DIM(x->shape[1].c * n->width)));
}

void shape_neighbours_bwd(struct graph *g, struct op_neighbours_bwd *n)
{
    const struct value *dy = graph_value(g, n->dy), *dx = graph_value(g, n->dx);
    shape_require(
        g,
        dy->ndim == 2 && is_width(n->width) &&
            (!n->dx || (dim_equal(dx->shape[0], dy->shape[0]) && dx->shape[1].c * n->width == dy->shape[1].c)),
        "neighbours_bwd", "dy must be (T, H width), dx (T,H), width odd");
}

void grad_neighbours(struct grads *d, const struct op_neighbours *n)
{
    struct op_neighbours_bwd b = {.dy = grad_of(d, n->y), .cu = n->cu, .dx = grad_target(d, n->x), .width = n->width};
    if (b.dx)
        emit_neighbours_bwd(d->g, &b);
}

double flops_neighbours(const struct args_neighbours *a)
{
    (void)a;
    return 0;
}

double flops_neighbours_bwd(const struct args_neighbours_bwd *a)
{
    return (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

/* Of rows [from, to), a sequence or what is behind all of them. */
static void spread(const struct args_neighbours *a, int64_t from, int64_t to, bool sequence)
{
    const double *x = a->x.data;
    double *y = a->y.data;
    int64_t H = a->x.shape[1], W = a->width;
    for (int64_t n = from; n < to; n++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t k = 0; k < W; k++) {
                int64_t m = n + k - W / 2;
                y[(n * H + h) * W + k] = sequence && m >= from && m < to ? x[m * H + h] : 0;
            }
}

void ref_neighbours(const struct args_neighbours *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    int64_t B = a->cu.shape[0] - 1;
    for (int64_t b = 0; b < B; b++)
        spread(a, cu[b], cu[b + 1], true);
    spread(a, cu[B], a->x.shape[0], false);
}

void ref_neighbours_bwd(const struct args_neighbours_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    const double *dy = a->dy.data;
    double *dx = a->dx.data;
    int64_t B = a->cu.shape[0] - 1, T = a->dy.shape[0], W = a->width, H = a->dy.shape[1] / W;
    for (int64_t i = 0; dx && !a->dx.add && i < T * H; i++)
        dx[i] = 0;
    for (int64_t b = 0; dx && b < B; b++)
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            for (int64_t k = 0; k < W; k++) {
                int64_t m = n + k - W / 2;
                for (int64_t h = 0; m >= cu[b] && m < cu[b + 1] && h < H; h++)
                    dx[m * H + h] += dy[(n * H + h) * W + k];
            }
}
