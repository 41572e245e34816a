/* offload: activations are in the host's memory between the forward and the backward pass. They leave behind the layer that makes them, and
 * come back before the backward pass of the layer behind it; the copies run beside what computes there. */
#include "graph/lanes.h"
#include "graph/uses.h"
#include "pass/node_list.h"
#include "pass/pass.h"

#include <stdlib.h>

/* An activation that leaves: its copy on the way out stands before node `leave` and is over before `wait`, that on the way in stands before
 * `come`. */
struct trip {
    int near, far, back; /* by root: what leaves, its place in the host's memory, and what comes back */
    int made, needed;    /* the last node that writes it, and the first of the backward pass, which reads it */
    int leave, wait, come;
    int64_t bytes;
};

struct offload {
    struct graph *g;
    const struct choices *choices;
    int n_layers;              /* of the program */
    int turn;                  /* the first node of the backward pass */
    int *forward;              /* by layer: its first node of the forward pass; 0: it has none */
    int *segments, n_segments; /* the first nodes of segments of the backward pass, in their order */
    int *instead;              /* by value: what the backward pass reads */
    struct trip *trips;        /* in the order in which they leave */
    struct trip **returning;   /* in the order in which they come back */
    struct uses uses;
    size_t cap;
    int n;
};

static void failed(struct offload *o)
{
    if (!o->g->err.code)
        err_no_memory(&o->g->err, (unsigned long long)o->g->n_nodes * sizeof *o->trips);
}

/* ---- layers ---- */

static bool computes(const struct node *n)
{
    return n->lane == LANE_COMPUTE;
}

/* The backward pass goes through segments of layers, of which the first node is that of a layer below all before it: what is computed again
 * for a segment stands in front of it. */
static void find_layers(struct offload *o)
{
    const struct graph *g = o->g;
    int lowest = o->n_layers;
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        if (!computes(n))
            continue;
        o->turn = !o->turn && n->backward ? k : o->turn;
        if (!o->turn && !o->forward[n->layer])
            o->forward[n->layer] = k;
        if (n->backward && n->layer < lowest) {
            lowest = n->layer;
            o->segments[o->n_segments++] = k;
        }
    }
}

/* Where the forward pass has done so many layers more than that of node `k`. */
static int behind(const struct offload *o, int k, int layers)
{
    int layer = o->g->nodes[k].layer + layers;
    return layer < o->n_layers && o->forward[layer] ? o->forward[layer] : o->turn;
}

/* The first node of the backward pass of the segment before that of node `needed`; 0: there is none. */
static int find_come(const struct offload *o, int needed)
{
    int i = 0;
    while (i + 1 < o->n_segments && o->segments[i + 1] <= needed)
        i++;
    return i > 0 ? o->segments[i - 1] : 0;
}

/* ---- what leaves ---- */

static bool is_sent(const struct choices *c, int layer)
{
    return layer < c->host_activations || (c->recompute && c->recompute[layer].sent);
}

int choices_sent_layers(const struct choices *c, int n_layers)
{
    int n = 0;
    for (int i = 0; i < n_layers; i++)
        n += is_sent(c, i);
    return n;
}

bool activation_may_leave(const struct value *v, struct dims max)
{
    return v->role == ROLE_ACTIVATION && !v->base && !v->persists && !v->live_in && !v->live_out && !v->pitch &&
           !v->pad_rows && value_bytes(v, max) >= COPY_LEAST_BYTES;
}

/* Where an activation is written and read; false: it stays. */
static bool find_trip(const struct offload *o, int id, struct trip *t)
{
    int used = 0;
    *t = (struct trip){.near = id};
    for (int i = o->uses.from[id]; i < o->uses.from[id + 1]; i++) {
        const struct use *u = &o->uses.at[i];
        bool writes = node_writes(&o->g->nodes[u->node], u->slot);
        if (u->node >= o->turn && writes)
            return false;
        t->made = writes ? u->node : t->made;
        used = u->node < o->turn ? u->node : used;
        t->needed = u->node >= o->turn && !t->needed ? u->node : t->needed;
    }
    if (!t->made || !t->needed)
        return false;
    t->leave = behind(o, t->made, 1);
    t->wait = behind(o, used, 2); /* beside the layer behind the last that uses it */
    t->come = find_come(o, t->needed);
    return t->come > t->wait && t->come < t->needed;
}

static void find_trips(struct offload *o, struct dims max)
{
    for (int i = 1; i < o->g->n_values; i++) {
        const struct value *v = graph_value(o->g, i);
        struct trip t;
        if (!is_sent(o->choices, v->layer) || !activation_may_leave(v, max) || !find_trip(o, i, &t))
            continue;
        if (!MEM_GROW(o->trips, o->cap, (size_t)o->n + 1)) {
            failed(o);
            return;
        }
        t.bytes = value_bytes(v, max);
        o->trips[o->n++] = t;
    }
}

static int by_made(const void *a, const void *b)
{
    const struct trip *x = a, *y = b;
    return x->made != y->made ? x->made - y->made : x->near - y->near;
}

static int by_needed(const void *a, const void *b)
{
    const struct trip *x = *(struct trip *const *)a, *y = *(struct trip *const *)b;
    return x->come != y->come ? x->come - y->come : x->needed != y->needed ? x->needed - y->needed : x->near - y->near;
}

static void sort_trips(struct offload *o)
{
    qsort(o->trips, (size_t)o->n, sizeof *o->trips, by_made);
    o->returning = mem_alloc((size_t)o->n * sizeof *o->returning);
    if (!o->returning) {
        failed(o);
        return;
    }
    for (int i = 0; i < o->n; i++)
        o->returning[i] = &o->trips[i];
    qsort(o->returning, (size_t)o->n, sizeof *o->returning, by_needed);
}

/* ---- room ---- */

static void add_bytes(int64_t *live, int from, int end, int64_t bytes)
{
    for (int k = from; k < end; k++)
        live[k] += bytes;
}

/* What left last has the room first: its lane has done all else by then. */
static void leave_late(struct offload *o, int64_t *live, int64_t most)
{
    for (int i = o->n - 1; i >= 0; i--) {
        struct trip *t = &o->trips[i];
        int from = t->wait, latest = i + 1 < o->n ? o->trips[i + 1].wait : o->turn;
        while (t->wait < latest && live[t->wait] + t->bytes <= most)
            t->wait++;
        while (t->wait > from && !computes(&o->g->nodes[t->wait]))
            t->wait--;
        add_bytes(live, from, t->wait, t->bytes);
    }
}

/* What is needed first has it. */
static void come_early(struct offload *o, int64_t *live, int64_t most)
{
    for (int i = 0; i < o->n; i++) {
        struct trip *t = o->returning[i];
        int end = t->come, earliest = i ? o->returning[i - 1]->come : o->turn + 1;
        while (t->come > earliest && live[t->come - 1] + t->bytes <= most)
            t->come--;
        add_bytes(live, t->come, end, t->bytes);
    }
}

/* Activations are on the device for longer where that does not raise the peak. */
static void use_room(struct offload *o, struct dims max)
{
    int64_t most = 0, *live = lives_bytes(o->g, max);
    if (!live) {
        failed(o);
        return;
    }
    for (int i = 0; i < o->n; i++)
        add_bytes(live, o->trips[i].wait, o->trips[i].come, -o->trips[i].bytes);
    for (int k = 1; k < o->g->n_nodes; k++)
        most = live[k] > most ? live[k] : most;
    leave_late(o, live, most);
    come_early(o, live, most);
    mem_free(live);
}

/* ---- nodes ---- */

static int add_value_like(struct graph *g, int id, enum memory memory)
{
    struct value v = *graph_value(g, id);
    int like = graph_add_value(g, NULL, v.role, v.dtype, v.ndim, v.shape);
    if (like) {
        graph_value(g, like)->exact = v.exact;
        graph_value(g, like)->layer = v.layer;
        graph_value(g, like)->memory = memory;
    }
    return like;
}

/* The backward pass reads what came back. */
static void read_back(struct offload *o, const struct trip *t)
{
    o->instead[t->near] = t->back;
    for (int i = o->uses.from[t->near]; i < o->uses.from[t->near + 1] && !o->g->err.code; i++) {
        struct use u = o->uses.at[i];
        if (u.node >= o->turn) {
            int id = graph_instead(o->g, o->g->nodes[u.node].u.slot[u.slot], o->instead);
            o->g->nodes[u.node].u.slot[u.slot] = id;
        }
    }
}

static void append_move(struct offload *o, struct node_list *l, int x, int y, enum lane lane)
{
    struct node n = {.op = OP_move, .lane = lane, .layer = graph_value(o->g, x)->layer, .backward = lane == LANE_IN};
    n.u.move = (struct op_move){.x = x, .y = y};
    node_list_append(o->g, l, &n);
}

/* The last of those that node `k` waits for: its lane does one after the other. */
static int waits_for(const struct offload *o, int k)
{
    int far = 0;
    for (int i = 0; i < o->n; i++)
        far = o->trips[i].wait == k ? o->trips[i].far : far;
    return far;
}

static void insert_moves(struct offload *o)
{
    struct node_list l = {0};
    for (int i = 0; i < o->n && !o->g->err.code; i++) {
        o->trips[i].far = add_value_like(o->g, o->trips[i].near, MEMORY_HOST);
        o->trips[i].back = add_value_like(o->g, o->trips[i].near, MEMORY_DEVICE);
        read_back(o, &o->trips[i]);
    }
    for (int k = 1, gone = 0, come = 0, far = 0; k < o->g->n_nodes && !o->g->err.code; k++) {
        struct node *n = &o->g->nodes[k];
        for (; come < o->n && o->returning[come]->come <= k; come++)
            append_move(o, &l, o->returning[come]->far, o->returning[come]->back, LANE_IN);
        for (; gone < o->n && o->trips[gone].leave <= k; gone++)
            append_move(o, &l, o->trips[gone].near, o->trips[gone].far, LANE_OUT);
        far = waits_for(o, k) ? waits_for(o, k) : far;
        if (far && !n->waits) { /* for something else, a sum over ranks: the next node will do */
            n->waits = far;
            far = 0;
        }
        node_list_append(o->g, &l, n);
    }
    node_list_finish(o->g, &l);
}

static bool open_offload(struct offload *o, struct graph *g, const struct choices *choices)
{
    *o = (struct offload){.g = g, .choices = choices};
    for (int k = 1; k < g->n_nodes; k++)
        o->n_layers = g->nodes[k].layer >= o->n_layers ? g->nodes[k].layer + 1 : o->n_layers;
    o->forward = mem_alloc((size_t)o->n_layers * sizeof *o->forward);
    o->segments = mem_alloc((size_t)o->n_layers * sizeof *o->segments);
    o->instead = mem_alloc((size_t)g->n_values * sizeof *o->instead);
    if (!o->forward || !o->segments || !o->instead)
        failed(o);
    return !g->err.code && uses_open(&o->uses, g);
}

static void close_offload(struct offload *o)
{
    uses_close(&o->uses);
    mem_free(o->forward);
    mem_free(o->segments);
    mem_free(o->instead);
    mem_free(o->trips);
    mem_free(o->returning);
}

void pass_offload(struct graph *g, struct pass_settings *s)
{
    struct offload o;
    if (g->err.code || (!s->choices.host_activations && !s->choices.recompute) || s->in_host_memory)
        return;
    if (open_offload(&o, g, &s->choices)) {
        find_layers(&o);
        find_trips(&o, s->choices.micro);
        if (o.n)
            sort_trips(&o);
        if (o.n && s->choices.prefetch && !g->err.code)
            use_room(&o, s->choices.micro);
        if (o.n)
            insert_moves(&o);
    }
    close_offload(&o);
}
