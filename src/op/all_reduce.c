/* What ranks exchange. Ranks add up what each has of a gradient: g = the sum of the ranks' g, the first rank's first. g has any shape. Each
 * rank makes a part of the sum and puts it into everybody's g: all get the same bits, whoever comes when. With `to` only that rank's g
 * becomes the sum, and the others stay as they are; with `chunk` each rank's shard of g does (ranks/shard.h). */
#include "graph/graph.h"
#include "ranks/ranks.h"
#include "ranks/shard.h"

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
        ranks_sum(c->rank, a->g.data, n, a->chunk ? a->chunk : 1, sizeof(double), a->chunk ? RANKS_STAY : (int)a->to,
                  add_up, (void *)c->rank);
        return;
    }
    void *const *of = ranks_meet(c->rank, a->g.data);
    struct shard mine = shard_of(n, a->chunk ? a->chunk : 1, c->rank->n, c->rank->me);
    int to = a->chunk ? c->rank->me + 1 : (int)a->to;
    int first = to ? to - 1 : 0, end = to ? to : c->rank->n;
    for (int64_t i = mine.first; of && i < mine.first + mine.n; i++) {
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
 * meanwhile: they need not meet. Others do: the owner gives it to all. x has any shape, and y its type. With `chunk` x is this rank's shard
 * of y, and the others have theirs at the same place of their arenas. A rank that is alone (a rehearsal) takes its own for all. */
void shape_pull(struct graph *g, struct op_pull *n)
{
    if (shape_require(g, n->x && (n->from > 0) != (n->chunk > 0), "pull",
                      "x must be there, and come from a rank, or from all"))
        n->y = shape_out(g, graph_value(g, n->x)->ndim, graph_value(g, n->x)->shape);
}

double flops_pull(const struct args_pull *a)
{
    (void)a;
    return 0;
}

/* A rank that is only thought to have others beside it. */
static void repeat(const struct args_pull *a, int64_t bytes)
{
    int64_t mine = dtype_bytes(a->x.dtype, tensor_elements(&a->x));
    for (int64_t at = 0; at < bytes; at += mine)
        memcpy((char *)a->y.data + at, a->x.data, (size_t)(bytes - at < mine ? bytes - at : mine));
}

static void pull_shards(const struct args_pull *a, const struct call *c)
{
    enum dtype type = a->y.dtype;
    int64_t n = tensor_elements(&a->y), room = tensor_room(&a->y);
    if (!c->rank) {
        repeat(a, dtype_bytes(type, room));
        return;
    }
    for (int k = 0; k < c->rank->n; k++) {
        struct shard s = shard_of_room(n, room, a->chunk, c->rank->n, k);
        const char *x = c->arenas ? c->arenas[k] + ((char *)a->x.data - c->arenas[c->rank->me]) : a->x.data;
        if (c->arenas || k == c->rank->me)
            memcpy((char *)a->y.data + dtype_bytes(type, s.first), x, (size_t)dtype_bytes(type, s.n));
    }
    if (!c->arenas)
        ranks_spread(c->rank, a->y.data, n, room, a->chunk, type);
}

void ref_pull(const struct args_pull *a, const struct call *c)
{
    if (a->chunk) {
        pull_shards(a, c);
        return;
    }
    size_t bytes = (size_t)dtype_bytes(a->y.dtype, tensor_room(&a->y));
    bool here = !c->rank || ranks_share_memory(c->rank);
    if (here || c->rank->me == a->from - 1)
        memcpy(a->y.data, a->x.data, bytes);
    if (!here)
        ranks_take(c->rank, (int)a->from - 1, a->y.data, bytes);
}

/* broadcast: x = that of rank `from`, counted from 1; with `chunk` that of all, of which each has its shard. x has any shape and type. */
void shape_broadcast(struct graph *g, struct op_broadcast *n)
{
    shape_require(g, n->x && (n->from > 0) != (n->chunk > 0), "broadcast",
                  "x must be there, and come from a rank, or from all");
}

double flops_broadcast(const struct args_broadcast *a)
{
    (void)a;
    return 0;
}

void ref_broadcast(const struct args_broadcast *a, const struct call *c)
{
    int64_t room = tensor_room(&a->x);
    if (c->rank && a->chunk)
        ranks_spread(c->rank, a->x.data, tensor_elements(&a->x), room, a->chunk, a->x.dtype);
    else if (c->rank)
        ranks_take(c->rank, (int)a->from - 1, a->x.data, (size_t)dtype_bytes(a->x.dtype, room));
}
