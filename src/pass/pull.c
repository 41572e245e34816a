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
    int *now;  /* by value: what it is for these nodes, */
    int since; /* if that was made for them: it is not older than this */
};

static void begin_visit(const struct graph *g, struct visit *v, int begin)
{
    v->begin = v->end = begin;
    while (v->end < g->n_nodes && g->nodes[v->end].layer == g->nodes[begin].layer &&
           g->nodes[v->end].backward == g->nodes[begin].backward)
        v->end++;
}

/* Whether a node that all ranks execute reads by that slot what one of them has alone. */
static bool reads_from_owner(const struct graph *g, const struct node *n, int slot)
{
    int id = n->u.slot[slot];
    return id && !n->rank && !op_exchanges(n->op) && node_reads(n, slot) && graph_value(g, id)->rank;
}

/* What a weight is for the nodes of which `first` is the first. Beside them, what they read of others comes on a lane of its own. */
static int pull(struct graph *g, struct node_list *l, const struct node *first, int id, const struct pass_settings *s)
{
    const struct value w = *graph_value(g, id);
    int y = graph_add_value(g, NULL, ROLE_ACTIVATION, w.dtype, w.ndim, w.shape);
    struct node n = {.op = OP_pull,
                     .layer = first->layer,
                     .backward = first->backward,
                     .lane = s->pulls_beside ? LANE_IN : LANE_COMPUTE};
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

static void append_pulls(struct graph *g, struct node_list *l, struct visit *v, const struct pass_settings *s)
{
    v->since = g->n_values;
    for (int k = v->begin; k < v->end && !g->err.code; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++) {
            int *now = &v->now[g->nodes[k].u.slot[i]];
            if (reads_from_owner(g, &g->nodes[k], i) && *now < v->since)
                *now = pull(g, l, &g->nodes[v->begin], g->nodes[k].u.slot[i], s);
        }
}

static void append_nodes(struct graph *g, struct node_list *l, const struct visit *v)
{
    for (int k = v->begin; k < v->end && !g->err.code; k++) {
        struct node n = g->nodes[k];
        for (int i = 0; i < node_op(&n)->n_slots; i++)
            if (reads_from_owner(g, &n, i))
                n.u.slot[i] = v->now[n.u.slot[i]];
        node_list_append(g, l, &n);
    }
}

/* With a lane for them, weights of the next layer come while one computes. */
static void append_all(struct graph *g, struct node_list *l, struct visit *here, struct visit *next,
                       const struct pass_settings *s)
{
    begin_visit(g, here, 1);
    append_pulls(g, l, here, s);
    while (here->begin < g->n_nodes && !g->err.code) {
        begin_visit(g, next, here->end);
        if (s->pulls_beside)
            append_pulls(g, l, next, s);
        append_nodes(g, l, here);
        if (!s->pulls_beside)
            append_pulls(g, l, next, s);
        struct visit done = *here;
        *here = *next;
        *next = done;
    }
}

void pass_pull(struct graph *g, struct pass_settings *s)
{
    if (g->err.code || !weights_leave(s))
        return;
    give_to_owners(g, s);
    struct node_list l = {0};
    size_t n = (size_t)g->n_values;
    struct visit visits[2] = {{.now = mem_alloc(n * sizeof(int))}, {.now = mem_alloc(n * sizeof(int))}};
    if ((!visits[0].now || !visits[1].now) && !g->err.code)
        err_no_memory(&g->err, (unsigned long long)n * sizeof(int));
    append_all(g, &l, &visits[0], &visits[1], s);
    node_list_finish(g, &l);
    mem_free(visits[0].now);
    mem_free(visits[1].now);
}
