#include "pass/pass.h"

#include <stddef.h>

/* The node that writes `id`, 0 where several do, one adds to it, or it is a part of something else. */
static int only_writer(const struct graph *g, int id)
{
    int writer = 0;
    for (int k = 1; k < g->n_nodes; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++) {
            if (!node_writes(&g->nodes[k], i) || g->nodes[k].u.slot[i] != id)
                continue;
            if (writer || (g->nodes[k].add >> i & 1))
                return 0;
            writer = k;
        }
    return graph_value(g, id)->base ? 0 : writer;
}

/* Whether a node of [from, end) reads or writes what `id` lies in. */
static bool is_touched(const struct graph *g, int from, int end, int id)
{
    for (int k = from; k < end; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++)
            if (g->nodes[k].u.slot[i] && value_root(g, g->nodes[k].u.slot[i]) == id)
                return true;
    return false;
}

#define SLOT(opname, slot) (int)(offsetof(struct op_##opname, slot) / sizeof(int))

/* The slot of a node that takes the sums over the rows of `dy`, which the node writes; -1 where it has none. */
static int sums_slot(const struct node *n, int dy)
{
    if (n->op == OP_act_bwd && n->u.act_bwd.du == dy && !n->u.act_bwd.dbias)
        return SLOT(act_bwd, dbias);
    if (n->op == OP_attention_bwd && n->u.attention_bwd.dqkv == dy && !n->u.attention_bwd.dbias)
        return SLOT(attention_bwd, dbias);
    if (n->op == OP_norm_bwd && n->u.norm_bwd.dx == dy && !n->u.norm_bwd.dbias)
        return SLOT(norm_bwd, dbias);
    return -1;
}

void pass_fold_bias(struct graph *g)
{
    const int db = SLOT(linear_dw, db);
    for (int k = 1; k < g->n_nodes && !g->err.code; k++) {
        struct node *n = &g->nodes[k];
        int bias = n->op == OP_linear_dw ? n->u.linear_dw.db : 0;
        int w = bias ? only_writer(g, n->u.linear_dw.dy) : 0;
        int to = w ? sums_slot(&g->nodes[w], n->u.linear_dw.dy) : -1;
        if (to < 0 || w > k || is_touched(g, w, k, bias))
            continue;
        g->nodes[w].u.slot[to] = bias;
        g->nodes[w].add |= (n->add >> db & 1) << to;
        n->u.linear_dw.db = 0;
        n->add &= ~(1u << db);
    }
}
