#include "pass/node_list.h"
#include "pass/owners.h"

/* By value, as they were before this pass. `owner`: of a weight, or of what lasts beside it (a copy, what it is taken ahead by, what its
 * codes are multiplied with); 0: it is here. */
struct places {
    int *owner;
    int *root;   /* that it lay in, */
    int64_t *at; /* from that element on */
    int n;
};

/* The weight that v is, or that it stands beside; 0: none. */
static int weight_of(const struct graph *g, const struct value *v)
{
    bool beside = v->kin == KIN_COPY || v->kin == KIN_AHEAD || kin_is_of_codes(v->kin);
    return v->role == ROLE_WEIGHT ? (int)(v - g->values) : beside ? v->of : 0;
}

/* What is of no elements, and too few to be dealt: all ranks have it. */
static bool stays_whole(const struct value *v, int owner)
{
    return v->kin == KIN_NESTED_ABSMAX && owner == ALL_OWN;
}

static void find_places(struct graph *g, const struct pass_settings *s, struct places *p)
{
    int *owner = weight_owners(g, s);
    for (int i = 1; owner && i < p->n; i++) {
        int root = p->root[i] = value_root(g, i), weight = weight_of(g, graph_value(g, root));
        bool leaves =
            weight && graph_value(g, root)->persists && weight_leaves(graph_value(g, value_root(g, weight)), s);
        p->at[i] = value_at(g, i);
        p->owner[i] = leaves && !stays_whole(graph_value(g, root), owner[weight]) ? owner[weight] : 0;
    }
    mem_free(owner);
}

/* In shards each tensor lies by itself: what is made of several is none any more, nor are parts without a name. */
static void deal(struct graph *g, const struct pass_settings *s, int id)
{
    struct value *v = graph_value(g, id);
    int weight = weight_of(g, v);
    if (weight && v->name && !graph_value(g, weight)->group) {
        v->base = 0;
        v->at = 0;
        v->shards = s->ranks;
        v->chunk = shard_chunk(g, s, id, weight);
        return;
    }
    v->persists = v->live_in = v->live_out = false;
    v->memory = MEMORY_DEVICE;
}

static void give_to_owners(struct graph *g, const struct pass_settings *s, const struct places *p)
{
    for (int i = 1; i < p->n; i++) {
        if (p->owner[i] > 0)
            graph_value(g, i)->rank = p->owner[i];
        else if (p->owner[i] == ALL_OWN)
            deal(g, s, i);
    }
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

/* Whether a node that all ranks execute reads by that slot what it has not. */
static bool reads_from_owner(const struct places *p, const struct node *n, int slot)
{
    int id = n->u.slot[slot];
    return id && !n->rank && !op_exchanges(n->op) && node_reads(n, slot) && id < p->n && p->owner[id];
}

static void append_pull(struct graph *g, struct node_list *l, const struct node *first, struct op_pull pull,
                        const struct pass_settings *s)
{
    struct node n = {.op = OP_pull,
                     .layer = first->layer,
                     .backward = first->backward,
                     .lane = s->pulls_beside ? LANE_IN : LANE_COMPUTE};
    n.u.pull = pull;
    node_list_append(g, l, &n);
}

/* The value of the program that stands for w. */
static int add_pulled(struct graph *g, struct value w, const struct node *first, const struct pass_settings *s)
{
    int y = graph_add_value(g, NULL, ROLE_ACTIVATION, w.dtype, w.ndim, w.shape);
    if (g->err.code)
        return 0;
    struct value *v = graph_value(g, y);
    v->layer = first->layer;
    v->exact = w.dtype != s->precision.narrow; /* beside activations of another type */
    v->pad_rows = w.pad_rows;
    v->table = w.table;
    return y;
}

/* What a weight is for the nodes of which `first` is the first. Beside them, what they read of others comes on a lane of its own. */
static int pull(struct graph *g, struct node_list *l, const struct node *first, int id, const struct pass_settings *s)
{
    const struct value w = *graph_value(g, id);
    int y = add_pulled(g, w, first, s);
    append_pull(g, l, first, (struct op_pull){.x = id, .y = y, .from = w.rank}, s);
    return y;
}

/* Likewise of a whole in shards: each tensor of it comes to its place. */
static int pull_shards(struct graph *g, struct node_list *l, const struct places *p, const struct node *first,
                       int whole, const struct pass_settings *s)
{
    int y = add_pulled(g, *graph_value(g, whole), first, s);
    for (int i = whole; i < p->n && !g->err.code; i++) {
        const struct value x = *graph_value(g, i);
        if (p->root[i] != whole || !x.shards)
            continue;
        int to = i == whole ? y : graph_add_slice(g, NULL, y, p->at[i], x.ndim, x.shape);
        if (!g->err.code)
            graph_value(g, to)->exact = graph_value(g, y)->exact;
        append_pull(g, l, first, (struct op_pull){.x = i, .y = to, .chunk = x.chunk}, s);
    }
    return y;
}

/* A part of what has been pulled whole. */
static int part_of(struct graph *g, const struct places *p, int id, int whole)
{
    const struct value v = *graph_value(g, id);
    int part = graph_add_slice(g, NULL, whole, p->at[id], v.ndim, v.shape);
    if (!g->err.code)
        graph_value(g, part)->exact = graph_value(g, whole)->exact;
    return part;
}

static void append_pulls(struct graph *g, struct node_list *l, const struct places *p, struct visit *v,
                         const struct pass_settings *s)
{
    v->since = g->n_values;
    for (int k = v->begin; k < v->end && !g->err.code; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots && !g->err.code; i++) {
            int id = g->nodes[k].u.slot[i];
            if (!reads_from_owner(p, &g->nodes[k], i) || v->now[id] >= v->since)
                continue;
            int whole = p->owner[id] == ALL_OWN ? p->root[id] : id;
            if (v->now[whole] < v->since)
                v->now[whole] = p->owner[id] == ALL_OWN ? pull_shards(g, l, p, &g->nodes[v->begin], whole, s)
                                                        : pull(g, l, &g->nodes[v->begin], id, s);
            if (whole != id && !g->err.code)
                v->now[id] = part_of(g, p, id, v->now[whole]);
        }
}

static void append_nodes(struct graph *g, struct node_list *l, const struct places *p, const struct visit *v)
{
    for (int k = v->begin; k < v->end && !g->err.code; k++) {
        struct node n = g->nodes[k];
        for (int i = 0; i < node_op(&n)->n_slots; i++)
            if (reads_from_owner(p, &n, i))
                n.u.slot[i] = v->now[n.u.slot[i]];
        node_list_append(g, l, &n);
    }
}

/* With a lane for them, weights of the next layer come while one computes. */
static void append_all(struct graph *g, struct node_list *l, const struct places *p, struct visit *here,
                       struct visit *next, const struct pass_settings *s)
{
    begin_visit(g, here, 1);
    append_pulls(g, l, p, here, s);
    while (here->begin < g->n_nodes && !g->err.code) {
        begin_visit(g, next, here->end);
        if (s->pulls_beside)
            append_pulls(g, l, p, next, s);
        append_nodes(g, l, p, here);
        if (!s->pulls_beside)
            append_pulls(g, l, p, next, s);
        struct visit done = *here;
        *here = *next;
        *next = done;
    }
}

void pass_pull(struct graph *g, struct pass_settings *s)
{
    if (g->err.code || !weights_leave(s))
        return;
    struct node_list l = {0};
    size_t n = (size_t)g->n_values;
    struct visit visits[2] = {{.now = mem_alloc(n * sizeof(int))}, {.now = mem_alloc(n * sizeof(int))}};
    struct places p = {.owner = mem_alloc(n * sizeof *p.owner),
                       .root = mem_alloc(n * sizeof *p.root),
                       .at = mem_alloc(n * sizeof *p.at),
                       .n = g->n_values};
    if (!visits[0].now || !visits[1].now || !p.owner || !p.root || !p.at) {
        err_no_memory(&g->err, (unsigned long long)n * sizeof *p.at);
    } else {
        find_places(g, s, &p);
        give_to_owners(g, s, &p);
        append_all(g, &l, &p, &visits[0], &visits[1], s);
    }
    node_list_finish(g, &l);
    mem_free(visits[0].now);
    mem_free(visits[1].now);
    mem_free(p.owner);
    mem_free(p.root);
    mem_free(p.at);
}
