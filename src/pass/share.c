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
    if (writer)
        find_writers(g, writer);
    else
        err_no_memory(&g->err, (unsigned long long)n_values * sizeof *writer);
    for (int i = 1; i < n_values && !g->err.code; i++) {
        g->layer = graph_value(g, i)->layer;
        if (writer[i])
            emit_broadcast(g, &(struct op_broadcast){.x = i, .from = writer[i]});
    }
    mem_free(writer);
    if (weights_leave(s))
        meet(g);
}
