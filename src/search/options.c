#include "search/options.h"

#include "plan/pack.h"

#include <stdlib.h>
#include <string.h>

/* A value that the forward nodes of the segment use, as simulated. Nodes are counted from the segment's first. */
struct part {
    int id;
    int64_t bytes;
    bool ours, held;    /* an activation that these nodes make; as struct layers has it */
    bool large;         /* it may leave for the host's memory */
    bool inner;         /* held, and used by a forward node of a later layer; or, of the layer before, one that is */
    bool needed_at_all; /* not optional, or read before the backward nodes */
    int last_before;    /* the last node before the backward nodes that uses it */
    int backward_first, backward_last; /* that use it; 0: none */
    /* By a way: */
    bool remade, dropped;
    int copy_first, copy_last; /* that use what is made again; or, of what is not, the last that reads it: -1 none */
};

struct access {
    int node, part;
    bool writes, reads;             /* going forward */
    bool writes_again, reads_again; /* when it is computed again */
};

/* A segment that is simulated. */
struct sim {
    const struct layers *l;
    const struct rates *r;
    int first, last; /* layers */
    struct layer_span span;
    int n_nodes; /* forward ones, of which at most RECOMPUTE_NODES are considered where it is one layer */
    double *seconds;
    double window;   /* bytes that a copy moves while the last layer's forward nodes run */
    int64_t outputs; /* beside what is held: what the last layer makes for the backward pass of the one behind it */
    int64_t *workspace;
    bool *in, *copied; /* by forward node: the way's set; what of it is needed */
    struct part *parts;
    struct access *accesses;
    int n_parts, n_accesses;
    int *part_of;                /* by root: 1 + its part */
    int64_t *forward, *backward; /* changes at each node; backward: at each copy, then each node of the span */
};

static void find_uses(struct sim *s)
{
    const struct graph *g = &s->l->g->graph;
    for (int k = s->span.forward; k < s->span.backward_end; k++) {
        const struct node *n = &g->nodes[k];
        for (int i = 0; i < node_op(n)->n_slots; i++) {
            int at = n->u.slot[i] ? s->part_of[value_root(g, n->u.slot[i])] : 0;
            if (!at)
                continue;
            struct part *p = &s->parts[at - 1];
            if (k < s->span.backward) {
                p->last_before = k;
                p->needed_at_all |= node_reads(n, i) || node_op(n)->slots[i].kind != SLOT_MAYBE;
                p->inner |= p->ours && p->held && !n->backward && k >= s->span.forward_end;
            } else if (node_reads(n, i)) {
                p->backward_first = p->backward_first ? p->backward_first : k;
                p->backward_last = k;
            }
        }
    }
}

static bool is_ours(const struct sim *s, int id)
{
    const struct program *p = s->l->g;
    int root = value_root(&p->graph, id);
    return p->first[root] >= s->span.forward && p->graph.values[root].role == ROLE_ACTIVATION;
}

/* As pass_recompute has it. */
static struct restart restart_of(const struct sim *s, const struct node *n)
{
    struct restart r = recompute_restart(n);
    return r.from && !is_ours(s, r.inputs[0]) && !is_ours(s, r.inputs[1]) ? r : (struct restart){0};
}

static void add_access(struct sim *s, int k, int slot)
{
    const struct program *p = s->l->g;
    const struct node *n = &p->graph.nodes[k];
    int id = n->u.slot[slot] ? value_root(&p->graph, n->u.slot[slot]) : 0;
    struct restart r = restart_of(s, n);
    bool is_start = r.from && n->u.slot[slot] == r.from;
    bool is_skipped = r.from && (n->u.slot[slot] == r.inputs[0] || n->u.slot[slot] == r.inputs[1]);
    if (!id || !plan_is_transient(p, id))
        return;
    if (!s->part_of[id]) {
        s->parts[s->n_parts] = (struct part){
            .id = id, .bytes = plan_room(s->l->plan, p, id), .ours = is_ours(s, id), .held = s->l->held[id]};
        s->parts[s->n_parts].inner = s->l->held[id] && !s->parts[s->n_parts].ours;
        s->parts[s->n_parts].large = activation_may_leave(graph_value(&p->graph, id), p->max);
        s->part_of[id] = ++s->n_parts;
    }
    s->accesses[s->n_accesses++] = (struct access){.node = k - s->span.forward,
                                                   .part = s->part_of[id] - 1,
                                                   .writes = node_writes(n, slot),
                                                   .reads = node_reads(n, slot),
                                                   .writes_again = node_writes(n, slot) && !is_start,
                                                   .reads_again = is_start || (node_reads(n, slot) && !is_skipped)};
}

static int64_t output_bytes(const struct layers *l, int layer)
{
    const struct program *p = l->g;
    int64_t bytes = 0;
    for (int i = 1; layer < l->n && i < p->graph.n_values; i++)
        if (plan_is_transient(p, i) && activation_may_leave(&p->graph.values[i], p->max) && !l->held[i] &&
            p->first[i] >= l->spans[layer].forward && p->first[i] < l->spans[layer].forward_end &&
            p->last[i] >= l->spans[layer + 1].backward)
            bytes += plan_room(l->plan, p, i);
    return bytes;
}

static int sim_open(struct sim *s, const struct layers *l, const struct rates *r, int first, int last,
                    struct snug_err *err)
{
    const struct program *p = l->g;
    *s = (struct sim){.l = l, .r = r, .first = first, .last = last};
    s->span = (struct layer_span){l->spans[first].forward, l->spans[last].forward_end, l->spans[last].backward,
                                  l->spans[first].backward_end};
    s->n_nodes = s->span.forward_end - s->span.forward;
    size_t n = (size_t)s->n_nodes, span = (size_t)(s->span.backward_end - s->span.backward);
    s->seconds = mem_alloc(n * sizeof *s->seconds);
    s->workspace = mem_alloc(n * sizeof *s->workspace);
    s->in = mem_alloc(n);
    s->copied = mem_alloc(n);
    s->parts = mem_alloc(n * OP_MAX_SLOTS * sizeof *s->parts);
    s->accesses = mem_alloc(n * OP_MAX_SLOTS * sizeof *s->accesses);
    s->part_of = mem_alloc((size_t)p->graph.n_values * sizeof *s->part_of);
    s->forward = mem_alloc((n + 1) * sizeof *s->forward);
    s->backward = mem_alloc((n + span + 1) * sizeof *s->backward);
    if (!s->seconds || !s->workspace || !s->in || !s->copied || !s->parts || !s->accesses || !s->part_of ||
        !s->forward || !s->backward)
        return err_no_memory(err, n * OP_MAX_SLOTS * sizeof *s->parts);
    for (int k = s->span.forward; k < s->span.forward_end; k++) {
        const struct node *node = &p->graph.nodes[k];
        s->seconds[k - s->span.forward] = rates_node(r, p, node);
        s->window += node->layer == last ? s->seconds[k - s->span.forward] * r->host_bytes : 0;
        if (node->workspace)
            s->workspace[k - s->span.forward] = plan_room(l->plan, p, node->workspace);
        for (int i = 0; i < node_op(node)->n_slots; i++)
            add_access(s, k, i);
    }
    s->outputs = output_bytes(l, last);
    find_uses(s);
    return SNUG_OK;
}

static void sim_close(struct sim *s)
{
    mem_free(s->seconds);
    mem_free(s->workspace);
    mem_free(s->in);
    mem_free(s->copied);
    mem_free(s->parts);
    mem_free(s->accesses);
    mem_free(s->part_of);
    mem_free(s->forward);
    mem_free(s->backward);
}

/* ---- one way ---- */

/* As pass_recompute does it: what all of its writers make again is dropped, and what of the set makes nothing that is needed is not
 * computed again. Gives how many nodes are. */
static int find_copies(struct sim *s)
{
    int n = 0;
    for (int i = 0; i < s->n_parts; i++) {
        struct part *p = &s->parts[i];
        p->dropped = p->ours;
        p->remade = false;
        p->copy_first = p->copy_last = -1;
    }
    for (int i = 0; i < s->n_accesses; i++)
        if (s->accesses[i].writes && (!s->in[s->accesses[i].node] || !s->accesses[i].writes_again))
            s->parts[s->accesses[i].part].dropped = false;
    memset(s->copied, 0, (size_t)s->n_nodes);
    for (int i = s->n_accesses - 1, end = i; i >= 0; i = end) { /* node by node, from the last */
        int node = s->accesses[i].node;
        for (end = i; end >= 0 && s->accesses[end].node == node; end--) {
            const struct part *p = &s->parts[s->accesses[end].part];
            s->copied[node] |= s->accesses[end].writes_again && p->dropped && (p->backward_first || p->remade);
        }
        for (int k = i; s->copied[node] && k > end; k--)
            if (s->accesses[k].reads_again)
                s->parts[s->accesses[k].part].remade = true; /* wanted by a copy */
        n += s->copied[node];
    }
    return n;
}

/* When copies use what: of a value that a copy writes, the new one; else the old one. */
static void find_copy_lives(struct sim *s)
{
    for (int i = 0; i < s->n_parts; i++)
        s->parts[i].remade = false;
    for (int i = 0, copy = -1, node = -1; i < s->n_accesses; i++) {
        const struct access *a = &s->accesses[i];
        struct part *p = &s->parts[a->part];
        if (!s->copied[a->node])
            continue;
        copy += a->node != node;
        node = a->node;
        if (a->writes_again && !p->remade) {
            p->remade = true;
            p->copy_first = copy;
        }
        p->copy_last = a->reads_again || a->writes_again ? copy : p->copy_last;
    }
}

static void lives(int64_t *changes, int first, int last, int64_t bytes)
{
    changes[first] += bytes;
    changes[last + 1] -= bytes;
}

/* A value as it was made going forward. Gives its bytes where it is held until the backward nodes. */
static int64_t simulate_old(struct sim *s, const struct part *p, int copies)
{
    const struct program *g = s->l->g;
    int forward = s->span.forward, end = s->span.forward_end - 1;
    if (p->held && p->ours) {
        bool stays = !p->dropped;
        int first = g->first[p->id], last = stays ? end : p->last_before < end ? p->last_before : end;
        if (!stays && !p->needed_at_all)
            return 0;
        lives(s->forward, first - forward, last - forward, p->bytes);
        if (stays)
            lives(s->backward, 0, copies + g->last[p->id] - s->span.backward, p->bytes);
        return stays || (p->last_before > end && g->graph.nodes[p->last_before].backward) ? p->bytes : 0;
    }
    if (p->remade || p->copy_last < 0 || g->last[p->id] >= s->span.backward)
        return 0;
    int from = g->last[p->id] < end ? g->last[p->id] + 1 : end;
    lives(s->forward, from - forward, end - forward, p->bytes);
    lives(s->backward, 0, p->copy_last, p->bytes);
    return p->bytes;
}

static void simulate_new(struct sim *s, const struct part *p, int copies)
{
    int last = p->copy_last;
    if (!p->remade || (!p->needed_at_all && !p->backward_first))
        return;
    if (p->dropped && p->backward_first)
        last = copies + p->backward_last - s->span.backward;
    lives(s->backward, p->copy_first, last, p->bytes);
}

static int64_t most_of(const struct sim *s, int copies)
{
    int64_t most = 0, live = 0;
    for (int k = 0; k < s->n_nodes; k++) {
        live += s->forward[k];
        int64_t here = live + s->l->beside[s->span.forward + k];
        most = here > most ? here : most;
    }
    live = 0;
    for (int k = 0; k < copies + s->span.backward_end - s->span.backward; k++) {
        live += s->backward[k];
        int64_t here = live + (k < copies ? s->l->through[s->last] : s->l->beside[s->span.backward + k - copies]);
        most = here > most ? here : most;
    }
    return most;
}

static void simulate(struct sim *s, struct option *o)
{
    int copies = find_copies(s);
    find_copy_lives(s);
    memset(s->forward, 0, (size_t)(s->n_nodes + 1) * sizeof *s->forward);
    memset(s->backward, 0, (size_t)(copies + s->span.backward_end - s->span.backward + 1) * sizeof *s->backward);
    *o = (struct option){0};
    for (int j = 0, copy = 0; j < s->n_nodes; j++)
        if (s->copied[j]) {
            o->seconds += s->seconds[j];
            lives(s->backward, copy, copy, s->workspace[j]);
            copy++;
            if (j < RECOMPUTE_NODES)
                o->nodes |= UINT64_C(1) << j;
        }
    for (int i = 0; i < s->n_parts; i++) {
        const struct part *p = &s->parts[i];
        int64_t held = simulate_old(s, p, copies);
        o->held += held;
        o->large += p->large ? held : 0;
        simulate_new(s, p, copies);
        o->reads_inner |= p->inner && !p->ours && !p->remade && p->copy_last >= 0;
        o->drops_inner |= p->inner && p->ours && p->dropped;
    }
    o->most = most_of(s, copies);
}

/* ---- all ways ---- */

static bool is_better(const struct option *a, const struct option *b)
{
    return a->held <= b->held && a->most <= b->most && a->seconds <= b->seconds && a->reads_inner <= b->reads_inner &&
           a->drops_inner <= b->drops_inner;
}

/* Keeps those that none is better than. */
static bool add_option(struct option_list *list, const struct option *o)
{
    int n = 0;
    for (int i = 0; i < list->n; i++)
        if (is_better(&list->all[i], o))
            return true;
    for (int i = 0; i < list->n; i++)
        if (!is_better(o, &list->all[i]))
            list->all[n++] = list->all[i];
    list->n = n;
    if (!MEM_GROW(list->all, list->cap, (size_t)n + 1))
        return false;
    list->all[list->n++] = *o;
    return true;
}

/* Nodes that are worth a choice of their own: MOST of them, which make most bytes; the others, such as those of small adapters,
 * are computed again where they must be. A node that reads no activation, as a cast of a weight, is so in any case. */
enum { MOST_FREE = 12 };

struct weight {
    int node;
    int64_t bytes;
};

static int by_bytes(const void *a, const void *b)
{
    const struct weight *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : x->node - y->node;
}

static int find_free(struct sim *s, struct weight *w)
{
    int n = 0;
    for (int j = 0; j < s->n_nodes; j++) {
        bool read = false, wanted = false;
        struct weight here = {.node = j};
        for (int i = 0; i < s->n_accesses; i++)
            if (s->accesses[i].node == j) {
                const struct part *p = &s->parts[s->accesses[i].part];
                read |= s->accesses[i].reads;
                wanted |= s->accesses[i].writes && p->backward_first;
                here.bytes += s->accesses[i].writes ? p->bytes : 0;
            }
        s->in[j] = !wanted && j < RECOMPUTE_NODES;
        if (read && j < RECOMPUTE_NODES)
            w[n++] = here;
    }
    qsort(w, (size_t)n, sizeof *w, by_bytes);
    return n < MOST_FREE ? n : MOST_FREE;
}

/* Whether what the last layer leaves behind can do so while the layer behind it runs, taken to be as long. What the very last one holds is
 * back at once. */
static bool may_send(const struct sim *s, const struct option *o)
{
    int64_t bytes = o->large + s->outputs;
    return s->l->sends && s->last < s->l->n && bytes > 0 && (double)bytes <= s->window;
}

/* While a layer runs, there is what is on its way of its neighbour, too, taken to be as much. The copies use the memory beside it. */
static void send(const struct sim *s, struct option *o)
{
    int64_t bytes = o->large + s->outputs;
    o->sent = true;
    o->most += bytes;
    o->seconds += 2 * (double)bytes / s->r->bytes;
    o->held -= bytes;
}

/* Of the ways to send, all of which hold next to nothing, the fastest and that with the least beside it: others are hardly better, and the
 * search takes longer for each. */
struct senders {
    struct option fastest, least;
    int n;
};

static void consider_sending(const struct sim *s, const struct option *kept, struct senders *to)
{
    struct option sent = *kept;
    if (!may_send(s, kept))
        return;
    send(s, &sent);
    if (!to->n || sent.seconds < to->fastest.seconds)
        to->fastest = sent;
    if (!to->n || sent.most < to->least.most)
        to->least = sent;
    to->n++;
}

static bool add_senders(struct option_list *list, const struct senders *x)
{
    return !x->n || (add_option(list, &x->fastest) && add_option(list, &x->least));
}

static int enumerate(struct sim *s, struct option_list *out, struct snug_err *err)
{
    struct weight *w = mem_alloc((size_t)s->n_nodes * sizeof *w);
    struct senders senders = {.n = 0};
    bool ok = w;
    int n = ok ? find_free(s, w) : 0;
    for (unsigned set = 0; ok && set < 1u << n; set++) {
        struct option o;
        for (int i = 0; i < n; i++)
            s->in[w[i].node] = set >> i & 1;
        simulate(s, &o);
        ok = add_option(out, &o);
        consider_sending(s, &o, &senders);
    }
    ok = ok && add_senders(out, &senders);
    mem_free(w);
    return ok ? SNUG_OK : err_no_memory(err, (unsigned long long)s->n_nodes * sizeof *w);
}

int options_of(const struct layers *l, const struct rates *r, int layer, int last, struct option_list *out,
               struct snug_err *err)
{
    struct sim s;
    struct option all;
    out->n = 0;
    int code = sim_open(&s, l, r, layer, last, err);
    if (!code && layer == last)
        code = enumerate(&s, out, err);
    if (!code && layer < last) {
        memset(s.in, 1, (size_t)s.n_nodes);
        simulate(&s, &all);
        all.nodes = UINT64_MAX;
        struct senders senders = {.n = 0};
        consider_sending(&s, &all, &senders);
        if (!add_option(out, &all) || !add_senders(out, &senders))
            code = err_no_memory(err, sizeof all);
    }
    sim_close(&s);
    return code;
}

/* ---- equal layers ---- */

bool options_equal_layers(const struct layers *l, int a, int b)
{
    const struct layer_span *x = &l->spans[a], *y = &l->spans[b];
    const struct graph *g = &l->g->graph;
    if (x->forward_end - x->forward != y->forward_end - y->forward || !x->backward != !y->backward)
        return false;
    for (int k = 0; k < x->forward_end - x->forward; k++) {
        const struct node *m = &g->nodes[x->forward + k], *n = &g->nodes[y->forward + k];
        if (m->op != n->op)
            return false;
        for (int i = 0; i < node_op(m)->n_slots; i++) {
            int p = value_root(g, m->u.slot[i]), q = value_root(g, n->u.slot[i]);
            if (!p != !q || plan_room(l->plan, l->g, p) != plan_room(l->plan, l->g, q) || l->held[p] != l->held[q])
                return false;
        }
    }
    return true;
}

int options_move(const struct layers *l, const struct rates *r, int layer, struct option_list *options,
                 struct snug_err *err)
{
    struct sim s;
    int code = sim_open(&s, l, r, layer, layer, err);
    for (int i = 0; !code && i < options->n; i++) {
        for (int j = 0; j < s.n_nodes; j++)
            s.in[j] = j < RECOMPUTE_NODES && options->all[i].nodes >> j & 1;
        bool sent = options->all[i].sent;
        simulate(&s, &options->all[i]);
        if (sent)
            send(&s, &options->all[i]);
    }
    sim_close(&s);
    return code;
}
