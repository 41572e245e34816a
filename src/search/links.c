#include "search/links.h"

#include "base/mem.h"
#include "graph/lanes.h"

#include <string.h>

/* The value that a node exchanges, all of it; 0: none. */
static int exchanged(const struct node *n)
{
    return op_exchanges(n->op) ? n->u.slot[0] : n->op == OP_pull ? n->u.pull.y : 0;
}

/* Bytes of a node over the links of the rank that it is most work for, of n ranks; *rank is that one, 0: all. */
static double link_bytes(const struct graph *g, const struct node *n, double ranks, int *rank)
{
    int value = exchanged(n);
    double bytes = value ? (double)value_bytes(graph_value(g, value), (struct dims){0}) : 0;
    *rank = n->op == OP_all_reduce  ? (int)n->u.all_reduce.to
            : n->op == OP_broadcast ? (int)n->u.broadcast.from
            : n->op == OP_pull      ? (int)n->u.pull.from
                                    : 0;
    int times =
        n->op == OP_all_reduce && !n->u.all_reduce.chunk ? 2 : 1; /* a sum for all is sent in parts, and then whole */
    return *rank ? bytes * (ranks - 1) : times * bytes * (ranks - 1) / ranks;
}

/* Nodes of one op that follow `k`, to *end. of: by rank, room for as many as there are, and for 0. */
static double group_bytes(const struct graph *g, int k, int ranks, double *of, int *end)
{
    double most = 0;
    int rank;
    memset(of, 0, (size_t)(ranks + 1) * sizeof *of);
    for (*end = k; *end < g->n_nodes && g->nodes[*end].op == g->nodes[k].op; (*end)++) {
        double bytes = link_bytes(g, &g->nodes[*end], ranks, &rank);
        of[rank] += bytes;
        most = of[rank] > most ? of[rank] : most;
    }
    return most;
}

/* ctx: what else a measure of a program needs. */
typedef double measure_fn(const struct links *l, const struct program *p, double *of, const void *ctx);

static double program_bytes(const struct links *l, const struct program *p, double *of, const void *ctx)
{
    double sum = 0;
    (void)ctx;
    for (int k = 1, end; k < p->graph.n_nodes; k = end)
        sum += group_bytes(&p->graph, k, l->ranks, of, &end);
    return sum;
}

/* seconds[k]: of the nodes without what goes over links; then with it. What goes beside nodes that compute slows them down: copies between
 * two H100 by half of what they take, with 4 rows of BERT-large as with 32. */
static double longer(const struct links *l, const struct program *p, double *of, const struct rates *r, double *seconds)
{
    const double slows = 0.5;
    const struct graph *g = &p->graph;
    for (int k = 1; k < g->n_nodes; k++)
        seconds[k] = node_is_of(&g->nodes[k], 1) ? rates_node(r, p, &g->nodes[k]) : 0;
    double without = lanes_seconds(g, seconds, p->settle);
    double all = 0;
    for (int k = 1, end; k < g->n_nodes; k = end) {
        double link = group_bytes(g, k, l->ranks, of, &end) * l->byte_seconds;
        seconds[k] += link;
        all += link;
    }
    double alone = lanes_seconds(g, seconds, p->settle) - without;
    return alone < all ? alone + slows * (all - alone) : alone;
}

static double program_seconds(const struct links *l, const struct program *p, double *of, const void *ctx)
{
    double *seconds = mem_alloc((size_t)p->graph.n_nodes * sizeof *seconds);
    double more = seconds ? longer(l, p, of, ctx, seconds) : 0;
    mem_free(seconds);
    return more;
}

static double of_step(const struct links *l, const struct plan *p, const struct programs *where, int64_t accumulation,
                      measure_fn *measure, const void *ctx)
{
    const struct {
        int program;
        int64_t times;
    } parts[] = {{where->step, 1}, {where->first, 1}, {where->next, accumulation - 1}, {where->update, 1}};
    double sum = 0, *of = l->ranks > 1 ? mem_alloc((size_t)(l->ranks + 1) * sizeof *of) : NULL;
    for (size_t i = 0; of && i < sizeof parts / sizeof *parts; i++)
        if (parts[i].program >= 0)
            sum += (double)parts[i].times * measure(l, &p->programs[parts[i].program], of, ctx);
    mem_free(of);
    return sum;
}

double links_bytes(const struct links *l, const struct plan *p, const struct programs *where, int64_t accumulation)
{
    return of_step(l, p, where, accumulation, program_bytes, NULL);
}

double links_seconds(const struct links *l, const struct rates *r, const struct plan *p, const struct programs *where,
                     int64_t accumulation)
{
    return l->byte_seconds > 0 ? of_step(l, p, where, accumulation, program_seconds, r) : 0;
}
