#include "graph/uses.h"
#include "pass/pass.h"

/* The nodes of a head that works on logits which nobody else reads; 0 where there is no such node. */
struct head {
    int linear, cap, loss, best; /* going forward */
    int loss_bwd, cap_bwd, dw, dx;
};

/* A slot in which logits, or their gradient, may be. */
static int *node_of(struct head *h, enum op op, int slot)
{
    const struct {
        enum op op;
        int slot; /* -1: any */
        int *node;
    } places[] = {{OP_linear, OP_SLOT(linear, y), &h->linear},
                  {OP_softcap, -1, &h->cap},
                  {OP_cross_entropy, OP_SLOT(cross_entropy, logits), &h->loss},
                  {OP_argmax, OP_SLOT(argmax, logits), &h->best},
                  {OP_cross_entropy_bwd, -1, &h->loss_bwd},
                  {OP_softcap_bwd, -1, &h->cap_bwd},
                  {OP_linear_dw, OP_SLOT(linear_dw, dy), &h->dw},
                  {OP_linear_dx, OP_SLOT(linear_dx, dy), &h->dx}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].op == op && (places[i].slot < 0 || places[i].slot == slot))
            return places[i].node;
    return NULL;
}

/* Takes all nodes that use a value into the head: false where one has no place in it, or the value is wanted by others. */
static bool take_users(struct head *h, const struct graph *g, const struct uses *u, int id)
{
    const struct value *v = graph_value(g, id);
    if (v->role != ROLE_ACTIVATION || v->base || v->live_out)
        return false;
    for (int i = u->from[id]; i < u->from[id + 1]; i++) {
        int k = u->at[i].node, *node = node_of(h, g->nodes[k].op, u->at[i].slot);
        if (!node || (*node && *node != k))
            return false;
        *node = k;
    }
    return true;
}

static int largest(int a, int b)
{
    return a > b ? a : b;
}

/* The last node; what the head is made of besides lies behind one another before it. */
static int last_of(const struct head *h)
{
    int forward = largest(largest(h->linear, h->cap), largest(h->loss, h->best));
    return largest(forward, largest(largest(h->loss_bwd, h->cap_bwd), largest(h->dw, h->dx)));
}

static bool is_member(const struct head *h, int k)
{
    return k == h->linear || k == h->cap || k == h->loss || k == h->best || k == h->loss_bwd || k == h->cap_bwd ||
           k == h->dw || k == h->dx;
}

static bool is_plain(const struct graph *g, const struct head *h)
{
    const struct op_linear *l = &g->nodes[h->linear].u.linear;
    int dx = h->dx ? g->nodes[h->dx].u.linear_dx.dx : 0;
    return h->linear && !l->act && !l->add && !l->slope && !l->in_out && !value_is_columns(graph_value(g, l->x)) &&
           !value_is_columns(graph_value(g, dx)) && !g->nodes[h->loss].u.cross_entropy.weights;
}

/* The head behind which the loss of node k stands; false where it is not all of this form, or small. */
static bool find_head(const struct graph *g, const struct uses *u, int k, int64_t least, struct head *h)
{
    *h = (struct head){.loss = k};
    int logits = g->nodes[k].u.cross_entropy.logits;
    if (graph_value(g, logits)->shape[1].c < least || !take_users(h, g, u, logits))
        return false;
    if (h->cap && (g->nodes[h->cap].u.softcap.y != logits || !take_users(h, g, u, g->nodes[h->cap].u.softcap.x)))
        return false;
    if (h->loss_bwd && !take_users(h, g, u, g->nodes[h->loss_bwd].u.cross_entropy_bwd.dlogits))
        return false;
    if (h->cap_bwd && !take_users(h, g, u, g->nodes[h->cap_bwd].u.softcap_bwd.dx))
        return false;
    bool together = true;
    for (int n = h->loss; n <= last_of(h); n++)
        together &= is_member(h, n);
    return together && is_plain(g, h);
}

static unsigned moved_add(const struct node *n, int from, int to)
{
    return (n->add >> from & 1) << to;
}

static struct node join(const struct graph *g, const struct head *h, int64_t chunk)
{
    const struct op_linear *l = &g->nodes[h->linear].u.linear;
    const struct op_cross_entropy *loss = &g->nodes[h->loss].u.cross_entropy;
    struct node n = {
        .op = OP_linear_cross_entropy, .layer = g->nodes[h->loss].layer, .backward = g->nodes[last_of(h)].backward};
    n.u.linear_cross_entropy = (struct op_linear_cross_entropy){
        .x = l->x,
        .w = l->w,
        .b = l->b,
        .labels = loss->labels,
        .step = loss->step,
        .more = loss->more,
        .loss = loss->loss,
        .best = h->best ? g->nodes[h->best].u.argmax.best : 0,
        .dx = h->dx ? g->nodes[h->dx].u.linear_dx.dx : 0,
        .dw = h->dw ? g->nodes[h->dw].u.linear_dw.dw : 0,
        .db = h->dw ? g->nodes[h->dw].u.linear_dw.db : 0,
        .smoothing = loss->smoothing,
        .softcap = h->cap ? g->nodes[h->cap].u.softcap.cap : 0,
        .chunk = chunk,
    };
    if (h->dx)
        n.add |= moved_add(&g->nodes[h->dx], OP_SLOT(linear_dx, dx), OP_SLOT(linear_cross_entropy, dx));
    if (h->dw)
        n.add |= moved_add(&g->nodes[h->dw], OP_SLOT(linear_dw, dw), OP_SLOT(linear_cross_entropy, dw)) |
                 moved_add(&g->nodes[h->dw], OP_SLOT(linear_dw, db), OP_SLOT(linear_cross_entropy, db));
    return n;
}

void pass_fold_head(struct graph *g, struct pass_settings *s)
{
    struct uses u = {0};
    struct head h = {0};
    bool found = false;
    if (g->err.code || s->head_chunk <= 0)
        return;
    if (uses_open(&u, g))
        for (int k = 1; k < g->n_nodes && !found; k++)
            found = g->nodes[k].op == OP_cross_entropy && find_head(g, &u, k, s->head_vocabulary, &h);
    uses_close(&u);
    if (!found)
        return;
    int n = 1, last = last_of(&h);
    struct node head = join(g, &h, s->head_chunk);
    for (int k = 1; k < g->n_nodes; k++)
        if (k == last)
            g->nodes[n++] = head;
        else if (!is_member(&h, k))
            g->nodes[n++] = g->nodes[k];
    g->n_nodes = n;
}
