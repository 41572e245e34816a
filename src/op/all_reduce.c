/* What ranks exchange. Ranks add up what each has of a gradient: g = the sum of the ranks' g, the first rank's first. g has any shape. Each
 * rank makes a part of the sum and puts it into everybody's g: all get the same bits, whoever comes when. With `to` only that rank's g
 * becomes the sum, and the others stay as they are. */
#include "graph/graph.h"
#include "ranks/ranks.h"

#include <string.h>

void shape_all_reduce(struct graph *g, struct op_all_reduce *n)
{
    shape_require(g, n->g && graph_value(g, n->g)->role == ROLE_GRADIENT, "all_reduce", "g must be a gradient");
}

double flops_all_reduce(const struct args_all_reduce *a)
{
    return (double)tensor_elements(&a->g);
}

static void add_up(void *ctx, void *const *of, int64_t count, int me)
{
    const struct rank *r = ctx;
    for (int64_t i = 0; i < count; i++) {
        double sum = ((const double *)of[0])[i];
        for (int k = 1; k < r->n; k++)
            sum += ((const double *)of[k])[i];
        ((double *)of[me])[i] = sum;
    }
}

void ref_all_reduce(const struct args_all_reduce *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->g);
    if (!c->rank)
        return;
    if (!ranks_share_memory(c->rank)) {
        ranks_sum(c->rank, a->g.data, n, sizeof(double), (int)a->to, add_up, (void *)c->rank);
        return;
    }
    void *const *of = ranks_meet(c->rank, a->g.data);
    int first = a->to ? (int)a->to - 1 : 0, end = a->to ? (int)a->to : c->rank->n;
    for (int64_t i = of ? n * c->rank->me / c->rank->n : 0; of && i < n * (c->rank->me + 1) / c->rank->n; i++) {
        double sum = ((const double *)of[0])[i];
        for (int k = 1; k < c->rank->n; k++)
            sum += ((const double *)of[k])[i];
        for (int k = first; k < end; k++)
            ((double *)of[k])[i] = sum;
    }
    if (of)
        ranks_meet(c->rank, NULL);
}

/* pull: y = x of rank `from`, counted from 1, which alone has x. Of ranks in one memory x is that rank's own, which does not change
 * meanwhile: they need not meet. Others do: the owner gives it to all. x has any shape, and y its type. */
void shape_pull(struct graph *g, struct op_pull *n)
{
    if (shape_require(g, n->x && n->from > 0, "pull", "x must be there, and come from a rank"))
        n->y = shape_out(g, graph_value(g, n->x)->ndim, graph_value(g, n->x)->shape);
}

double flops_pull(const struct args_pull *a)
{
    (void)a;
    return 0;
}

void ref_pull(const struct args_pull *a, const struct call *c)
{
    size_t bytes = (size_t)dtype_bytes(a->y.dtype, tensor_room(&a->y));
    bool here = !c->rank || ranks_share_memory(c->rank);
    if (here || c->rank->me == a->from - 1)
        memcpy(a->y.data, a->x.data, bytes);
    if (!here)
        ranks_take(c->rank, (int)a->from - 1, a->y.data, bytes);
}

/* broadcast: x = that of rank `from`, counted from 1. x has any shape and type. */
void shape_broadcast(struct graph *g, struct op_broadcast *n)
{
    shape_require(g, n->x && n->from > 0, "broadcast", "x must be there, and come from a rank");
}

double flops_broadcast(const struct args_broadcast *a)
{
    (void)a;
    return 0;
}

void ref_broadcast(const struct args_broadcast *a, const struct call *c)
{
    if (c->rank)
        ranks_take(c->rank, (int)a->from - 1, a->x.data, (size_t)dtype_bytes(a->x.dtype, tensor_room(&a->x)));
}
