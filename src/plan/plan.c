#include "graph/lanes.h"
#include "plan/pack.h"

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
        mem_free(p->programs[i].again);
    }
    *p = (struct plan){0};
}

int64_t plan_room(const struct plan *p, const struct program *g, int id)
{
    return (value_bytes(graph_value(&g->graph, id), g->max) + p->align - 1) & -p->align;
}

bool plan_is_transient(const struct program *g, int id)
{
    const struct value *v = graph_value(&g->graph, id);
    return !v->base && !v->persists && v->memory == MEMORY_DEVICE && g->first[id];
}

/* ---- lifetimes ---- */

static bool uses_any(const struct graph *g, const struct node *n, const bool *roots)
{
    for (int i = 0; i < node_op(n)->n_slots; i++)
        if (n->u.slot[i] && roots[value_root(g, n->u.slot[i])])
            return true;
    return false;
}

/* The latest node before which what trails has room below the peak all along, and before which nothing uses it and no other lane begins, which
 * would wait for its end; 0: there is none. */
static int find_settle(const struct program *g, const bool *trails, const int64_t *bytes)
{
    int64_t most = 0, more = 0;
    int k = 1, end = 1;
    for (int i = 1; i <= g->graph.n_nodes; i++)
        most = bytes[i] > most ? bytes[i] : most;
    for (int i = 1; i < g->graph.n_values; i++)
        more += trails[i] && plan_is_transient(g, i) ? value_bytes(graph_value(&g->graph, i), g->max) : 0;
    while (end < g->graph.n_nodes && g->graph.nodes[end].lane == LANE_COMPUTE &&
           !uses_any(&g->graph, &g->graph.nodes[end], trails))
        end++;
    while (k < end && bytes[k] + more <= most)
        k++;
    while (k > 1 && k < g->graph.n_nodes && g->graph.nodes[k].joins) /* whole launches alone */
        k--;
    return more && k > 1 ? k : 0;
}

static int find_trailing(struct program *g, struct snug_err *err)
{
    int64_t *bytes = lives_bytes(&g->graph, g->max);
    bool *trails = mem_alloc((size_t)g->graph.n_values * sizeof *trails);
    if (bytes && trails) {
        lives_trailing(&g->graph, trails);
        g->settle = find_settle(g, trails, bytes);
        for (int i = 1; i < g->graph.n_values && g->settle; i++)
            g->again[i] = trails[i] && !g->graph.values[i].persists ? g->settle - 1 : 0;
    }
    int code = bytes && trails ? SNUG_OK : err_no_memory(err, (unsigned long long)g->graph.n_values * sizeof *bytes);
    mem_free(bytes);
    mem_free(trails);
    return code;
}

static int find_lifetimes(struct program *g, struct snug_err *err)
{
    size_t n = (size_t)g->graph.n_values;
    g->at = mem_alloc(n * sizeof *g->at);
    g->first = mem_alloc(n * sizeof *g->first);
    g->last = mem_alloc(n * sizeof *g->last);
    g->again = mem_alloc(n * sizeof *g->again);
    if (!g->at || !g->first || !g->last || !g->again)
        return err_no_memory(err, n * sizeof *g->at);
    for (size_t i = 0; i < n; i++)
        g->at[i] = -1;
    lives_find(&g->graph, g->first, g->last);
    return g->trails ? find_trailing(g, err) : SNUG_OK;
}

/* ---- what persists ---- */

int64_t plan_known_place(const struct plan *p, int before, const struct value *v)
{
    for (int k = 0; k < before; k++) {
        int id = graph_find(&p->programs[k].graph, v->name);
        if (id && p->programs[k].graph.values[id].persists && !p->programs[k].graph.values[id].base)
            return p->programs[k].at[id];
    }
    return -1;
}

int64_t plan_persistent_room(const struct plan *p, const char *name)
{
    int64_t bytes = 0;
    for (int k = 0; k < p->n_programs; k++) {
        int id = graph_find(&p->programs[k].graph, name);
        int64_t here = id ? plan_room(p, &p->programs[k], id) : 0;
        bytes = here > bytes ? here : bytes;
    }
    return bytes;
}

/* Of what all ranks have (0), of what one has alone, or of shards. */
enum { SHARDS = -1 };
static bool is_of(const struct value *v, int rank)
{
    return v->shards ? rank == SHARDS : v->rank == rank;
}

/* end: by memory, where there is room. */
static void place_persistent(struct plan *p, bool inputs, int rank, int64_t *end)
{
    for (int k = 0; k < p->n_programs; k++) {
        struct program *g = &p->programs[k];
        for (int i = 1; i < g->graph.n_values; i++) {
            const struct value *v = graph_value(&g->graph, i);
            if (!v->persists || v->base || (v->role == ROLE_INPUT) != inputs || !is_of(v, rank))
                continue;
            g->at[i] = plan_known_place(p, k, v);
            if (g->at[i] < 0) {
                g->at[i] = end[v->memory];
                end[v->memory] += plan_persistent_room(p, v->name);
            }
        }
    }
}

static int count_owners(const struct plan *p)
{
    int n = 0;
    for (int k = 0; k < p->n_programs; k++)
        for (int i = 1; i < p->programs[k].graph.n_values; i++)
            n = p->programs[k].graph.values[i].rank > n ? p->programs[k].graph.values[i].rank : n;
    return n;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What is of one rank lies behind what all have, from the same place on in each rank's arena: a plan does for all of them. Shards come
 * first, with room for the largest on every rank. */
static void place_owned(struct plan *p)
{
    int n = count_owners(p);
    int64_t dealt[MEMORY_COUNT];
    for (enum memory m = 0; m < MEMORY_COUNT; m++)
        dealt[m] = p->owned_at[m] = plan_persistent_bytes(p, m);
    place_persistent(p, false, SHARDS, dealt);
    p->fullest = dealt[MEMORY_DEVICE] > p->owned_at[MEMORY_DEVICE];
    p->persistent_bytes = dealt[MEMORY_DEVICE];
    p->least_bytes = n ? INT64_MAX : p->persistent_bytes;
    for (int rank = 1; rank <= n; rank++) {
        int64_t end[MEMORY_COUNT];
        memcpy(end, dealt, sizeof end);
        place_persistent(p, false, rank, end);
        if (rank == 1 || end[MEMORY_DEVICE] > p->persistent_bytes)
            p->fullest = rank;
        p->least_bytes = end[MEMORY_DEVICE] < p->least_bytes ? end[MEMORY_DEVICE] : p->least_bytes;
        p->persistent_bytes = larger(end[MEMORY_DEVICE], p->persistent_bytes);
        p->host_persistent_bytes = larger(end[MEMORY_HOST], p->host_persistent_bytes);
        p->disk_bytes = larger(end[MEMORY_DISK], p->disk_bytes);
    }
}

/* ---- what lives within a program ---- */

/* Activations in the host's memory are all there where the backward pass begins, and what is on its way between a disk and a device is used
 * again and again, so each has a place of its own. */
static void place_in_host(struct plan *p)
{
    p->host_bytes = p->host_persistent_bytes;
    for (int k = 0; k < p->n_programs; k++) {
        struct program *g = &p->programs[k];
        int64_t end = p->host_persistent_bytes;
        for (int i = 1; i < g->graph.n_values; i++) {
            const struct value *v = graph_value(&g->graph, i);
            if (v->base || v->persists || v->memory != MEMORY_HOST || !g->first[i])
                continue;
            g->at[i] = end;
            end += plan_room(p, g, i);
        }
        p->host_bytes = larger(end, p->host_bytes);
    }
}

int plan_check_stop(const struct plan *p, struct snug_err *err)
{
    return stop_asked(p->stop)
               ? err_set(err, SNUG_STOPPED, "stopped by a signal while the run was planned; there is nothing to save")
               : SNUG_OK;
}

static int find_lower_bound(const struct plan *p, struct program *g, struct snug_err *err)
{
    int n = g->graph.n_nodes;
    int64_t *change = mem_alloc((size_t)(n + 2) * sizeof *change), live = 0;
    if (!change)
        return err_no_memory(err, (unsigned long long)(n + 2) * sizeof *change);
    for (int i = 1; i < g->graph.n_values; i++)
        if (plan_is_transient(g, i)) {
            change[g->first[i]] += plan_room(p, g, i);
            change[g->last[i] + 1] -= plan_room(p, g, i);
            if (g->again[i]) {
                change[1] += plan_room(p, g, i);
                change[g->again[i] + 1] -= plan_room(p, g, i);
            }
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
        if (plan_is_transient(g, i))
            g->at[i] += p->persistent_bytes;
    for (int i = 1; i < g->graph.n_values; i++) {
        const struct value *v = graph_value(&g->graph, i);
        if (v->base && g->at[v->base] >= 0)
            g->at[i] = g->at[v->base] + dtype_bytes(v->dtype, v->at);
    }
}

/* Places of all values, and the transient bytes of the largest program. INT64_MAX: more than may be. */
static int pack_programs(struct plan *p, int64_t most, int64_t *transient, struct snug_err *err)
{
    *transient = 0;
    for (int k = 0; k < p->n_programs && *transient <= most; k++) {
        struct program *g = &p->programs[k];
        TRY(plan_pack_program(p, g, most, err));
        resolve(p, g);
        if (g->peak_bytes > *transient) {
            *transient = g->peak_bytes;
            p->largest = k;
        }
    }
    return SNUG_OK;
}

int plan_pack(struct plan *p, struct snug_err *err)
{
    int64_t transient = INT64_MAX, bound = 0;
    p->align = p->align ? p->align : 64;
    for (int k = 0; k < p->n_programs; k++)
        TRY(find_lifetimes(&p->programs[k], err));
    int64_t end[MEMORY_COUNT] = {0};
    place_persistent(p, true, 0, end);
    p->inputs_bytes = end[MEMORY_DEVICE];
    p->images_bytes = p->staging * p->inputs_bytes;
    end[MEMORY_DEVICE] += p->images_bytes;
    place_persistent(p, false, 0, end);
    p->persistent_bytes = end[MEMORY_DEVICE];
    p->host_persistent_bytes = end[MEMORY_HOST];
    p->disk_bytes = end[MEMORY_DISK];
    place_owned(p);
    place_in_host(p);
    for (int k = 0; k < p->n_programs; k++) {
        TRY(find_lower_bound(p, &p->programs[k], err));
        bound = p->programs[k].lower_bound_bytes > bound ? p->programs[k].lower_bound_bytes : bound;
    }
    int64_t most = (p->trial && p->trial_most ? p->trial_most : INT64_MAX - 1) - p->persistent_bytes;
    if (bound <= most)
        TRY(pack_programs(p, most, &transient, err));
    p->arena_bytes = transient < INT64_MAX ? p->persistent_bytes + transient : INT64_MAX;
    p->lower_bound_bytes = p->persistent_bytes + bound;
    return p->trial ? SNUG_OK : plan_check(p, err);
}
