#include "search/links.h"

#include "base/mem.h"

#include <string.h>

/* Bytes of a node over the links of the rank that it is most work for, of n ranks; *rank is that one, 0: all. */
static double link_bytes(const struct graph *g, const struct node *n, double ranks, int *rank)
{
    bool counts = op_exchanges(n->op) || n->op == OP_pull;
    double bytes = counts ? (double)value_bytes(graph_value(g, n->u.slot[0]), (struct dims){0}) : 0;
    *rank = n->op == OP_all_reduce  ? (int)n->u.all_reduce.to
            : n->op == OP_broadcast ? (int)n->u.broadcast.from
            : n->op == OP_pull      ? (int)n->u.pull.from
                                    : 0;
    return *rank ? bytes * (ranks - 1) : 2 * bytes * (ranks - 1) / ranks; /* a part of each: it is read, and written */
}

/* of: by rank, room for as many as there are, and for 0. */
static double program_bytes(const struct program *p, int ranks, double *of)
{
    const struct graph *g = &p->graph;
    double sum = 0;
    for (int k = 1, end; k < g->n_nodes; k = end) {
        double most = 0;
        int rank;
        memset(of, 0, (size_t)(ranks + 1) * sizeof *of);
        for (end = k; end < g->n_nodes && g->nodes[end].op == g->nodes[k].op; end++) {
            double bytes = link_bytes(g, &g->nodes[end], ranks, &rank);
            of[rank] += bytes;
            most = of[rank] > most ? of[rank] : most;
        }
        sum += most;
    }
    return sum;
}

double links_bytes(const struct plan *p, const struct programs *where, int64_t accumulation, int ranks)
{
    const struct {
        int program;
        int64_t times;
    } parts[] = {{where->first, 1}, {where->next, accumulation - 1}, {where->update, 1}};
    double bytes = 0, *of = ranks > 1 ? mem_alloc((size_t)(ranks + 1) * sizeof *of) : NULL;
    for (size_t i = 0; of && i < sizeof parts / sizeof *parts; i++)
        if (parts[i].program >= 0)
            bytes += (double)parts[i].times * program_bytes(&p->programs[parts[i].program], ranks, of);
    mem_free(of);
    return bytes;
}
