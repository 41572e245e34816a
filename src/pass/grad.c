#include "graph/uses.h"
#include "pass/owners.h"

/* The gradient of a weight; for a group, with a slice for each of its parts that is trained. made: by weight, the gradients so
 * far. */
static int add_weight_gradient(struct graph *g, const struct slices *parts, int weight, const struct pass_settings *s,
                               int *made)
{
    bool lasts = s->program != PROGRAM_STEP && !gradients_leave(s);
    enum kin kin = gradients_leave(s) ? KIN_PART : KIN_GRADIENT;
    struct value w = *graph_value(g, weight);
    int id = made[weight] = graph_add_kin(g, kin, weight, w.dtype, w.ndim, w.shape);
    if (!id)
        return 0;
    graph_value(g, id)->group = w.group;
    graph_value(g, id)->live_in = lasts && s->program == PROGRAM_NEXT;
    graph_value(g, id)->persists = graph_value(g, id)->live_out = lasts;
    for (int i = parts->from[weight]; i < parts->from[weight + 1]; i++) {
        const struct value *part = graph_value(g, parts->at[i]);
        if (part->frozen)
            continue;
        int slice = made[parts->at[i]] = graph_add_kin_slice(g, kin, parts->at[i], made[part->base]);
        graph_value(g, slice)->live_out = lasts;
    }
    return id;
}

/* What has the gradient of a value: columns of an activation have theirs in that of the whole. */
static int whole(const struct graph *g, int id)
{
    return value_is_columns(graph_value(g, id)) ? value_root(g, id) : id;
}

/* The gradient of a value whose whole one is there. */
static int part_of_gradient(struct grads *d, int id)
{
    if (d->of[id] || d->g->err.code || whole(d->g, id) == id || !d->of[whole(d->g, id)])
        return d->of[id];
    struct value v = *graph_value(d->g, id);
    return d->of[id] = graph_add_columns(d->g, d->of[whole(d->g, id)], value_at(d->g, id), v.shape[1].c);
}

int grad_of(struct grads *d, int id)
{
    return part_of_gradient(d, id);
}

int grad_target(struct grads *d, int id)
{
    int all = whole(d->g, id);
    if (!id || !d->wanted[all] || d->g->err.code)
        return 0;
    if (!d->of[all]) {
        struct value v = *graph_value(d->g, all);
        d->of[all] = graph_add_value(d->g, NULL, ROLE_ACTIVATION, v.dtype, v.ndim, v.shape);
        graph_value(d->g, d->of[all])->exact = v.exact;
    }
    return part_of_gradient(d, id);
}

void grad_set(struct grads *d, int id, int gradient)
{
    if (d->of[id] || whole(d->g, id) != id)
        graph_fail(d->g, SNUG_ERR_INPUT, "graph: value %d must be whole and have a single reader for its gradient", id);
    d->of[id] = gradient;
}

int grad_cu(const struct grads *d, int rows)
{
    bool source = graph_value(d->g, rows)->shape[0].times.S != 0;
    return graph_find(d->g, source ? "source_cu_seqlens" : "cu_seqlens");
}

static bool is_trained(const struct value *v)
{
    return v->role == ROLE_WEIGHT && !v->frozen;
}

/* A gradient is wanted for trained weights and for whatever one of them flows into. */
static void mark_wanted(struct grads *d)
{
    struct graph *g = d->g;
    for (int i = 1; i < d->n; i++)
        d->wanted[i] = is_trained(&g->values[i]);
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        bool flows = false;
        for (int i = 0; i < node_op(n)->n_slots; i++)
            flows |= node_reads(n, i) && d->wanted[whole(g, n->u.slot[i])];
        for (int i = 0; flows && i < node_op(n)->n_slots; i++)
            if (node_writes(n, i) && n->u.slot[i])
                d->wanted[whole(g, n->u.slot[i])] = true;
    }
}

static bool has_gradient(const struct grads *d, const struct node *n)
{
    for (int i = 0; i < node_op(n)->n_slots; i++)
        if (node_writes(n, i) && n->u.slot[i] && d->of[whole(d->g, n->u.slot[i])])
            return true;
    return false;
}

static void add_weight_gradients(struct grads *d, const struct pass_settings *s)
{
    struct graph *g = d->g;
    struct slices parts;
    bool *read = mem_alloc((size_t)d->n);
    int *made = mem_alloc((size_t)d->n * sizeof *made);
    if (!read || !made)
        err_no_memory(&g->err, (unsigned long long)d->n * sizeof *made);
    for (int k = 1; k < g->n_nodes && !g->err.code; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++)
            read[g->nodes[k].u.slot[i]] = true;
    if (slices_open(&parts, g))
        for (int i = 1; i < d->n && !g->err.code; i++)
            if (is_trained(&g->values[i]) && read[i])
                d->of[i] = add_weight_gradient(g, &parts, i, s, made);
    slices_close(&parts);
    mem_free(read);
    mem_free(made);
}

void pass_grad(struct graph *g, struct pass_settings *s)
{
    if (g->err.code)
        return;
    struct grads d = {.g = g, .n = g->n_values};
    d.of = mem_alloc((size_t)d.n * sizeof *d.of);
    d.wanted = mem_alloc((size_t)d.n * sizeof *d.wanted);
    if (!d.of || !d.wanted)
        err_no_memory(&g->err, (unsigned long long)d.n * sizeof *d.of);
    int last = g->n_nodes;
    if (!g->err.code)
        mark_wanted(&d);
    if (!g->err.code)
        add_weight_gradients(&d, s);
    if (!g->err.code)
        d.of[s->loss] = s->loss; /* the seed, 1/N, is in the loss's own gradient op */
    g->backward = true;
    for (int k = last - 1; k > 0 && !g->err.code; k--) {
        struct node n = g->nodes[k];
        if (!node_op(&n)->grad || !has_gradient(&d, &n))
            continue;
        g->layer = n.layer;
        node_op(&n)->grad(&d, &n.u);
    }
    g->backward = false;
    mem_free(d.of);
    mem_free(d.wanted);
}
