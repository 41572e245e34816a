/* The proof of a plan: values that live at once share no byte. Goes through the values of a program from the lowest to the
 * highest and asks for each how far those below it reach while it lives, with the same tree over the program's nodes as
 * pack.c, where each range keeps the one that reaches highest. */
#include "plan/pack.h"

#include <stdlib.h>

static int broken(struct snug_err *err, const struct program *g, int a, int b, const char *what)
{
    return err_set(err, SNUG_ERR_ENV, "plan: program %s: values %d and %d: %s", g->name, a, b, what);
}

/* A value and its bytes, from node `first` to `last`: those of what persists are all. */
struct box {
    int id, rank, first, last;
    int64_t at, end;
};

static int by_start(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : x->id - y->id;
}

/* By range of nodes: which of the boxes so far that live in some part of it, or all through it, ends highest; boxes[0] ends at 0. */
struct reach {
    const struct box *boxes;
    int *within, *whole;
    int leaves;
};

static int higher(const struct reach *r, int a, int b)
{
    return r->boxes[a].end >= r->boxes[b].end ? a : b;
}

/* The one of those that live at the same time as `x` that ends highest. */
static int find_highest(const struct reach *r, int range, int low, int high, const struct box *x)
{
    if (x->last < low || x->first >= high)
        return 0;
    if (x->first <= low && high - 1 <= x->last)
        return r->within[range];
    int left = find_highest(r, 2 * range, low, (low + high) / 2, x);
    int right = find_highest(r, 2 * range + 1, (low + high) / 2, high, x);
    return higher(r, r->whole[range], higher(r, left, right));
}

static void add_box(struct reach *r, int range, int low, int high, int box)
{
    const struct box *x = &r->boxes[box];
    if (x->last < low || x->first >= high)
        return;
    r->within[range] = higher(r, box, r->within[range]);
    if (x->first <= low && high - 1 <= x->last) {
        r->whole[range] = higher(r, box, r->whole[range]);
        return;
    }
    add_box(r, 2 * range, low, (low + high) / 2, box);
    add_box(r, 2 * range + 1, (low + high) / 2, high, box);
}

/* boxes[1 … n-1], ascending. */
static int check_boxes(const struct plan *p, const struct program *g, enum memory memory, struct reach *r, int n,
                       struct snug_err *err)
{
    int64_t whole = plan_bytes(p, memory), lasts = plan_persistent_bytes(p, memory);
    for (int i = 1; i < n; i++) {
        const struct box *x = &r->boxes[i];
        int below = find_highest(r, 1, 0, r->leaves, x);
        if (r->boxes[below].end > x->at)
            return broken(err, g, r->boxes[below].id, x->id, "live at once and share bytes");
        bool persists = graph_value(&g->graph, x->id)->persists;
        if (x->at % p->align || x->end > whole || (persists ? x->end > p->owned_at[memory] : x->at < lasts))
            return broken(err, g, x->id, x->id, "lies outside its part of the arena");
        add_box(r, 1, 0, r->leaves, i);
    }
    return SNUG_OK;
}

/* Of what all ranks have, or of what one has alone. Gives how many there are, with the empty one in front; -1 with err set where a value
 * has no place. */
static int list_boxes(const struct program *g, enum memory memory, bool owned, struct box *boxes, struct snug_err *err)
{
    int n = 1;
    for (int i = 1; i < g->graph.n_values; i++) {
        const struct value *v = graph_value(&g->graph, i);
        int64_t bytes = value_bytes(v, g->max);
        if (v->base || v->memory != memory || (v->rank || v->shards) != owned || (g->at[i] < 0 && !g->first[i]))
            continue;
        if (g->at[i] < 0) {
            broken(err, g, i, i, "has no place");
            return -1;
        }
        if (bytes > 0)
            boxes[n++] = (struct box){.id = i,
                                      .rank = v->rank,
                                      .first = v->persists ? 0 : g->first[i],
                                      .last = v->persists ? g->graph.n_nodes : g->last[i],
                                      .at = g->at[i],
                                      .end = g->at[i] + bytes};
        if (bytes > 0 && g->again[i]) {
            boxes[n] = boxes[n - 1];
            boxes[n].first = 1;
            boxes[n++].last = g->again[i];
        }
    }
    return n;
}

static int check_program(const struct plan *p, const struct program *g, enum memory memory, struct snug_err *err)
{
    size_t n_values = (size_t)g->graph.n_values;
    struct box *boxes = mem_alloc(2 * n_values * sizeof *boxes);
    struct reach r = {.boxes = boxes, .leaves = 1};
    while (r.leaves < g->graph.n_nodes + 1)
        r.leaves *= 2;
    r.within = mem_alloc(2 * (size_t)r.leaves * sizeof *r.within);
    r.whole = mem_alloc(2 * (size_t)r.leaves * sizeof *r.whole);
    int code = boxes && r.within && r.whole ? SNUG_OK : err_no_memory(err, n_values * sizeof *boxes);
    int n = code ? 0 : list_boxes(g, memory, false, boxes, err);
    if (n > 1)
        qsort(boxes + 1, (size_t)n - 1, sizeof *boxes, by_start);
    if (!code)
        code = n < 0 ? SNUG_ERR_ENV : check_boxes(p, g, memory, &r, n, err);
    mem_free(boxes);
    mem_free(r.within);
    mem_free(r.whole);
    return code;
}

/* ---- what one rank has alone ---- */

static int by_rank(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    return x->rank != y->rank ? x->rank - y->rank : by_start(a, b);
}

/* It persists, so two values of one rank share nothing. */
static int check_owned(const struct plan *p, const struct program *g, enum memory memory, struct snug_err *err)
{
    struct box *boxes = mem_alloc((size_t)g->graph.n_values * sizeof *boxes);
    int64_t end = plan_persistent_bytes(p, memory),
            dealt = p->owned_at[memory]; /* behind the shards, which come first */
    if (!boxes)
        return err_no_memory(err, (unsigned long long)g->graph.n_values * sizeof *boxes);
    int n = list_boxes(g, memory, true, boxes, err), code = n < 0 ? SNUG_ERR_ENV : SNUG_OK;
    if (n > 1)
        qsort(boxes + 1, (size_t)n - 1, sizeof *boxes, by_rank);
    for (int i = 1; i < n && !code; i++) {
        const struct box *x = &boxes[i];
        dealt = !x->rank && x->end > dealt ? x->end : dealt;
        if (x->at % p->align || x->at < (x->rank ? dealt : p->owned_at[memory]) || x->end > end)
            code = broken(err, g, x->id, x->id, "lies outside its part of the arena");
        else if (i > 1 && x[-1].rank == x->rank && x[-1].end > x->at)
            code = broken(err, g, x[-1].id, x->id, "are of one rank and share bytes");
    }
    mem_free(boxes);
    return code;
}

/* Of a value that an earlier program has, too: whether it is there what it is here. */
static bool is_another(const struct plan *p, int before, const struct value *v)
{
    for (int k = 0; k < before; k++) {
        const struct graph *g = &p->programs[k].graph;
        int id = graph_find(g, v->name);
        if (id && g->values[id].persists)
            return g->values[id].rank != v->rank || g->values[id].shards != v->shards ||
                   g->values[id].dtype != v->dtype;
    }
    return false;
}

int plan_check(const struct plan *p, struct snug_err *err)
{
    for (int k = 0; k < p->n_programs; k++) {
        const struct program *g = &p->programs[k];
        for (enum memory m = 0; m < MEMORY_COUNT; m++) {
            TRY(check_program(p, g, m, err));
            TRY(check_owned(p, g, m, err));
        }
        for (int i = 1; i < g->graph.n_values; i++) {
            const struct value *v = graph_value(&g->graph, i);
            int64_t place = v->persists && !v->base ? plan_known_place(p, k, v) : -1;
            if (place >= 0 && place != g->at[i])
                return broken(err, g, i, i, "persists at two places");
            if (place >= 0 && is_another(p, k, v))
                return broken(err, g, i, i, "is of two ranks, or of two types");
        }
    }
    return SNUG_OK;
}
