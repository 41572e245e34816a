#include "graph/uses.h"

static bool no_memory(struct graph *g, size_t bytes)
{
    if (!g->err.code)
        err_no_memory(&g->err, bytes);
    return false;
}

/* Turns the numbers of entries by key, counted in from[key + 1], into where those of a key begin. */
static void count_to_place(int *from, int n)
{
    for (int i = 0; i < n; i++)
        from[i + 1] += from[i];
}

/* Filling moved each begin to the next one's. */
static void restore_places(int *from, int n)
{
    for (int i = n; i > 0; i--)
        from[i] = from[i - 1];
    from[0] = 0;
}

/* ---- uses ---- */

static int count_slots(const struct graph *g)
{
    int n = 0;
    for (int k = 1; k < g->n_nodes; k++)
        n += node_op(&g->nodes[k])->n_slots;
    return n;
}

bool uses_open(struct uses *u, struct graph *g)
{
    size_t bytes = (size_t)(count_slots(g) + 1) * sizeof *u->at;
    *u = (struct uses){.from = mem_alloc((size_t)(g->n_values + 1) * sizeof *u->from), .at = mem_alloc(bytes)};
    if (!u->from || !u->at)
        return no_memory(g, bytes);
    for (int k = 1; k < g->n_nodes; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++)
            if (g->nodes[k].u.slot[i])
                u->from[value_root(g, g->nodes[k].u.slot[i]) + 1]++;
    count_to_place(u->from, g->n_values);
    for (int k = 1; k < g->n_nodes; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++)
            if (g->nodes[k].u.slot[i])
                u->at[u->from[value_root(g, g->nodes[k].u.slot[i])]++] = (struct use){k, i};
    restore_places(u->from, g->n_values);
    return true;
}

void uses_close(struct uses *u)
{
    mem_free(u->from);
    mem_free(u->at);
    *u = (struct uses){0};
}

/* ---- slices ---- */

bool slices_open(struct slices *s, struct graph *g)
{
    size_t bytes = (size_t)(g->n_values + 1) * sizeof *s->at;
    *s = (struct slices){.from = mem_alloc(bytes), .at = mem_alloc(bytes)};
    if (!s->from || !s->at)
        return no_memory(g, bytes);
    for (int i = 1; i < g->n_values; i++)
        s->from[value_root(g, i) + 1] += g->values[i].base != 0;
    count_to_place(s->from, g->n_values);
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].base)
            s->at[s->from[value_root(g, i)]++] = i;
    restore_places(s->from, g->n_values);
    return true;
}

void slices_close(struct slices *s)
{
    mem_free(s->from);
    mem_free(s->at);
    *s = (struct slices){0};
}

/* ---- hazards ---- */

/* Accesses of one root are chains from the latest to the first: of all, and of those that write. */
struct access {
    int node, before, write_before;
};

bool hazards_open(struct hazards *h, struct graph *g)
{
    size_t bytes = (size_t)(count_slots(g) + 1) * sizeof *h->accesses;
    *h = (struct hazards){.accesses = mem_alloc(bytes),
                          .last = mem_alloc((size_t)g->n_values * sizeof *h->last),
                          .last_write = mem_alloc((size_t)g->n_values * sizeof *h->last_write)};
    return (h->accesses && h->last && h->last_write) || no_memory(g, bytes);
}

void hazards_close(struct hazards *h)
{
    mem_free(h->accesses);
    mem_free(h->last);
    mem_free(h->last_write);
    *h = (struct hazards){0};
}

/* Sums of squares do not wait for each other, and there are as many as weights: they are in no chain of their common result,
 * which only they write. */
static bool is_common_result(const struct node *n, int id)
{
    return n->op == OP_sumsq && id == n->u.sumsq.partials;
}

void hazards_add(struct hazards *h, const struct graph *g, int node)
{
    const struct node *n = &g->nodes[node];
    for (int i = 0; i < node_op(n)->n_slots; i++) {
        if (!n->u.slot[i] || is_common_result(n, n->u.slot[i]))
            continue;
        int root = value_root(g, n->u.slot[i]);
        h->accesses[++h->n] =
            (struct access){.node = node, .before = h->last[root], .write_before = h->last_write[root]};
        h->last[root] = h->n;
        if (node_writes(n, i))
            h->last_write[root] = h->n;
    }
}

int hazards_find(const struct hazards *h, const struct graph *g, const struct node *n)
{
    int latest = 0;
    for (int i = 0; i < node_op(n)->n_slots; i++) {
        int root = value_root(g, n->u.slot[i]);
        bool writes = node_writes(n, i); /* else only writing matters: readers are many, and in no chain */
        int a = !n->u.slot[i] ? 0 : writes ? h->last[root] : h->last_write[root];
        while (a && h->accesses[a].node > latest && !node_conflicts(g, n, &g->nodes[h->accesses[a].node]))
            a = writes ? h->accesses[a].before : h->accesses[a].write_before;
        if (a && h->accesses[a].node > latest)
            latest = h->accesses[a].node;
    }
    return latest;
}

int hazards_writer(const struct hazards *h, const struct graph *g, int id)
{
    return h->accesses && id ? h->accesses[h->last_write[value_root(g, id)]].node : 0;
}
