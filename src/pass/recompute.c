#include "pass/pass.h"

#include <string.h>

/* A segment: layers first … last, and where its backward nodes begin. */
struct segment {
    int first, last, backward;
};

static bool in_segment(const struct node *n, const struct segment *s)
{
    return n->layer >= s->first && n->layer <= s->last;
}

static int last_layer(const struct graph *g)
{
    int last = 0;
    for (int k = 1; k < g->n_nodes; k++)
        if (g->nodes[k].layer > last && g->nodes[k].backward)
            last = g->nodes[k].layer;
    return last - 1; /* the head, one layer further, is not recomputed */
}

static int first_backward(const struct graph *g, const struct segment *s)
{
    int k = 1;
    while (k < g->n_nodes && !(g->nodes[k].backward && in_segment(&g->nodes[k], s)))
        k++;
    return k;
}

/* need[v]: must be computed again. Starts with what the segment's forward nodes make, only the segment itself reads
 * going forward, and some backward node from `s->backward` on reads; then what those computations need in turn. */
static void find_needed(const struct graph *g, const struct segment *s, bool *made, bool *need)
{
    for (int k = 1; k < s->backward; k++) {
        const struct node *n = &g->nodes[k];
        for (int i = 0; i < node_op(n)->n_slots; i++) {
            int id = n->u.slot[i];
            if (node_writes(n, i) && id)
                made[id] = !n->backward && in_segment(n, s) && g->values[id].role == ROLE_ACTIVATION;
            else if (!n->backward && !in_segment(n, s))
                made[id] = false; /* an output of the segment: kept */
        }
    }
    for (int k = s->backward; k < g->n_nodes; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++)
            need[g->nodes[k].u.slot[i]] |= node_reads(&g->nodes[k], i) && made[g->nodes[k].u.slot[i]];
}

static bool writes_needed(const struct node *n, const bool *need)
{
    for (int i = 0; i < node_op(n)->n_slots; i++)
        if (node_writes(n, i) && n->u.slot[i] && need[n->u.slot[i]])
            return true;
    return false;
}

/* The copy of a forward node: reads the new values where there are any, writes new ones. */
static struct node copy_node(struct graph *g, struct node n, int *now)
{
    n.backward = true;
    for (int i = 0; i < node_op(&n)->n_slots; i++) {
        int id = n.u.slot[i];
        if (!id)
            continue;
        if (node_writes(&n, i)) {
            struct value v = *graph_value(g, id);
            n.u.slot[i] = graph_add_value(g, NULL, v.role, v.dtype, v.ndim, v.shape);
            graph_value(g, n.u.slot[i])->exact = v.exact;
            graph_value(g, n.u.slot[i])->layer = v.layer;
            now[id] = n.u.slot[i];
        } else if (now[id])
            n.u.slot[i] = now[id];
    }
    return n;
}

/* Gives its number of layers, 0 where there is no backward pass through them: nothing there or before is trained. */
static int recompute_segment(struct graph *g, struct segment *s)
{
    int layers = 0;
    int n_values = g->n_values, n_nodes = g->n_nodes, n = 0;
    bool *made = mem_alloc((size_t)n_values), *need = mem_alloc((size_t)n_values), *copied = mem_alloc((size_t)n_nodes);
    int *now = mem_alloc((size_t)n_values * sizeof *now); /* the new value of an old one */
    struct node *out = mem_alloc(2 * (size_t)n_nodes * sizeof *out);
    if (!made || !need || !copied || !now || !out)
        err_no_memory(&g->err, 2 * (unsigned long long)n_nodes * sizeof *out);
    s->backward = g->err.code ? 0 : first_backward(g, s);
    if (!g->err.code && s->backward < n_nodes) {
        find_needed(g, s, made, need);
        for (int k = s->backward - 1; k > 0; k--) {
            const struct node *f = &g->nodes[k];
            if (f->backward || !in_segment(f, s) || !writes_needed(f, need))
                continue;
            copied[k] = true;
            for (int i = 0; i < node_op(f)->n_slots; i++)
                need[f->u.slot[i]] |= node_reads(f, i) && made[f->u.slot[i]];
        }
        for (int k = 1; k < s->backward; k++)
            out[n++] = g->nodes[k];
        for (int k = 1; k < s->backward && !g->err.code; k++)
            if (copied[k])
                out[n++] = copy_node(g, g->nodes[k], now);
        for (int k = s->backward; k < n_nodes; k++) {
            struct node b = g->nodes[k];
            for (int i = 0; i < node_op(&b)->n_slots; i++)
                if (node_reads(&b, i) && b.u.slot[i] < n_values && need[b.u.slot[i]])
                    b.u.slot[i] = now[b.u.slot[i]];
            out[n++] = b;
        }
        graph_set_nodes(g, out, n);
        layers = s->last - s->first + 1;
    }
    mem_free(made);
    mem_free(need);
    mem_free(copied);
    mem_free(now);
    mem_free(out);
    return layers;
}

/* Whether what follows the layers works on tokens, as the head of a language model does. */
static bool head_has_tokens(const struct graph *g, int last)
{
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        for (int i = 0; !n->backward && n->layer > last && i < node_op(n)->n_slots; i++)
            if (g->values[n->u.slot[i]].shape[0].t > 0)
                return true;
    }
    return false;
}

/* Logits of all tokens and their gradient are most of the memory of many a language model, and would live beside the
 * last segment. A classifier's head is small and the last segment's backward pass follows at once: dropping that would
 * free nothing. */
int pass_recompute(struct graph *g, int every_n)
{
    if (every_n <= 0 || g->err.code)
        return 0;
    struct segment s = {.last = last_layer(g)};
    s.first = (s.last - 1) / every_n * every_n + 1;
    if (!head_has_tokens(g, s.last))
        s.last = s.first - 1, s.first -= every_n;
    int dropped = 0;
    for (; s.first >= 1 && !g->err.code; s.last = s.first - 1, s.first -= every_n)
        dropped += recompute_segment(g, &s);
    return dropped;
}
