#include "pass/pass.h"

/* Where the parts of a linear layer stand in a node of it; 0 where it has no such part. */
struct layer {
    int result, weight, bias;
};

static struct layer layer_of(const struct node *n)
{
    if (n->op == OP_linear && !n->u.linear.in_out && !n->u.linear.u && !n->u.linear.act)
        return (struct layer){n->u.linear.y, n->u.linear.w, n->u.linear.b};
    if (n->op == OP_linear_dx && !n->u.linear_dx.in_out)
        return (struct layer){n->u.linear_dx.dy, n->u.linear_dx.w, 0};
    if (n->op == OP_linear_dw && !n->u.linear_dw.in_out)
        return (struct layer){n->u.linear_dw.dy, n->u.linear_dw.dw, 0};
    return (struct layer){0};
}

static bool is_whole(const struct graph *g, int id)
{
    return !g->values[id].base && !g->values[id].group;
}

/* Whether all that touches the rows of `id` knows padding: loss ops, and linear layers that can be padded with it. */
static bool may_be_padded(const struct graph *g, int id)
{
    for (int k = 1; k < g->n_nodes; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++) {
            const struct node *n = &g->nodes[k];
            if (!n->u.slot[i] || value_root(g, n->u.slot[i]) != id)
                continue;
            bool is_linear = n->op == OP_linear || n->op == OP_linear_dx || n->op == OP_linear_dw;
            struct layer l = layer_of(n);
            if (!op_takes_padded_rows(n->op, i) || n->u.slot[i] != id ||
                (is_linear && (l.result != id || !is_whole(g, l.weight) || !is_whole(g, l.bias))))
                return false;
        }
    return true;
}

void pass_pad(struct graph *g, int64_t sizes)
{
    enum { LARGE = 1024 }; /* outputs: a product with fewer costs little as it is */
    for (int k = 1; k < g->n_nodes && sizes > 1; k++) {
        struct layer l = layer_of(&g->nodes[k]);
        struct value *result = graph_value(g, l.result);
        struct dim outputs = result->shape[1];
        int64_t pad = (sizes - outputs.c % sizes) % sizes;
        if (!l.result || outputs.t || outputs.b || outputs.c < LARGE || !pad || !may_be_padded(g, l.result))
            continue;
        result->pad[1] = graph_value(g, l.weight)->pad[0] = pad;
        if (l.bias)
            graph_value(g, l.bias)->pad[0] = pad;
    }
}
