#include "graph/graph.h"

#include <string.h>

static int broken(struct snug_err *err, const char *pass, const struct graph *g, int node, int slot, const char *what)
{
    const struct node *n = &g->nodes[node];
    return err_set(err, SNUG_ERR_INPUT, "graph after %s: node %d, %s, slot %s (value %d): %s", pass, node,
                   node_op(n)->name, node_op(n)->slots[slot].name, n->u.slot[slot], what);
}

/* NULL, or what is wrong with a value as columns of its base. */
static const char *wrong_columns(const struct graph *g, const struct value *v)
{
    const struct value *b = graph_value(g, v->base);
    bool matrices = v->ndim == 2 && b->ndim == 2 && dim_is_constant(v->shape[1]) && dim_is_constant(b->shape[1]);
    if (v->role != ROLE_ACTIVATION || v->exact || v->live_out || v->pad_rows || (b->pitch && !b->base) || !matrices ||
        !dim_equal(v->shape[0], b->shape[0]))
        return "cannot be columns of another";
    return v->pitch != (b->base ? b->pitch : b->shape[1].c) || v->at < 0 || v->at + v->shape[1].c > b->shape[1].c ||
                   v->dtype != b->dtype
               ? "is no columns of its base, or has another dtype"
               : NULL;
}

static const char *wrong_slice(const struct graph *g, const struct value *v, struct dims big)
{
    const struct value *b = graph_value(g, v->base);
    if (v->pitch)
        return wrong_columns(g, v);
    int64_t elements = v->shards && !v->view ? value_shard(v, -1).n : value_elements(v, big);
    return v->pad_rows || v->at < 0 || v->at + elements > value_elements(b, big) || b->pitch || v->dtype != b->dtype
               ? "does not lie inside its base, or has another dtype"
               : NULL;
}

/* On disk is only what persists; in the host's memory also activations, and what is on its way between the disk and a device. */
static bool may_be_far(const struct value *v)
{
    return v->persists || (v->memory == MEMORY_HOST && (v->role == ROLE_ACTIVATION || v->role == ROLE_WORKSPACE));
}

/* It persists, or a rank's shard is in a buffer, or is what a rank sees of what is whole. */
static bool may_have_shards(const struct graph *g, const struct value *v)
{
    const struct value *root = graph_value(g, value_root(g, v->base));
    bool lies = v->view ? v->base && !root->shards : v->base ? root->role == ROLE_WORKSPACE : v->persists;
    return lies && v->shards > 1 && v->chunk > 0 && !v->rank && !v->pitch && !v->group;
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
    else if (v->base)
        what = wrong_slice(g, v, big);
    else if ((v->pitch || v->pad_rows) &&
             (v->group || v->pad_rows < 0 || (v->pitch && (v->ndim != 2 || v->pitch <= dim_size(v->shape[1], big)))))
        what = "cannot have such padding";
    else if (v->memory != (v->base ? g->values[v->base].memory : may_be_far(v) ? v->memory : MEMORY_DEVICE))
        what = "cannot lie in that memory";
    else if (v->rank != (v->base ? g->values[v->base].rank : v->persists ? v->rank : 0))
        what = "cannot be of one rank";
    else if (v->shards && !may_have_shards(g, v))
        what = "cannot have shards";
    return what ? err_set(err, SNUG_ERR_INPUT, "graph after %s: value %d %s", pass, id, what) : SNUG_OK;
}

/* ---- what nodes so far have written: whole values, and columns of them ---- */

struct columns {
    int64_t from, end;
    int before; /* of the same root */
};

struct written {
    bool *all; /* by root */
    int *last; /* by root: of those of its columns that have been written, which do not overlap; 0: none */
    struct columns *columns;
    size_t cap;
    int n;
};

enum extent { NOTHING, A_PART, ALL };

static struct columns columns_of(const struct graph *g, int id)
{
    int64_t from = value_is_columns(graph_value(g, id)) ? value_at(g, id) : 0;
    return (struct columns){.from = from, .end = from + graph_value(g, id)->shape[1].c};
}

/* How much of a value has been written. */
static enum extent extent_written(const struct written *w, const struct graph *g, int id)
{
    int root = value_root(g, id);
    if (w->all[root] || !w->last[root])
        return w->all[root] ? ALL : NOTHING;
    struct columns c = columns_of(g, id);
    int64_t there = 0;
    for (int i = w->last[root]; i; i = w->columns[i].before) {
        int64_t from = c.from > w->columns[i].from ? c.from : w->columns[i].from;
        int64_t end = c.end < w->columns[i].end ? c.end : w->columns[i].end;
        there += end > from ? end - from : 0;
    }
    return there == 0 ? NOTHING : there < c.end - c.from ? A_PART : ALL;
}

static bool note_written(struct written *w, const struct graph *g, int id)
{
    int root = value_root(g, id);
    if (!value_is_columns(graph_value(g, id)))
        w->all[root] = true;
    if (w->all[root] || extent_written(w, g, id) == ALL)
        return true;
    if (!MEM_GROW(w->columns, w->cap, (size_t)w->n + 2))
        return false;
    struct columns c = columns_of(g, id);
    c.before = w->last[root];
    w->columns[++w->n] = c;
    w->last[root] = w->n;
    w->all[root] = extent_written(w, g, root) == ALL;
    return true;
}

static bool written_open(struct written *w, const struct graph *g)
{
    *w = (struct written){.all = mem_alloc((size_t)g->n_values),
                          .last = mem_alloc((size_t)g->n_values * sizeof *w->last)};
    return w->all && w->last;
}

static void written_close(struct written *w)
{
    mem_free(w->all);
    mem_free(w->last);
    mem_free(w->columns);
}

/* What a slot may not be of what was written before. NULL: nothing is wrong. */
static const char *wrong_use(const struct graph *g, const struct node *n, int slot, const struct written *w)
{
    int id = n->u.slot[slot];
    enum slot_kind kind = node_op(n)->slots[slot].kind;
    enum extent written = extent_written(w, g, id);
    bool live_in = g->values[value_root(g, id)].live_in;
    if (node_reads(n, slot) && written != ALL && !live_in)
        return "is read before anything writes it";
    if (kind == SLOT_ACC && g->values[id].base && !value_is_columns(&g->values[id]))
        return "gradients accumulate in whole values or in columns, not in slices";
    if (kind == SLOT_ACC && !(n->add >> slot & 1) && (written != NOTHING || live_in))
        return "overwrites a gradient that it must add to";
    if ((kind == SLOT_OUT || kind == SLOT_MAYBE || kind == SLOT_F32) && written != NOTHING &&
        !op_slot_is(n->op, slot, SLOT_OVERWRITES))
        return "is written twice";
    return NULL;
}

/* Whether it does to each element, wherever that stands, what it does to others: then it may see a shard. */
static bool takes_shards(enum op op)
{
    return op_is_update(op) || op == OP_sumsq || op == OP_add_bwd || op == OP_cast || op == OP_move || op == OP_pull;
}

/* What its op must know of a value that is not dense. */
static enum slot_property needed_property(const struct value *v)
{
    return !v->pitch ? 0 : v->base ? SLOT_PITCH : SLOT_PADDED;
}

static int check_node(const struct graph *g, int k, struct written *w, const char *pass, struct snug_err *err)
{
    const struct node *n = &g->nodes[k];
    const struct op_info *op = node_op(n);
    if (n->waits < 0 || n->waits >= g->n_values || (n->waits && n->lane != LANE_COMPUTE))
        return err_set(err, SNUG_ERR_INPUT, "graph after %s: node %d cannot wait for value %d", pass, k, n->waits);
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
        enum slot_property needed = needed_property(&g->values[id]);
        if (needed && !op_slot_is(n->op, i, needed))
            return broken(err, pass, g, k, i,
                          needed == SLOT_PITCH ? "is columns of a wider value, which this op does not know"
                                               : "has rows with padding, which this op does not know");
        if (g->values[id].rank && g->values[id].rank != n->rank && !op_exchanges(n->op) && n->op != OP_pull)
            return broken(err, pass, g, k, i, "is another rank's");
        if (g->values[id].shards && !takes_shards(n->op))
            return broken(err, pass, g, k, i, "is a shard, which this op does not know");
        if (kind == SLOT_F32 && !g->values[id].exact)
            return broken(err, pass, g, k, i, "a statistic must be exact");
        const char *wrong = wrong_use(g, n, i, w);
        if (wrong)
            return broken(err, pass, g, k, i, wrong);
    }
    for (int i = 0; i < op->n_slots; i++)
        if (n->u.slot[i] && node_writes(n, i) && !note_written(w, g, n->u.slot[i]))
            return err_no_memory(err, (w->cap + 1) * sizeof *w->columns);
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

static int check_nodes(const struct graph *g, struct written *w, const char *pass, struct snug_err *err)
{
    struct graph copy = {.n_values = g->n_values};
    int code = SNUG_OK;
    if (!MEM_GROW(copy.values, copy.cap_values, (size_t)g->n_values + OP_MAX_SLOTS))
        return err_no_memory(err, (unsigned long long)g->n_values * sizeof *copy.values);
    memcpy(copy.values, g->values, (size_t)g->n_values * sizeof *copy.values);
    for (int k = 1; k < g->n_nodes && !code; k++) {
        code = check_node(g, k, w, pass, err);
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
    struct written w;
    int code = written_open(&w, g) ? SNUG_OK : err_no_memory(err, (unsigned long long)g->n_values * sizeof *w.last);
    for (int i = 1; i < g->n_values && !code; i++)
        code = check_value(g, i, pass, err);
    if (!code)
        code = check_nodes(g, &w, pass, err);
    for (int i = 1; i < g->n_values && !code; i++)
        if (g->values[i].live_out && !g->values[i].live_in && !w.all[value_root(g, i)])
            code = err_set(err, SNUG_ERR_INPUT, "graph after %s: value %d is wanted but nothing writes it", pass, i);
    written_close(&w);
    return code;
}
