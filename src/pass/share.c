#include "pass/owners.h"

/* By root: the rank whose nodes write it, of what all ranks keep. */
static void find_writers(struct graph *g, int *writer)
{
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        for (int i = 0; n->rank && i < node_op(n)->n_slots; i++) {
            int root = value_root(g, n->u.slot[i]);
            const struct value *v = graph_value(g, root);
            if (!root || !node_writes(n, i) || !v->persists || v->rank)
                continue;
            if (writer[root] && writer[root] != n->rank)
                graph_fail(g, SNUG_ERR_INPUT, "graph: ranks %d and %d write %s", writer[root], n->rank, v->name);
            writer[root] = n->rank;
        }
    }
}

/* Of what all ranks keep, but each writes its shard of: by value, whether some node does. */
static void find_shared(const struct graph *g, bool *shared)
{
    for (int k = 1; k < g->n_nodes; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++) {
            const struct value *v = graph_value(g, g->nodes[k].u.slot[i]);
            if (v->view && v->persists && node_writes(&g->nodes[k], i))
                shared[g->nodes[k].u.slot[i]] = true;
        }
}

/* Nobody pulls a weight that its owner is yet to update: behind all updates, which read what all ranks have of the norm, they wait for each
 * other, by that. */
static void meet(struct graph *g)
{
    for (int k = g->n_nodes - 1; k > 0 && !g->err.code; k--)
        if (g->nodes[k].op == OP_clip) {
            int coef = g->nodes[k].u.clip.coef;
            g->layer = 0;
            emit_broadcast(g, &(struct op_broadcast){.x = coef, .from = 1});
            graph_value(g, coef)->live_out = true;
            return;
        }
}

void pass_share(struct graph *g, struct pass_settings *s)
{
    if (g->err.code || !has_owners(s))
        return;
    int n_values = g->n_values, *writer = mem_alloc((size_t)n_values * sizeof *writer);
    bool *shared = mem_alloc((size_t)n_values * sizeof *shared);
    if (writer && shared) {
        find_writers(g, writer);
        find_shared(g, shared);
    } else {
        err_no_memory(&g->err, (unsigned long long)n_values * sizeof *writer);
    }
    for (int i = 1; i < n_values && !g->err.code; i++) {
        const struct value v = *graph_value(g, i);
        g->layer = v.layer;
        if (writer[i])
            emit_broadcast(g, &(struct op_broadcast){.x = i, .from = writer[i]});
        if (shared[i])
            emit_broadcast(g, &(struct op_broadcast){.x = v.base, .chunk = v.chunk});
    }
    mem_free(writer);
    mem_free(shared);
    if (weights_leave(s))
        meet(g);
}
