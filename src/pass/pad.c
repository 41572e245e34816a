#include "graph/uses.h"
#include "pass/pass.h"

/* The parts of a linear layer in a node of it; 0 where it has no such part, or not one that can be padded. */
struct layer {
    int result, weight, bias;
};

static struct layer layer_of(const struct node *n)
{
    if (n->op == OP_linear && !n->u.linear.in_out)
        return (struct layer){n->u.linear.slope || n->u.linear.act || n->u.linear.add ? 0 : n->u.linear.y,
                              n->u.linear.w, n->u.linear.b};
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
static bool may_be_padded(const struct graph *g, const struct uses *u, int id)
{
    if (g->values[id].live_out || !is_whole(g, id))
        return false;
    for (int i = u->from[id]; i < u->from[id + 1]; i++) {
        const struct node *n = &g->nodes[u->at[i].node];
        struct layer l = layer_of(n);
        if (!op_slot_is(n->op, u->at[i].slot, SLOT_PADDED) || n->u.slot[u->at[i].slot] != id ||
            (op_is_product(n->op) && (l.result != id || !is_whole(g, l.weight) || !is_whole(g, l.bias))))
            return false;
    }
    return true;
}

/* What a dimension of a value lacks to a multiple of `sizes`; 0 where it is small: the product costs little as it is. */
static int64_t missing(const struct value *v, int dimension, int64_t sizes)
{
    enum { LARGE = 1024 };
    struct dim d = v->shape[dimension];
    return !dim_is_constant(d) || d.c < LARGE ? 0 : (sizes - d.c % sizes) % sizes;
}

/* Whatever becomes of the result: it is one weight in all programs. */
static void pad_weight(struct graph *g, int id, int64_t sizes)
{
    if (id && is_whole(g, id))
        graph_value(g, id)->pad_rows = missing(graph_value(g, id), 0, sizes);
}

/* Its logits are in a workspace, which has them padded as the weight is. */
static void pad_head(struct graph *g, const struct op_linear_cross_entropy *n, int64_t sizes)
{
    pad_weight(g, n->w, sizes);
    pad_weight(g, n->b, sizes);
    pad_weight(g, n->dw, sizes);
}

/* A weight that training brings with its step ahead is read as it is stored where nothing is trained: it is one weight in all programs. */
static void pad_behind(struct graph *g, const struct op_ahead *n)
{
    const struct value *y = graph_value(g, n->y);
    if (y->pad_rows && is_whole(g, n->p) && graph_value(g, n->p)->dtype == y->dtype)
        graph_value(g, n->p)->pad_rows = y->pad_rows;
}

void pass_pad(struct graph *g, struct pass_settings *s)
{
    int64_t sizes = s->product_sizes;
    struct uses u = {0};
    bool pads = !g->err.code && sizes > 1 && uses_open(&u, g);
    for (int k = 1; k < g->n_nodes && pads; k++) {
        struct layer l = layer_of(&g->nodes[k]);
        struct value *result = graph_value(g, l.result);
        pad_weight(g, l.weight, sizes);
        pad_weight(g, l.bias, sizes);
        if (g->nodes[k].op == OP_linear_cross_entropy)
            pad_head(g, &g->nodes[k].u.linear_cross_entropy, sizes);
        int64_t columns = missing(result, 1, sizes);
        if (l.result && columns && may_be_padded(g, &u, l.result))
            result->pitch = result->shape[1].c + columns;
    }
    for (int k = 1; k < g->n_nodes && pads; k++)
        if (g->nodes[k].op == OP_ahead)
            pad_behind(g, &g->nodes[k].u.ahead);
    uses_close(&u);
}
