#include "train/forecast/exchange.h"

#include "train/session/session.h"

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

static double busiest_bytes(const struct session *s)
{
    const struct programs *w = &s->run.where;
    const struct {
        int program;
        int64_t times;
    } parts[] = {{w->first, 1}, {w->next, s->choices.accumulation - 1}, {w->update, 1}};
    double bytes = 0, *of = s->compile.ranks > 1 ? mem_alloc((size_t)(s->compile.ranks + 1) * sizeof *of) : NULL;
    for (size_t i = 0; of && i < sizeof parts / sizeof *parts; i++)
        if (parts[i].program >= 0)
            bytes +=
                (double)parts[i].times * program_bytes(&s->run.plan.programs[parts[i].program], s->compile.ranks, of);
    mem_free(of);
    return bytes;
}

/* Of what a rank exchanges, the share with ranks of other hosts: with each of the others it exchanges as much. */
static double network_share(const struct session *s)
{
    int ranks = s->compile.ranks, beside = (int)s->o->gpus_per_host;
    return option_given(s->o, network) && ranks > beside ? (double)(ranks - beside) / (ranks - 1) : 0;
}

/* Links reach a share of what their data sheet promises. Those in a host and those between hosts carry at the same time. */
struct exchange exchange_of(const struct session *s)
{
    const struct backend *b = s->compile.backend;
    const double reached = 0.75, bits = 8, giga = 1e9;
    double bytes = busiest_bytes(s), abroad = bytes * network_share(s);
    struct exchange e = {.bytes = (int64_t)bytes, .network_bytes = (int64_t)abroad};
    if (!b->facts.host_memory && b->rates.link > 0)
        e.seconds = (bytes - abroad) / (reached * b->rates.link);
    double network = abroad > 0 ? abroad * bits / (reached * giga * s->o->network) : 0;
    e.seconds = e.seconds > 0 && network > e.seconds ? network : e.seconds;
    return e;
}
