#include "base/seconds.h"
#include "run/run.h"

#include <string.h>

/* On a device many runs of a node are timed together, as a recording where it makes those: `part` is no other's. */
static int time_node(struct run *r, int k, int part, struct dims dims, struct work *work, int n, double *seconds,
                     struct snug_err *err)
{
    bool known = false;
    double start = seconds_now(), worked = seconds_worked();
    if (n > 1 && r->backend->replay)
        TRY(r->backend->replay(r->backend, &(struct sequence){k, part, dims}, &known, err));
    if (!known)
        TRY(r->backend->run(r->backend, work, n, err));
    TRY(r->backend->arena->sync(r->backend, err));
    *seconds = (seconds_now() - start) / n;
    worked = seconds_worked() - worked;
    if (r->backend->facts.host_memory && worked < *seconds) /* the rest went to other programs */
        *seconds = worked;
    return SNUG_OK;
}

/* How many times one node may be given at once. Where a device runs them at the same time, no more than the workspace has
 * room for. */
static int copies(const struct run *r, const struct program *g, const struct node *n, struct dims dims, int most)
{
    const struct backend *b = r->backend;
    if (b->facts.host_memory)
        return 1;
    if (!n->workspace || !backend_together(b, n->op))
        return most;
    union args_any args;
    compile_args(g, n, dims, NULL, -1, &args);
    int64_t one = backend_workspace_bytes(b, n->op, &args, r->threads);
    int64_t room = value_bytes(graph_value(&g->graph, n->workspace), g->max);
    return one <= 0 || room / one > most ? most : room / one < 1 ? 1 : (int)(room / one);
}

/* Of one node, given many times at once to a device: it has to be long enough to be timed. */
static int time_one(struct run *r, int k, int part, int node, struct dims dims, double *seconds, struct snug_err *err)
{
    enum { TOGETHER = 32 };
    const struct program *g = &r->plan.programs[k];
    struct work work[TOGETHER];
    int together = copies(r, g, &g->graph.nodes[node], dims, TOGETHER);
    for (int n = 0; n < together; n++) {
        run_fill_work(r, g, &g->graph.nodes[node], dims, &work[n]);
        work[n].joins = true;
    }
    return time_node(r, k, part, dims, work, together, seconds, err);
}

/* Of nodes that run at the same time, as they do: what one of them again and again uses would lie in the cache, where weights and states
 * do not. Each gets its share by bytes. */
static int time_group(struct run *r, int k, int part, int first, int end, struct dims dims, double *seconds,
                      struct snug_err *err)
{
    const struct program *g = &r->plan.programs[k];
    double all = 0, each;
    for (int i = first; i < end; i++)
        run_fill_work(r, g, &g->graph.nodes[i], dims, &r->work[i - first]);
    TRY(time_node(r, k, part, dims, r->work, end - first, &each, err));
    for (int i = first; i < end; i++) {
        const struct node *n = &g->graph.nodes[i];
        const union args_any *args = &r->work[i - first].args;
        seconds[i] = compile_bytes(g, n, args, MEMORY_DEVICE) + compile_bytes(g, n, args, MEMORY_HOST);
        all += seconds[i];
    }
    for (int i = first; i < end; i++)
        seconds[i] *= all > 0 ? each * (end - first) / all : 0;
    return SNUG_OK;
}

/* Nodes first … end-1, which are one or run at the same time: their best time so far. */
static int time_nodes(struct run *r, int k, int part, int first, int end, struct dims dims, double *now, double *best,
                      struct snug_err *err)
{
    TRY(end - first > 1 ? time_group(r, k, part, first, end, dims, now, err)
                        : time_one(r, k, part, first, dims, &now[first], err));
    for (int i = first; i < end; i++)
        best[i] = best[i] > 0 && best[i] < now[i] ? best[i] : now[i];
    return SNUG_OK;
}

/* Whether the node makes whole numbers, by which others find their rows. */
static bool makes_places(const struct program *g, const struct node *n)
{
    bool any = false;
    for (int i = 0; i < node_op(n)->n_slots; i++)
        any |= n->u.slot[i] && slot_writes(node_op(n)->slots[i].kind) &&
               graph_value(&g->graph, n->u.slot[i])->dtype == DT_I32;
    return any;
}

int run_time_nodes(struct run *r, int k, struct dims dims, const bool *wanted, double *seconds, struct snug_err *err)
{
    enum { WARM = 2, MANY_TRIES = 10, FIRST_PART = 2 };
    const double quick = 0.05; /* seconds: within these there are more tries, since other programs disturb short work */
    const double slow = 1;     /* what takes longer is tried once: the program has been run before */
    double start = seconds_now();
    const struct program *g = &r->plan.programs[k];
    double *now = mem_alloc((size_t)g->graph.n_nodes * sizeof *now);
    int tries = r->backend->facts.host_memory ? 2 : WARM + 2, code = SNUG_OK;
    if (!now)
        return err_no_memory(err, (unsigned long long)g->graph.n_nodes * sizeof *now);
    code = run_settle(r, err);
    memset(seconds, 0, (size_t)g->graph.n_nodes * sizeof *seconds);
    for (int i = 0;
         (i < tries && (!i || seconds_now() - start < slow)) || (i < MANY_TRIES && seconds_now() - start < quick); i++)
        for (int node = 1, end; node < g->graph.n_nodes && !code; node = end) {
            bool any = !wanted || wanted[node] || makes_places(g, &g->graph.nodes[node]);
            for (end = node + 1; end < g->graph.n_nodes && g->graph.nodes[end].joins; end++)
                any |= !wanted || wanted[end];
            if (any)
                code = time_nodes(r, k, FIRST_PART + node, node, end, dims, now, seconds, err);
        }
    mem_free(now);
    return code;
}
