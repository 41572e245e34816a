#include "pass/node_list.h"
#include "pass/owners.h"

/* A weight, with what lasts beside it where that has its shape: a copy, what it is taken ahead by. */
static int owner_of(const struct graph *g, const struct value *v, const int *owner, const struct pass_settings *s)
{
    int weight = v->role == ROLE_WEIGHT ? (int)(v - g->values) : v->kin == KIN_COPY || v->kin == KIN_AHEAD ? v->of : 0;
    int whole = value_root(g, weight);
    return v->persists && weight && weight_leaves(graph_value(g, whole), s) ? owner[whole] : 0;
}

static void give_to_owners(struct graph *g, const struct pass_settings *s)
{
    int *owner = weight_owners(g, s);
    for (int i = 1; owner && i < g->n_values; i++) { /* a slice stands behind its base */
        struct value *v = graph_value(g, i);
        int rank = v->base ? graph_value(g, v->base)->rank : owner_of(g, v, owner, s);
        v->rank = v->base || rank ? rank : v->rank;
    }
    mem_free(owner);
}

/* Nodes that follow one another, of one layer and direction, have a weight once: from before the first to behind the last that reads it. */
struct visit {
    int begin, end;
};

static struct visit next_visit(const struct graph *g, int begin)
{
    struct visit v = {begin, begin + 1};
    while (v.end < g->n_nodes && g->nodes[v.end].layer == g->nodes[begin].layer &&
           g->nodes[v.end].backward == g->nodes[begin].backward)
        v.end++;
    return v;
}

/* Whether a node that all ranks execute reads by that slot what one of them has alone. */
static bool reads_from_owner(const struct graph *g, const struct node *n, int slot)
{
    int id = n->u.slot[slot];
    return id && !n->rank && !op_exchanges(n->op) && node_reads(n, slot) && graph_value(g, id)->rank;
}

/* What a weight is in this visit: `first` is the visit's first node. */
static int pull(struct graph *g, struct node_list *l, const struct node *first, int id, const struct pass_settings *s)
{
    const struct value w = *graph_value(g, id);
    int y = graph_add_value(g, NULL, ROLE_ACTIVATION, w.dtype, w.ndim, w.shape);
    struct node n = {.op = OP_pull, .layer = first->layer, .backward = first->backward};
    if (g->err.code)
        return 0;
    struct value *v = graph_value(g, y);
    v->layer = first->layer;
    v->exact = w.dtype != s->precision.narrow; /* beside activations of another type */
    v->pad_rows = w.pad_rows;
    v->table = w.table;
    n.u.pull = (struct op_pull){.x = id, .y = y, .from = w.rank};
    node_list_append(g, l, &n);
    return y;
}

/* now: by value, what it is in the visit; `since`: the first value that this visit has made. */
static void append_visit(struct graph *g, struct node_list *l, struct visit v, int *now, const struct pass_settings *s)
{
    const int since = g->n_values;
    for (int pass = 0; pass < 2; pass++) /* what is pulled, together, and behind it the nodes */
        for (int k = v.begin; k < v.end && !g->err.code; k++) {
            struct node n = g->nodes[k];
            for (int i = 0; i < node_op(&n)->n_slots; i++) {
                if (!reads_from_owner(g, &n, i))
                    continue;
                int *here = &now[n.u.slot[i]];
                *here = *here >= since ? *here : pull(g, l, &g->nodes[v.begin], n.u.slot[i], s);
                n.u.slot[i] = *here;
            }
            if (pass)
                node_list_append(g, l, &n);
        }
}

void pass_pull(struct graph *g, struct pass_settings *s)
{
    if (g->err.code || !weights_leave(s))
        return;
    give_to_owners(g, s);
    struct node_list l = {0};
    int *now = mem_alloc((size_t)g->n_values * sizeof *now);
    if (!now && !g->err.code)
        err_no_memory(&g->err, (unsigned long long)g->n_values * sizeof *now);
    for (int k = 1; k < g->n_nodes && !g->err.code;) {
        struct visit v = next_visit(g, k);
        append_visit(g, &l, v, now, s);
        k = v.end;
    }
    node_list_finish(g, &l);
    mem_free(now);
}
