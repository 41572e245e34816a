#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

struct program *plan_add(struct plan *p, const char *name, struct dims max, struct snug_err *err)
{
    struct program *g = &p->programs[p->n_programs];
    *g = (struct program){.name = name, .max = max};
    if (graph_init(&g->graph, err))
        return NULL;
    p->n_programs++;
    return g;
}

void plan_free(struct plan *p)
{
    for (int i = 0; i < p->n_programs; i++) {
        graph_free(&p->programs[i].graph);
        mem_free(p->programs[i].at);
        mem_free(p->programs[i].first);
        mem_free(p->programs[i].last);
    }
    *p = (struct plan){0};
}

static int64_t room(const struct plan *p, const struct program *g, int id)
{
    return (value_bytes(graph_value(&g->graph, id), g->max) + p->align - 1) & -p->align;
}

/* ---- lifetimes ---- */

/* Nodes first … last use it. */
static void touch(struct program *g, int id, int first, int last)
{
    int root = value_root(&g->graph, id);
    if (!g->first[root])
        g->first[root] = first;
    g->last[root] = last;
}

/* What one of several nodes that run at the same time uses, lives as long as all of them. */
static void touch_values(struct program *g, int first, int last)
{
    for (int k = first; k <= last; k++) {
        const struct node *node = &g->graph.nodes[k];
        for (int i = 0; i < node_op(node)->n_slots; i++)
            if (node->u.slot[i])
                touch(g, node->u.slot[i], first, last);
        if (node->workspace)
            touch(g, node->workspace, first, last);
    }
}

static int find_lifetimes(struct program *g, struct snug_err *err)
{
    size_t n = (size_t)g->graph.n_values;
    g->at = mem_alloc(n * sizeof *g->at);
    g->first = mem_alloc(n * sizeof *g->first);
    g->last = mem_alloc(n * sizeof *g->last);
    if (!g->at || !g->first || !g->last)
        return err_no_memory(err, n * sizeof *g->at);
    for (size_t i = 0; i < n; i++)
        g->at[i] = -1;
    for (int k = 1, end; k < g->graph.n_nodes; k = end) {
        for (end = k + 1; end < g->graph.n_nodes && g->graph.nodes[end].joins; end++)
            ;
        touch_values(g, k, end - 1);
    }
    for (size_t i = 1; i < n; i++)
        if (g->graph.values[i].live_out && g->first[value_root(&g->graph, (int)i)])
            g->last[value_root(&g->graph, (int)i)] = g->graph.n_nodes;
    return SNUG_OK;
}

static bool is_transient(const struct program *g, int id)
{
    const struct value *v = graph_value(&g->graph, id);
    return !v->base && !v->persists && g->first[id];
}

/* ---- what persists ---- */

/* The place of a persistent value in an earlier program, by name; -1 if it is new. */
static int64_t known_place(const struct plan *p, int before, const struct value *v)
{
    for (int k = 0; k < before; k++) {
        int id = graph_find(&p->programs[k].graph, v->name);
        if (id && p->programs[k].graph.values[id].persists && !p->programs[k].graph.values[id].base)
            return p->programs[k].at[id];
    }
    return -1;
}

/* The bytes of a persistent value are those of the largest program that has it. */
static int64_t persistent_room(const struct plan *p, const char *name)
{
    int64_t bytes = 0;
    for (int k = 0; k < p->n_programs; k++) {
        int id = graph_find(&p->programs[k].graph, name);
        int64_t here = id ? room(p, &p->programs[k], id) : 0;
        bytes = here > bytes ? here : bytes;
    }
    return bytes;
}

static void place_persistent(struct plan *p, bool inputs)
{
    for (int k = 0; k < p->n_programs; k++) {
        struct program *g = &p->programs[k];
        for (int i = 1; i < g->graph.n_values; i++) {
            const struct value *v = graph_value(&g->graph, i);
            if (!v->persists || v->base || (v->role == ROLE_INPUT) != inputs)
                continue;
            g->at[i] = known_place(p, k, v);
            if (g->at[i] < 0) {
                g->at[i] = p->persistent_bytes;
                p->persistent_bytes += persistent_room(p, v->name);
            }
        }
    }
}

/* ---- what lives within a program ---- */

struct item {
    int id;
    int64_t bytes, at;
    double weight; /* large ones are placed first */
};

static int by_weight(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->id - y->id;
}

static int by_place(const void *a, const void *b)
{
    const struct item *const *x = a, *const *y = b;
    return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

static bool overlap(const struct program *g, int a, int b)
{
    return g->first[a] <= g->last[b] && g->first[b] <= g->last[a];
}

/* Puts items[k] into the tightest hole between the items placed before it that live at the same time; gives its end. */
static int64_t place_item(const struct program *g, struct item *items, int k, struct item **beside)
{
    int n = 0;
    for (int j = 0; j < k; j++)
        if (overlap(g, items[j].id, items[k].id))
            beside[n++] = &items[j];
    qsort(beside, (size_t)n, sizeof *beside, by_place);
    int64_t end = 0, best = -1, best_hole = INT64_MAX;
    for (int j = 0; j < n; j++) {
        int64_t hole = beside[j]->at - end;
        if (hole >= items[k].bytes && hole < best_hole)
            best = end, best_hole = hole;
        if (beside[j]->at + beside[j]->bytes > end)
            end = beside[j]->at + beside[j]->bytes;
    }
    items[k].at = best >= 0 ? best : end;
    return items[k].at + items[k].bytes;
}

static int64_t place_in_order(const struct program *g, struct item *items, int n, struct item **beside)
{
    int64_t peak = 0;
    qsort(items, (size_t)n, sizeof *items, by_weight);
    for (int k = 0; k < n; k++) {
        int64_t end = place_item(g, items, k, beside);
        peak = end > peak ? end : peak;
    }
    return peak;
}

/* Orders to try: size x lifetime reached the lower bound on every transformer step measured; the others cost
 * milliseconds. */
static double weigh(const struct program *g, int id, int64_t bytes, int order)
{
    double life = g->last[id] - g->first[id] + 1, size = (double)bytes;
    switch (order) {
    case 0:
        return size * life;
    case 1:
        return size;
    case 2:
        return life;
    default:
        return -(double)g->first[id];
    }
}

enum { ORDERS = 4 };

static int pack_program(const struct plan *p, struct program *g, struct snug_err *err)
{
    int n = 0, n_values = g->graph.n_values;
    struct item *items = mem_alloc((size_t)n_values * sizeof *items);
    struct item **beside = mem_alloc((size_t)n_values * sizeof *beside);
    if (!items || !beside) {
        mem_free(items);
        mem_free(beside);
        return err_no_memory(err, (unsigned long long)n_values * sizeof *items);
    }
    for (int i = 1; i < n_values; i++)
        if (is_transient(g, i))
            items[n++] = (struct item){.id = i, .bytes = room(p, g, i)};
    g->peak_bytes = INT64_MAX;
    for (int order = 0; order < ORDERS && g->peak_bytes > g->lower_bound_bytes; order++) {
        for (int i = 0; i < n; i++)
            items[i].weight = weigh(g, items[i].id, items[i].bytes, order);
        int64_t peak = place_in_order(g, items, n, beside);
        if (peak >= g->peak_bytes)
            continue;
        g->peak_bytes = peak;
        for (int i = 0; i < n; i++)
            g->at[items[i].id] = items[i].at;
    }
    mem_free(items);
    mem_free(beside);
    return SNUG_OK;
}

static int find_lower_bound(const struct plan *p, struct program *g, struct snug_err *err)
{
    int n = g->graph.n_nodes;
    int64_t *change = mem_alloc((size_t)(n + 2) * sizeof *change), live = 0;
    if (!change)
        return err_no_memory(err, (unsigned long long)(n + 2) * sizeof *change);
    for (int i = 1; i < g->graph.n_values; i++)
        if (is_transient(g, i)) {
            change[g->first[i]] += room(p, g, i);
            change[g->last[i] + 1] -= room(p, g, i);
        }
    for (int k = 1; k <= n; k++) {
        live += change[k];
        if (live > g->lower_bound_bytes) {
            g->lower_bound_bytes = live;
            g->peak_node = k;
        }
    }
    mem_free(change);
    return SNUG_OK;
}

/* Transient places are behind what persists; slices lie in their bases. */
static void resolve(struct plan *p, struct program *g)
{
    for (int i = 1; i < g->graph.n_values; i++)
        if (is_transient(g, i))
            g->at[i] += p->persistent_bytes;
    for (int i = 1; i < g->graph.n_values; i++) {
        const struct value *v = graph_value(&g->graph, i);
        if (v->base && g->at[v->base] >= 0)
            g->at[i] = g->at[v->base] + dtype_bytes(v->dtype, v->at);
    }
}

int plan_pack(struct plan *p, struct snug_err *err)
{
    int64_t transient = 0, bound = 0;
    p->align = p->align ? p->align : 64;
    for (int k = 0; k < p->n_programs; k++)
        TRY(find_lifetimes(&p->programs[k], err));
    place_persistent(p, true);
    p->inputs_bytes = p->persistent_bytes;
    p->persistent_bytes += p->staging * p->inputs_bytes;
    place_persistent(p, false);
    for (int k = 0; k < p->n_programs; k++) {
        struct program *g = &p->programs[k];
        TRY(find_lower_bound(p, g, err));
        TRY(pack_program(p, g, err));
        resolve(p, g);
        if (g->peak_bytes > transient) {
            transient = g->peak_bytes;
            p->largest = k;
        }
        bound = g->lower_bound_bytes > bound ? g->lower_bound_bytes : bound;
    }
    p->arena_bytes = p->persistent_bytes + transient;
    p->lower_bound_bytes = p->persistent_bytes + bound;
    return plan_check(p, err);
}

/* ---- proof and report ---- */

static int broken(struct snug_err *err, const struct program *g, int a, int b, const char *what)
{
    return err_set(err, SNUG_ERR_ENV, "plan: program %s: values %d and %d: %s", g->name, a, b, what);
}

struct box {
    int id;
    int64_t at, end;
};

static int by_start(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int check_program(const struct plan *p, const struct program *g, struct snug_err *err)
{
    struct box *boxes = mem_alloc((size_t)g->graph.n_values * sizeof *boxes);
    int n = 0, code = SNUG_OK;
    if (!boxes)
        return err_no_memory(err, (unsigned long long)g->graph.n_values * sizeof *boxes);
    for (int i = 1; i < g->graph.n_values; i++) {
        const struct value *v = graph_value(&g->graph, i);
        if (g->at[i] >= 0 && !v->base)
            boxes[n++] = (struct box){i, g->at[i], g->at[i] + value_bytes(v, g->max)};
        else if (!v->base && g->first[i])
            code = broken(err, g, i, i, "has no place");
    }
    qsort(boxes, (size_t)n, sizeof *boxes, by_start);
    for (int i = 0; i < n && !code; i++) {
        const struct value *v = graph_value(&g->graph, boxes[i].id);
        if (boxes[i].at % p->align || boxes[i].end > p->arena_bytes ||
            (v->persists ? boxes[i].end > p->persistent_bytes : boxes[i].at < p->persistent_bytes))
            code = broken(err, g, boxes[i].id, boxes[i].id, "lies outside its part of the arena");
        for (int j = i + 1; j < n && boxes[j].at < boxes[i].end && !code; j++)
            if (v->persists || g->graph.values[boxes[j].id].persists || overlap(g, boxes[i].id, boxes[j].id))
                code = broken(err, g, boxes[i].id, boxes[j].id, "live at once and share bytes");
    }
    mem_free(boxes);
    return code;
}

int plan_check(const struct plan *p, struct snug_err *err)
{
    for (int k = 0; k < p->n_programs; k++) {
        const struct program *g = &p->programs[k];
        TRY(check_program(p, g, err));
        for (int i = 1; i < g->graph.n_values; i++) {
            const struct value *v = graph_value(&g->graph, i);
            int64_t place = v->persists && !v->base ? known_place(p, k, v) : -1;
            if (place >= 0 && place != g->at[i])
                return broken(err, g, i, i, "persists at two places");
        }
    }
    return SNUG_OK;
}

/* Of weight `id`, which takes so many bytes: what is not trained of it, or of its parts. */
static int64_t frozen_bytes(const struct graph *g, int id, int64_t bytes)
{
    int64_t frozen = 0;
    if (!graph_value(g, id)->group)
        return graph_value(g, id)->frozen ? bytes : 0;
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].base == id && g->values[i].frozen)
            frozen += value_bytes(&g->values[i], (struct dims){0});
    return frozen;
}

void plan_anatomy(const struct plan *p, int k, int node, struct anatomy *a, int64_t *by_layer, int n_layers)
{
    const struct program *g = &p->programs[k];
    int64_t staging = p->staging * p->inputs_bytes;
    *a = (struct anatomy){.by_role[ROLE_INPUT] = staging, .total = staging};
    if (by_layer)
        by_layer[0] += staging;
    for (int i = 1; i < g->graph.n_values; i++) {
        const struct value *v = graph_value(&g->graph, i);
        if (v->base || g->at[i] < 0 || !(v->persists || (g->first[i] <= node && node <= g->last[i])))
            continue;
        int64_t bytes = v->persists ? persistent_room(p, v->name) : room(p, g, i);
        a->by_role[v->role] += bytes;
        a->frozen += frozen_bytes(&g->graph, i, bytes);
        a->total += bytes;
        if (by_layer && v->layer < n_layers)
            by_layer[v->layer] += bytes;
    }
    /* What another program keeps and this one does not know is there all the same. */
    for (int other = 0; other < p->n_programs; other++) {
        const struct graph *og = &p->programs[other].graph;
        for (int i = 1; i < og->n_values && other != k; i++) {
            const struct value *v = &og->values[i];
            if (!v->persists || v->base || graph_find(&g->graph, v->name) || known_place(p, other, v) >= 0)
                continue;
            a->by_role[v->role] += persistent_room(p, v->name);
            a->total += persistent_room(p, v->name);
            if (by_layer && v->layer < n_layers)
                by_layer[v->layer] += persistent_room(p, v->name);
        }
    }
}
