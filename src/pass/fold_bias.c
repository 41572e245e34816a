#include "graph/uses.h"
#include "pass/pass.h"

/* The node that writes `id`, 0 where several do, one adds to it or writes a part, or it is a part of something else. */
static int only_writer(const struct graph *g, const struct uses *u, int id)
{
    int writer = 0;
    for (int i = u->from[id]; i < u->from[id + 1]; i++) { /* none for a slice */
        const struct use *use = &u->at[i];
        const struct node *n = &g->nodes[use->node];
        if (!node_writes(n, use->slot))
            continue;
        if (writer || n->u.slot[use->slot] != id || (n->add >> use->slot & 1))
            return 0;
        writer = use->node;
    }
    return writer;
}

/* Where the list has node `node`, if a node of [from, node) does not use `id` too; NULL otherwise. */
static struct use *first_use_from(const struct uses *u, int from, int node, int id)
{
    struct use *found = NULL;
    for (int i = u->from[id]; i < u->from[id + 1]; i++) {
        if (u->at[i].node >= from && u->at[i].node < node)
            return NULL;
        if (u->at[i].node == node)
            found = &u->at[i];
    }
    return found;
}

/* The slot of a node that takes the sums over the rows of `dy`, which the node writes; -1 where it has none. */
static int sums_slot(const struct node *n, int dy)
{
    if (n->op == OP_act_bwd && n->u.act_bwd.du == dy && !n->u.act_bwd.dbias)
        return OP_SLOT(act_bwd, dbias);
    if (n->op == OP_attention_bwd && n->u.attention_bwd.dqkv == dy && !n->u.attention_bwd.dbias)
        return OP_SLOT(attention_bwd, dbias);
    if (n->op == OP_norm_bwd && n->u.norm_bwd.dx == dy && !n->u.norm_bwd.dbias)
        return OP_SLOT(norm_bwd, dbias);
    return -1;
}

static void fold(struct graph *g, struct uses *u, int k)
{
    const int db = OP_SLOT(linear_dw, db);
    struct node *n = &g->nodes[k];
    int bias = n->op == OP_linear_dw ? n->u.linear_dw.db : 0;
    int w = bias ? only_writer(g, u, n->u.linear_dw.dy) : 0;
    int to = w ? sums_slot(&g->nodes[w], n->u.linear_dw.dy) : -1;
    struct use *use = to >= 0 && w < k ? first_use_from(u, w, k, bias) : NULL;
    if (!use)
        return;
    g->nodes[w].u.slot[to] = bias;
    g->nodes[w].add |= (n->add >> db & 1) << to;
    n->u.linear_dw.db = 0;
    n->add &= ~(1u << db);
    *use = (struct use){w, to};
}

void pass_fold_bias(struct graph *g, struct pass_settings *s)
{
    (void)s;
    struct uses u = {0};
    if (!g->err.code && uses_open(&u, g))
        for (int k = 1; k < g->n_nodes; k++)
            fold(g, &u, k);
    uses_close(&u);
}
