#include "graph/uses.h"
#include "pass/pass.h"

#include <stdlib.h>

/* From the end: a node stays when something that it writes lasts (a weight, a state, an output) or is read by one that
 * stays. */
static void drop_dead(struct graph *g)
{
    bool *live = mem_alloc((size_t)g->n_values), *stays = mem_alloc((size_t)g->n_nodes);
    if (!live || !stays) {
        err_no_memory(&g->err, (unsigned long long)g->n_values);
        goto out;
    }
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].live_out || (g->values[i].persists && g->values[i].role != ROLE_INPUT))
            live[value_root(g, i)] = true;
    for (int k = g->n_nodes - 1; k > 0; k--) {
        struct node *n = &g->nodes[k];
        const struct op_info *op = node_op(n);
        for (int i = 0; i < op->n_slots; i++)
            if (op->slots[i].kind == SLOT_MAYBE && n->u.slot[i] && !live[value_root(g, n->u.slot[i])])
                n->u.slot[i] = 0;
        for (int i = 0; i < op->n_slots; i++)
            stays[k] |= node_writes(n, i) && n->u.slot[i] && live[value_root(g, n->u.slot[i])];
        for (int i = 0; stays[k] && i < op->n_slots; i++)
            if (node_reads(n, i))
                live[value_root(g, n->u.slot[i])] = true;
    }
    int n = 1;
    for (int k = 1; k < g->n_nodes; k++)
        if (stays[k])
            g->nodes[n++] = g->nodes[k];
    g->n_nodes = n;
out:
    mem_free(live);
    mem_free(stays);
}

struct place {
    int after, was;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->after != y->after ? (x->after > y->after) - (x->after < y->after) : (x->was > y->was) - (x->was < y->was);
}

/* Updates are all that stands behind the norm of all gradients. Where they wait for it, sums of squares stay until then anyway, and those
 * that follow one another are one launch on a GPU. */
static bool may_hoist(const struct graph *g, const struct node *n, bool behind_norm)
{
    return behind_norm || (n->op == OP_sumsq && graph_value(g, n->u.sumsq.partials)->live_out);
}

/* Moves each update, and sums of squares that let a gradient die, up to right behind the last node that it must follow
 * and its layer's backward nodes: a GPU does those of a layer in one launch. Stable. */
static void place_updates(const struct graph *g, struct hazards *h, int *backward, struct place *places)
{
    bool behind_norm = false;
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        places[k - 1] = (struct place){.after = k, .was = k};
        if (may_hoist(g, n, behind_norm)) {
            int conflict = hazards_find(h, g, n), j = conflict > backward[n->layer] ? conflict : backward[n->layer];
            places[k - 1].after = j > 0 ? places[j - 1].after : 0;
        }
        if (n->backward)
            backward[n->layer] = k;
        behind_norm |= n->op == OP_clip;
        hazards_add(h, g, k);
    }
}

static int count_layers(const struct graph *g)
{
    int last = 0;
    for (int k = 1; k < g->n_nodes; k++)
        last = g->nodes[k].layer > last ? g->nodes[k].layer : last;
    return last + 1;
}

static void hoist_updates(struct graph *g)
{
    int n_nodes = g->n_nodes;
    struct hazards h;
    struct place *places = mem_alloc((size_t)n_nodes * sizeof *places);
    struct node *out = mem_alloc((size_t)n_nodes * sizeof *out);
    int *backward = mem_alloc((size_t)count_layers(g) * sizeof *backward); /* the last one of each layer so far */
    bool opened = hazards_open(&h, g);
    if (!places || !out || !backward || !opened) {
        err_no_memory(&g->err, (unsigned long long)n_nodes * sizeof *out);
        goto done;
    }
    place_updates(g, &h, backward, places);
    qsort(places, (size_t)n_nodes - 1, sizeof *places, by_place);
    for (int k = 1; k < n_nodes; k++)
        out[k - 1] = g->nodes[places[k - 1].was];
    graph_set_nodes(g, out, n_nodes - 1);
done:
    hazards_close(&h);
    mem_free(places);
    mem_free(out);
    mem_free(backward);
}

void pass_order(struct graph *g, struct pass_settings *s)
{
    (void)s;
    if (!g->err.code)
        drop_dead(g);
    if (!g->err.code)
        hoist_updates(g);
}
