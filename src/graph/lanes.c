#include "graph/lanes.h"

#include "graph/uses.h"

int lanes_end(const struct graph *g, int k)
{
    for (k++; k < g->n_nodes && g->nodes[k].joins; k++)
        ;
    return k;
}

/* ---- what waits for what ---- */

/* Of each lane but LANE_COMPUTE, its nodes so far. */
struct lanes {
    struct hazards of[LANE_COUNT];
    int last; /* node of LANE_COMPUTE */
};

static bool are_used(const struct graph *g)
{
    for (int k = 1; k < g->n_nodes; k++)
        if (g->nodes[k].lane != LANE_COMPUTE)
            return true;
    return false;
}

/* Nodes k … end-1. */
static void find_after(struct graph *g, struct lanes *l, int k, int end)
{
    struct node *first = &g->nodes[k];
    for (enum lane lane = LANE_COMPUTE + 1; lane < LANE_COUNT; lane++)
        for (int i = k; i < end && lane != first->lane; i++) {
            int found = hazards_find(&l->of[lane], g, &g->nodes[i]);
            int written = hazards_writer(&l->of[lane], g, g->nodes[i].waits);
            found = written > found ? written : found;
            first->after[lane] = found > first->after[lane] ? found : first->after[lane];
        }
    if (first->lane == LANE_COMPUTE)
        l->last = end - 1;
    else
        first->after[LANE_COMPUTE] = l->last;
    for (int i = k; i < end && first->lane != LANE_COMPUTE; i++)
        hazards_add(&l->of[first->lane], g, i);
}

void lanes_find(struct graph *g)
{
    struct lanes l = {0};
    bool opened = true;
    if (!are_used(g))
        return;
    for (enum lane lane = LANE_COMPUTE + 1; lane < LANE_COUNT; lane++)
        opened &= hazards_open(&l.of[lane], g);
    for (int k = 1, end; k < g->n_nodes && opened; k = end) {
        end = lanes_end(g, k);
        find_after(g, &l, k, end);
    }
    for (enum lane lane = LANE_COMPUTE + 1; lane < LANE_COUNT; lane++)
        hazards_close(&l.of[lane]);
}

/* ---- lives ---- */

/* Nodes from … last use it. */
static void touch(const struct graph *g, int id, int from, int to, int *first, int *last)
{
    int root = value_root(g, id);
    if (!first[root])
        first[root] = from;
    last[root] = to > last[root] ? to : last[root];
}

/* What node k uses lives from node `from` to `to` at least. */
static void touch_values(const struct graph *g, int k, int from, int to, int *first, int *last)
{
    const struct node *n = &g->nodes[k];
    for (int i = 0; i < node_op(n)->n_slots; i++)
        if (n->u.slot[i])
            touch(g, n->u.slot[i], from, to, first, last);
    if (n->workspace)
        touch(g, n->workspace, from, to, first, last);
}

/* What the nodes of a lane use that stand behind `done` and not behind `after` lives until just before node `k`, which waits for them. */
static void touch_lane(const struct graph *g, enum lane lane, int done, int after, int k, int *first, int *last)
{
    for (int i = done + 1; i <= after; i++)
        if (g->nodes[i].lane == lane)
            touch_values(g, i, i, k - 1, first, last);
}

static void extend_to_joins(const struct graph *g, int *first, int *last)
{
    int done[LANE_COUNT] = {0};
    for (int k = 1; k <= g->n_nodes; k++)
        for (enum lane lane = LANE_COMPUTE + 1; lane < LANE_COUNT; lane++) {
            bool end = k == g->n_nodes;
            int after = end ? k - 1 : g->nodes[k].lane == LANE_COMPUTE ? g->nodes[k].after[lane] : 0;
            if (after <= done[lane])
                continue;
            touch_lane(g, lane, done[lane], after, end ? k + 1 : k, first, last);
            done[lane] = after;
        }
}

void lives_find(const struct graph *g, int *first, int *last)
{
    for (int k = 1, end; k < g->n_nodes; k = end) {
        end = lanes_end(g, k);
        for (int i = k; i < end; i++)
            touch_values(g, i, k, end - 1, first, last);
    }
    if (are_used(g))
        extend_to_joins(g, first, last);
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].live_out && first[value_root(g, i)])
            last[value_root(g, i)] = g->n_nodes;
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].live_in && first[i])
            first[i] = 1;
}

void lives_trailing(const struct graph *g, bool *trails)
{
    int done[LANE_COUNT] = {0};
    for (int k = 1; k < g->n_nodes; k++)
        for (enum lane lane = LANE_COMPUTE + 1; lane < LANE_COUNT && g->nodes[k].lane == LANE_COMPUTE; lane++)
            done[lane] = g->nodes[k].after[lane] > done[lane] ? g->nodes[k].after[lane] : done[lane];
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        for (int i = 0; i < node_op(n)->n_slots && n->lane != LANE_COMPUTE && k > done[n->lane]; i++)
            trails[value_root(g, n->u.slot[i])] = n->u.slot[i] != 0;
    }
}

int64_t *lives_bytes(const struct graph *g, struct dims max)
{
    int64_t *bytes = mem_alloc((size_t)(g->n_nodes + 2) * sizeof *bytes);
    int *first = mem_alloc((size_t)g->n_values * sizeof *first), *last = mem_alloc((size_t)g->n_values * sizeof *last);
    bool there = bytes && first && last;
    if (there)
        lives_find(g, first, last);
    for (int i = 1; i < g->n_values && there; i++) {
        const struct value *v = graph_value(g, i);
        if (v->base || v->persists || v->memory != MEMORY_DEVICE || !first[i])
            continue;
        bytes[first[i]] += value_bytes(v, max);
        bytes[last[i] + 1] -= value_bytes(v, max);
    }
    for (int k = 1; k <= g->n_nodes && there; k++)
        bytes[k] += bytes[k - 1];
    mem_free(first);
    mem_free(last);
    if (!there)
        mem_free(bytes);
    return there ? bytes : NULL;
}

/* ---- time ---- */

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double latest(const double lane[LANE_COUNT])
{
    double all = 0;
    for (enum lane i = 0; i < LANE_COUNT; i++)
        all = later(all, lane[i]);
    return all;
}

/* One run, from when each lane is free; over: when a node is, NULL: one lane does all. */
static void run_lanes(const struct graph *g, const double *seconds, int settle, double lane[LANE_COUNT], double *over)
{
    for (int k = 1, end; k < g->n_nodes; k = end) {
        const struct node *n = &g->nodes[k];
        enum lane mine = over ? n->lane : LANE_COMPUTE;
        if (k == settle)
            lane[LANE_COMPUTE] = latest(lane);
        for (enum lane other = 0; other < LANE_COUNT && over; other++)
            if (n->after[other])
                lane[mine] = later(lane[mine], over[n->after[other]]);
        end = lanes_end(g, k);
        for (int i = k; i < end; i++)
            lane[mine] += seconds[i];
        for (int i = k; i < end && over; i++)
            over[i] = lane[mine];
    }
}

double lanes_seconds(const struct graph *g, const double *seconds, int settle)
{
    double lane[LANE_COUNT] = {0};
    double *over = mem_alloc((size_t)g->n_nodes * sizeof *over);
    run_lanes(g, seconds, 0, lane, over);
    double all = latest(lane), first = lane[LANE_COMPUTE];
    if (settle) {
        run_lanes(g, seconds, settle, lane, over);
        all = lane[LANE_COMPUTE] - first;
    }
    mem_free(over);
    return all;
}
