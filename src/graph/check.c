#include "graph/graph.h"

#include <string.h>

static int broken(struct snug_err *err, const char *pass, const struct graph *g, int node, int slot, const char *what)
{
    const struct node *n = &g->nodes[node];
    return err_set(err, SNUG_ERR_INPUT, "graph after %s: node %d, %s, slot %s (value %d): %s", pass, node,
                   node_op(n)->name, node_op(n)->slots[slot].name, n->u.slot[slot], what);
}

static int check_value(const struct graph *g, int id, const char *pass, struct snug_err *err)
{
    const struct value *v = graph_value(g, id);
    const char *what = NULL;
    struct dims big;
    for (int i = 0; i < DIMS; i++)
        big.of[i] = 1 << 20;
    if (v->ndim < 1 && v->dtype)
        what = "has no shape";
    else if (v->base < 0 || v->base >= id || (v->base && !g->values[v->base].ndim))
        what = "is a slice of nothing that stands before it";
    else if (v->of < 0 || v->of >= g->n_values || !v->of != !v->kin || (v->of && g->values[v->of].role != ROLE_WEIGHT))
        what = "is of no weight";
    else if (v->base && (v->at < 0 || v->at + value_elements(v, big) > value_elements(&g->values[v->base], big) ||
                         v->dtype != g->values[v->base].dtype))
        what = "does not lie inside its base, or has another dtype";
    else if ((v->pad[0] || v->pad[1]) &&
             (v->base || v->group || v->pad[0] < 0 || v->pad[1] < 0 || (v->pad[1] && v->ndim != 2)))
        what = "cannot have such padding";
    return what ? err_set(err, SNUG_ERR_INPUT, "graph after %s: value %d %s", pass, id, what) : SNUG_OK;
}

static int check_node(const struct graph *g, int k, bool *written, const char *pass, struct snug_err *err)
{
    const struct node *n = &g->nodes[k];
    const struct op_info *op = node_op(n);
    for (int i = 0; i < op->n_slots; i++) {
        int id = n->u.slot[i];
        enum slot_kind kind = op->slots[i].kind;
        bool required = kind == SLOT_IN || kind == SLOT_INOUT || kind == SLOT_OUT || kind == SLOT_F32;
        if (id < 0 || id >= g->n_values)
            return broken(err, pass, g, k, i, "no such value");
        if (!id && required)
            return broken(err, pass, g, k, i, "is missing");
        if (!id)
            continue;
        int root = value_root(g, id);
        if (g->values[root].pad[1] && !op_takes_padded_rows(n->op, i))
            return broken(err, pass, g, k, i, "has rows with padding, which this op does not know");
        if (kind == SLOT_F32 && !g->values[id].exact)
            return broken(err, pass, g, k, i, "a statistic must be exact");
        if (node_reads(n, i) && !written[root] && !g->values[root].live_in)
            return broken(err, pass, g, k, i, "is read before anything writes it");
        if (kind == SLOT_ACC && id != root)
            return broken(err, pass, g, k, i, "gradients accumulate in whole values, not in slices");
        if (kind == SLOT_ACC && !(n->add >> i & 1) && (written[root] || g->values[root].live_in))
            return broken(err, pass, g, k, i, "overwrites a gradient that it must add to");
        if ((kind == SLOT_OUT || kind == SLOT_MAYBE || kind == SLOT_F32) && written[root])
            return broken(err, pass, g, k, i, "is written twice");
    }
    for (int i = 0; i < op->n_slots; i++)
        if (node_writes(n, i))
            written[value_root(g, n->u.slot[i])] = true;
    return SNUG_OK;
}

static bool is_made(enum slot_kind kind)
{
    return kind == SLOT_OUT || kind == SLOT_MAYBE || kind == SLOT_F32;
}

/* The op's shape rule once more, on `copy`, which has the same values: it accepts what the node reads, and makes the
 * shapes that are there. */
static int check_shapes(const struct graph *g, int k, struct graph *copy, const char *pass, struct snug_err *err)
{
    const struct node *n = &g->nodes[k];
    const struct op_info *op = node_op(n);
    union op_any made = n->u;
    for (int i = 0; i < op->n_slots; i++)
        if (is_made(op->slots[i].kind))
            made.slot[i] = 0;
    copy->n_values = g->n_values;
    op->shape(copy, &made);
    if (copy->err.code)
        return err_set(err, copy->err.code, "graph after %s: node %d: %s", pass, k, copy->err.text);
    for (int i = 0; i < op->n_slots; i++) {
        const struct value *have = graph_value(g, n->u.slot[i]), *want = graph_value(copy, made.slot[i]);
        bool same = have->ndim == want->ndim;
        for (int d = 0; same && d < have->ndim; d++)
            same = dim_equal(have->shape[d], want->shape[d]);
        if (n->u.slot[i] && is_made(op->slots[i].kind) && !same)
            return broken(err, pass, g, k, i, "has not the shape that the op makes");
    }
    return SNUG_OK;
}

/* All activations of a node have one dtype, but for a cast's. */
static int check_types(const struct graph *g, int k, const char *pass, struct snug_err *err)
{
    const struct node *n = &g->nodes[k];
    int first = 0;
    for (int i = 0; n->op != OP_cast && i < node_op(n)->n_slots; i++) {
        const struct value *v = graph_value(g, n->u.slot[i]);
        if (!n->u.slot[i] || v->role != ROLE_ACTIVATION || v->exact)
            continue;
        if (first && v->dtype != g->values[first].dtype)
            return broken(err, pass, g, k, i, "has another dtype than the node's other activations");
        first = n->u.slot[i];
    }
    return SNUG_OK;
}

static int check_nodes(const struct graph *g, bool *written, const char *pass, struct snug_err *err)
{
    struct graph copy = {.n_values = g->n_values};
    int code = SNUG_OK;
    if (!MEM_GROW(copy.values, copy.cap_values, (size_t)g->n_values + OP_MAX_SLOTS))
        return err_no_memory(err, (unsigned long long)g->n_values * sizeof *copy.values);
    memcpy(copy.values, g->values, (size_t)g->n_values * sizeof *copy.values);
    for (int k = 1; k < g->n_nodes && !code; k++) {
        code = check_node(g, k, written, pass, err);
        if (!code)
            code = check_shapes(g, k, &copy, pass, err);
        if (!code)
            code = check_types(g, k, pass, err);
    }
    mem_free(copy.values);
    return code;
}

int graph_check(const struct graph *g, const char *pass, struct snug_err *err)
{
    TRY(graph_ok(g, err));
    bool *written = mem_alloc((size_t)g->n_values);
    if (!written)
        return err_no_memory(err, (unsigned long long)g->n_values);
    int code = SNUG_OK;
    for (int i = 1; i < g->n_values && !code; i++)
        code = check_value(g, i, pass, err);
    if (!code)
        code = check_nodes(g, written, pass, err);
    for (int i = 1; i < g->n_values && !code; i++)
        if (g->values[i].live_out && !g->values[i].live_in && !written[value_root(g, i)])
            code = err_set(err, SNUG_ERR_INPUT, "graph after %s: value %d is wanted but nothing writes it", pass, i);
    mem_free(written);
    return code;
}
