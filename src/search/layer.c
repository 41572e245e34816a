#include "search/layer.h"

#include "plan/pack.h"

#include <string.h>

static int count_layers(const struct graph *g)
{
    int last = 0;
    for (int k = 1; k < g->n_nodes; k++)
        if (g->nodes[k].backward && g->nodes[k].layer > last)
            last = g->nodes[k].layer;
    return last - 1;
}

/* Forward nodes of a layer follow one another; what is pulled for them, and copies, lie beside them. Backward ones may have updates
 * of others between them, which belong to the span of the layer that has begun before them. */
static void find_spans(struct layers *l)
{
    const struct graph *g = &l->g->graph;
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        if (n->layer > l->n + 1 || n->op == OP_pull || n->lane != LANE_COMPUTE)
            continue;
        struct layer_span *s = &l->spans[n->layer];
        if (n->backward && !s->backward)
            s->backward = k;
        if (!n->backward && !l->spans[l->n + 1].backward) { /* behind the head there are updates and sums alone */
            s->forward = s->forward ? s->forward : k;
            s->forward_end = k + 1;
        }
    }
    int end = g->n_nodes;
    for (int i = 0; i <= l->n + 1; i++) {
        l->spans[i].backward_end = end;
        end = l->spans[i].backward ? l->spans[i].backward : end;
    }
}

static void find_held(struct layers *l)
{
    const struct graph *g = &l->g->graph;
    for (int i = 1; i <= l->n; i++) {
        const struct layer_span *s = &l->spans[i];
        for (int k = s->forward; s->backward && k < s->forward_end; k++)
            for (int slot = 0; slot < node_op(&g->nodes[k])->n_slots; slot++) {
                int id = value_root(g, g->nodes[k].u.slot[slot]);
                if (id && node_writes(&g->nodes[k], slot) && plan_is_transient(l->g, id) &&
                    g->values[id].role == ROLE_ACTIVATION && l->g->last[id] >= s->backward &&
                    l->g->last[id] < s->backward_end)
                    l->held[id] = true;
            }
    }
}

static int64_t find_least(const struct layers *l, int64_t *changes)
{
    const struct graph *g = &l->g->graph;
    int64_t live = 0, most = 0;
    for (int i = 1; i < g->n_values; i++)
        if (plan_is_transient(l->g, i) && l->g->first[i] >= l->spans[l->n].forward_end) {
            changes[l->g->first[i]] += plan_room(l->plan, l->g, i);
            if (l->g->last[i] < g->n_nodes)
                changes[l->g->last[i] + 1] -= plan_room(l->plan, l->g, i);
        }
    for (int k = 1; k <= g->n_nodes; k++) {
        live += changes[k];
        most = live > most ? live : most;
    }
    return most;
}

/* Bytes of what begins and ends at each node, less what is held, then their sum up to it. */
static void find_beside(struct layers *l, int64_t *begins)
{
    const struct graph *g = &l->g->graph;
    for (int i = 1; i < g->n_values; i++)
        if (plan_is_transient(l->g, i) && !l->held[i]) {
            int64_t bytes = plan_room(l->plan, l->g, i);
            begins[l->g->first[i]] += bytes;
            if (l->g->last[i] < g->n_nodes)
                l->beside[l->g->last[i] + 1] -= bytes;
        }
    for (int k = 1; k <= g->n_nodes; k++)
        l->beside[k] += l->beside[k - 1] + begins[k];
    for (int i = 1; i <= l->n; i++)
        l->through[i] = l->beside[l->spans[i].backward] - begins[l->spans[i].backward];
}

static void find_most(struct layers *l)
{
    const struct layer_span *first = &l->spans[1], *last = &l->spans[l->n];
    for (int k = 1; k <= l->g->graph.n_nodes; k++) {
        bool outside = k < first->forward || (first->backward && k >= first->backward_end);
        bool head = k >= last->forward_end && (!last->backward || k < last->backward);
        int64_t *most = outside ? &l->beside_most : &l->head_most;
        if ((outside || head) && l->beside[k] > *most)
            *most = l->beside[k];
    }
}

int layers_open(struct layers *l, const struct plan *p, const struct program *g, struct snug_err *err)
{
    *l = (struct layers){.plan = p, .g = g, .n = count_layers(&g->graph)};
    if (l->n < 1)
        return SNUG_OK;
    size_t values = (size_t)g->graph.n_values, nodes = (size_t)g->graph.n_nodes + 1, layers = (size_t)l->n + 2;
    l->spans = mem_alloc(layers * sizeof *l->spans);
    l->held = mem_alloc(values * sizeof *l->held);
    l->beside = mem_alloc(nodes * sizeof *l->beside);
    l->through = mem_alloc(layers * sizeof *l->through);
    if (!l->spans || !l->held || !l->beside || !l->through)
        return err_no_memory(err, nodes * sizeof *l->beside);
    find_spans(l);
    find_held(l);
    int64_t *begins = mem_alloc(nodes * sizeof *begins);
    if (!begins)
        return err_no_memory(err, nodes * sizeof *begins);
    find_beside(l, begins);
    memset(begins, 0, nodes * sizeof *begins);
    l->least = find_least(l, begins);
    mem_free(begins);
    find_most(l);
    return SNUG_OK;
}

void layers_close(struct layers *l)
{
    mem_free(l->spans);
    mem_free(l->held);
    mem_free(l->beside);
    mem_free(l->through);
    *l = (struct layers){0};
}
