#include "graph/uses.h"
#include "pass/pass.h"

#include <stdlib.h>

/* A segment: layers first … last, and where its backward nodes begin. */
struct segment {
    int first, last, backward;
};

/* What all segments share. They are looked at from the last to the first; each only at its own nodes. */
struct recomputing {
    struct graph *g;
    const struct recompute_set *sets; /* by layer; NULL: all nodes */
    struct uses uses;
    int n_layers;
    int *layer_from, *by_layer; /* the nodes of layer l are by_layer[layer_from[l]] … by_layer[layer_from[l + 1] - 1] */
    /* By root: may be made again by the forward nodes of its segment; may not; is to be computed again. */
    bool *made, *kept, *need;
    int *now; /* by value: what it is then */
    /* By node: has a copy; the copy begins with the node's own result; which of the copies stand before it. */
    bool *copied, *restarts;
    int *copies_from, *copies_end;
    struct node *copies;
    int n_copies;
};

static void sort_by_layer(struct recomputing *r)
{
    const struct graph *g = r->g;
    for (int k = 1; k < g->n_nodes; k++)
        r->layer_from[g->nodes[k].layer + 1]++;
    for (int l = 0; l < r->n_layers; l++)
        r->layer_from[l + 1] += r->layer_from[l];
    for (int k = 1; k < g->n_nodes; k++)
        r->by_layer[r->layer_from[g->nodes[k].layer]++] = k;
    for (int l = r->n_layers; l > 0; l--)
        r->layer_from[l] = r->layer_from[l - 1];
    r->layer_from[0] = 0;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The segment's nodes, in their order; *n of them. */
static int *segment_nodes(struct recomputing *r, const struct segment *s, int *n)
{
    int *nodes = &r->by_layer[r->layer_from[s->first]];
    *n = r->layer_from[s->last + 1] - r->layer_from[s->first];
    qsort(nodes, (size_t)*n, sizeof *nodes, by_number);
    return nodes;
}

static bool in_segment(const struct node *n, const struct segment *s)
{
    return n->layer >= s->first && n->layer <= s->last;
}

struct restart recompute_restart(const struct node *n)
{
    const struct op_rms_norm *norm = &n->u.rms_norm;
    if (n->op != OP_rms_norm || !norm->res || !norm->h)
        return (struct restart){0};
    return (struct restart){.from = norm->h, .inputs = {norm->x, norm->res}};
}

/* Whether a node of another segment reads it by that slot in order to begin: if it is computed again, it does not need it. */
static bool is_start(const struct node *n, int slot)
{
    struct restart start = recompute_restart(n);
    int id = n->u.slot[slot];
    return start.from && (id == start.inputs[0] || id == start.inputs[1]);
}

/* What enters a later segment, or leaves the layers, is kept where the plan says nothing else. */
static bool may_drop(const struct recomputing *r, const struct segment *s, int id)
{
    for (int i = r->uses.from[id]; i < r->uses.from[id + 1]; i++) {
        const struct node *n = &r->g->nodes[r->uses.at[i].node];
        bool enters = r->uses.at[i].node < s->backward && !n->backward && !in_segment(n, s);
        if (!r->sets && enters && !is_start(n, r->uses.at[i].slot))
            return false;
    }
    return r->g->values[id].role == ROLE_ACTIVATION;
}

static bool is_read_from(const struct recomputing *r, int node, int id)
{
    for (int i = r->uses.from[id]; i < r->uses.from[id + 1]; i++)
        if (r->uses.at[i].node >= node && node_reads(&r->g->nodes[r->uses.at[i].node], r->uses.at[i].slot))
            return true;
    return false;
}

/* Whether the plan has forward node nodes[j] computed again; nodes[first] is the first one of its layer. */
static bool is_chosen(const struct recomputing *r, const int *nodes, int first, int j)
{
    const uint64_t set = r->sets ? r->sets[r->g->nodes[nodes[j]].layer].nodes : UINT64_MAX;
    return !r->sets || (j - first < RECOMPUTE_NODES && set >> (j - first) & 1);
}

/* Whether a forward node of the segment, of those that were looked at so far, makes it. */
static bool is_written(const struct recomputing *r, int id)
{
    return r->made[value_root(r->g, id)] || r->kept[value_root(r->g, id)];
}

/* The result that a node begins with when it is computed again, 0: it does all. */
static int restarts_from(const struct recomputing *r, const struct node *n)
{
    struct restart start = recompute_restart(n);
    return start.from && !is_written(r, start.inputs[0]) && !is_written(r, start.inputs[1]) ? start.from : 0;
}

/* What is made again: by nodes that are chosen. What several nodes write columns of is kept if one of them is not. */
static void find_made(struct recomputing *r, const struct segment *s, const int *nodes, int n)
{
    const struct graph *g = r->g;
    for (int j = 0, first = 0; j < n; j++) {
        const struct node *f = &g->nodes[nodes[j]];
        first = g->nodes[nodes[first]].layer == f->layer ? first : j;
        bool chosen = is_chosen(r, nodes, first, j);
        int start = chosen ? restarts_from(r, f) : 0;
        r->restarts[nodes[j]] = start;
        for (int i = 0; i < node_op(f)->n_slots; i++) {
            int id = value_root(g, f->u.slot[i]);
            if (id && node_writes(f, i) && !r->kept[id]) {
                r->made[id] = chosen && id != start && may_drop(r, s, id);
                r->kept[id] = !r->made[id];
            }
        }
    }
}

/* Starts with what the segment's forward nodes make and some backward node reads; then what those computations need in turn. */
static void find_needed(struct recomputing *r, const struct segment *s, const int *nodes, int n)
{
    const struct graph *g = r->g;
    for (int j = 0; j < n; j++) {
        const struct node *f = &g->nodes[nodes[j]];
        for (int i = 0; i < node_op(f)->n_slots; i++) {
            int id = value_root(g, f->u.slot[i]);
            if (id && node_writes(f, i))
                r->need[id] = r->made[id] && is_read_from(r, s->backward, id);
        }
    }
}

static bool writes_needed(const struct graph *g, const struct node *n, const bool *need)
{
    for (int i = 0; i < node_op(n)->n_slots; i++)
        if (node_writes(n, i) && n->u.slot[i] && need[value_root(g, n->u.slot[i])])
            return true;
    return false;
}

/* A norm of its own sum. */
static struct node restarted(struct node n)
{
    n.u.rms_norm.x = n.u.rms_norm.h;
    n.u.rms_norm.res = n.u.rms_norm.h = 0;
    return n;
}

/* The copy of a forward node: reads the new values where there are any, writes new ones. */
static struct node copy_node(struct graph *g, struct node n, int *now)
{
    n.backward = true;
    for (int i = 0; i < node_op(&n)->n_slots; i++) {
        int id = n.u.slot[i], root = value_root(g, id);
        if (!id)
            continue;
        if (node_writes(&n, i) && !now[root]) {
            struct value v = *graph_value(g, root);
            now[root] = graph_add_value(g, NULL, v.role, v.dtype, v.ndim, v.shape);
            graph_value(g, now[root])->exact = v.exact;
            graph_value(g, now[root])->layer = v.layer;
        }
        n.u.slot[i] = graph_instead(g, id, now);
    }
    return n;
}

/* What reads a value, or columns of it, after its segment's forward pass reads the new one. */
static void read_now(struct recomputing *r, const struct segment *s, int root)
{
    for (int i = r->uses.from[root]; i < r->uses.from[root + 1]; i++) {
        struct use use = r->uses.at[i];
        struct node *n = &r->g->nodes[use.node];
        if (use.node >= s->backward && node_reads(n, use.slot) && value_root(r->g, n->u.slot[use.slot]) == root)
            n->u.slot[use.slot] = graph_instead(r->g, n->u.slot[use.slot], r->now);
    }
}

/* Which forward nodes are computed again: what is needed needs others in turn. */
static void find_copied(struct recomputing *r, const int *nodes, int n)
{
    for (int j = n - 1; j >= 0; j--) {
        const struct node *f = &r->g->nodes[nodes[j]];
        r->copied[nodes[j]] = writes_needed(r->g, f, r->need);
        for (int i = 0; r->copied[nodes[j]] && i < node_op(f)->n_slots; i++)
            r->need[value_root(r->g, f->u.slot[i])] |= node_reads(f, i) && r->made[value_root(r->g, f->u.slot[i])];
    }
}

/* Gives its number of layers, 0 where nothing is computed again: where there is no backward pass through them, because nothing
 * there or before is trained, or where the plan keeps all that is needed. */
static int recompute_segment(struct recomputing *r, struct segment s)
{
    struct graph *g = r->g;
    int n, *nodes = segment_nodes(r, &s, &n), forward = 0;
    while (forward < n && !g->nodes[nodes[forward]].backward)
        forward++;
    if (forward == n)
        return 0;
    s.backward = nodes[forward];
    find_made(r, &s, nodes, forward);
    find_needed(r, &s, nodes, forward);
    find_copied(r, nodes, forward);
    r->copies_from[s.backward] = r->n_copies;
    for (int j = 0; j < forward && !g->err.code; j++) {
        const struct node *f = &g->nodes[nodes[j]];
        if (!r->copied[nodes[j]])
            continue;
        r->copies[r->n_copies++] = copy_node(g, r->restarts[nodes[j]] ? restarted(*f) : *f, r->now);
        for (int i = 0; i < node_op(f)->n_slots; i++)
            if (node_writes(f, i) && r->need[value_root(g, f->u.slot[i])])
                read_now(r, &s, value_root(g, f->u.slot[i]));
    }
    r->copies_end[s.backward] = r->n_copies;
    return r->n_copies > r->copies_from[s.backward] ? s.last - s.first + 1 : 0;
}

/* Whether what follows the layers works on tokens, as the head of a language model does. */
static bool head_has_tokens(const struct graph *g, int last)
{
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        for (int i = 0; !n->backward && n->layer > last && i < node_op(n)->n_slots; i++)
            if (dim_has_tokens(g->values[n->u.slot[i]].shape[0]))
                return true;
    }
    return false;
}

static bool open_recomputing(struct recomputing *r, struct graph *g, const struct recompute_set *sets)
{
    size_t nodes = (size_t)g->n_nodes, values = (size_t)g->n_values;
    *r = (struct recomputing){.g = g, .sets = sets};
    for (int k = 1; k < g->n_nodes; k++)
        r->n_layers = g->nodes[k].layer >= r->n_layers ? g->nodes[k].layer + 1 : r->n_layers;
    r->layer_from = mem_alloc((size_t)(r->n_layers + 1) * sizeof *r->layer_from);
    r->by_layer = mem_alloc(nodes * sizeof *r->by_layer);
    r->made = mem_alloc(values);
    r->kept = mem_alloc(values);
    r->need = mem_alloc(values);
    r->now = mem_alloc(values * sizeof *r->now);
    r->copied = mem_alloc(nodes);
    r->restarts = mem_alloc(nodes);
    r->copies_from = mem_alloc(nodes * sizeof *r->copies_from);
    r->copies_end = mem_alloc(nodes * sizeof *r->copies_end);
    r->copies = mem_alloc(nodes * sizeof *r->copies);
    if (!r->layer_from || !r->by_layer || !r->made || !r->kept || !r->need || !r->now || !r->copied || !r->restarts ||
        !r->copies_from || !r->copies_end || !r->copies)
        err_no_memory(&g->err, nodes * sizeof *r->copies);
    if (g->err.code || !uses_open(&r->uses, g))
        return false;
    sort_by_layer(r);
    return true;
}

static void close_recomputing(struct recomputing *r)
{
    uses_close(&r->uses);
    mem_free(r->layer_from);
    mem_free(r->by_layer);
    mem_free(r->made);
    mem_free(r->kept);
    mem_free(r->need);
    mem_free(r->now);
    mem_free(r->copied);
    mem_free(r->restarts);
    mem_free(r->copies_from);
    mem_free(r->copies_end);
    mem_free(r->copies);
}

static void insert_copies(struct recomputing *r)
{
    struct graph *g = r->g;
    struct node *out = mem_alloc((size_t)(g->n_nodes + r->n_copies) * sizeof *out);
    int n = 0;
    if (!out && !g->err.code)
        err_no_memory(&g->err, (unsigned long long)(g->n_nodes + r->n_copies) * sizeof *out);
    for (int k = 1; k < g->n_nodes && !g->err.code; k++) {
        for (int i = r->copies_from[k]; i < r->copies_end[k]; i++)
            out[n++] = r->copies[i];
        out[n++] = g->nodes[k];
    }
    graph_set_nodes(g, out, n);
    mem_free(out);
}

static int last_layer(const struct graph *g)
{
    int last = 0;
    for (int k = 1; k < g->n_nodes; k++)
        if (g->nodes[k].layer > last && g->nodes[k].backward)
            last = g->nodes[k].layer;
    return last - 1; /* the head, one layer further, is not recomputed */
}

/* The next segment in front of layer `end`; none: its first layer is 0. Logits of all tokens and their gradient are most of the
 * memory of many a language model, and would live beside the last segment. A classifier's head is small and the last segment's
 * backward pass follows at once: dropping that would free nothing. */
static struct segment next_segment(const struct graph *g, const struct choices *c, int end, int last)
{
    struct segment s = {.first = end - 1, .last = end - 1};
    int every_n = c->recompute_every_n;
    if (end <= 1)
        return (struct segment){0};
    if (c->recompute)
        while (s.first > 1 && c->recompute[s.first].joins)
            s.first--;
    else
        s.first = (s.last - 1) / every_n * every_n + 1;
    if (!c->recompute && s.last == last && !head_has_tokens(g, last))
        s.last = s.first - 1, s.first -= every_n;
    return s;
}

void pass_recompute(struct graph *g, struct pass_settings *settings)
{
    struct recomputing r;
    const struct choices *c = &settings->choices;
    if ((c->recompute_every_n <= 0 && !c->recompute) || g->err.code)
        return;
    int last = last_layer(g);
    if (open_recomputing(&r, g, c->recompute)) {
        struct segment s = next_segment(g, c, last + 1, last);
        for (; s.first >= 1 && !g->err.code; s = next_segment(g, c, s.first, last))
            settings->recomputed_layers += recompute_segment(&r, s);
        insert_copies(&r);
    }
    close_recomputing(&r);
}
