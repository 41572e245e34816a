#include "run/node_time.h"

#include <math.h>
#include <string.h>

struct form { /* of a value: its size in terms of tokens and sequences */
    enum dtype dtype;
    int ndim;
    struct dim shape[MAX_DIMS];
};

struct node_time {
    enum op op;
    struct form slots[OP_MAX_SLOTS]; /* ndim 0: absent */
    double work, seconds;
};

static bool is_attention(enum op op)
{
    return op == OP_attention || op == OP_attention_bwd;
}

bool node_bound_by_operations(enum op op)
{
    return is_attention(op) || op_is_product(op) || op == OP_linear_cross_entropy;
}

double node_work(const struct program *g, const struct node *n, struct dims dims)
{
    union args_any args;
    compile_args(g, n, dims, NULL, -1, &args);
    return node_bound_by_operations(n->op) ? node_op(n)->flops(&args) : compile_bytes(g, n, &args, MEMORY_DEVICE);
}

static void describe(const struct program *g, const struct node *n, struct node_time *t)
{
    *t = (struct node_time){.op = n->op};
    for (int i = 0; i < node_op(n)->n_slots; i++) {
        const struct value *v = graph_value(&g->graph, n->u.slot[i]);
        if (!n->u.slot[i])
            continue;
        t->slots[i] = (struct form){.dtype = v->dtype, .ndim = v->ndim};
        memcpy(t->slots[i].shape, v->shape, sizeof v->shape);
    }
}

int node_times_add(struct node_times *t, const struct program *g, struct dims dims, const double *seconds,
                   struct snug_err *err)
{
    if (!MEM_GROW(t->all, t->cap, t->n + (size_t)g->graph.n_nodes))
        return err_no_memory(err, (t->n + (size_t)g->graph.n_nodes) * sizeof *t->all);
    for (int i = 1; i < g->graph.n_nodes; i++) {
        struct node_time *here = &t->all[t->n++];
        describe(g, &g->graph.nodes[i], here);
        here->work = node_work(g, &g->graph.nodes[i], dims);
        here->seconds = seconds[i];
    }
    return SNUG_OK;
}

void node_times_free(struct node_times *t)
{
    mem_free(t->all);
    *t = (struct node_times){0};
}

double node_times_sum(const struct node_times *t)
{
    double seconds = 0;
    for (size_t i = 0; i < t->n; i++)
        seconds += t->all[i].seconds;
    return seconds;
}

/* Slots in which two nodes of one op differ; a different dtype counts more than a different shape. */
static int difference(const struct node_time *a, const struct node_time *b)
{
    int differing = 0;
    for (int i = 0; i < op_table[a->op].n_slots; i++) {
        const struct form *x = &a->slots[i], *y = &b->slots[i];
        differing += (!x->ndim) != (!y->ndim) || (x->ndim && x->dtype != y->dtype) ? OP_MAX_SLOTS : 0;
        bool same = x->ndim == y->ndim;
        for (int d = 0; d < x->ndim && same; d++)
            same = dim_equal(x->shape[d], y->shape[d]);
        differing += !same;
    }
    return differing;
}

/* NULL: no node of this op was measured. Among equally similar ones that which has most nearly as much to do. */
static const struct node_time *most_similar(const struct node_times *t, const struct node_time *wanted)
{
    const struct node_time *best = NULL;
    int least = 0;
    double nearest = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct node_time *x = &t->all[i];
        if (x->op != wanted->op || x->work <= 0)
            continue;
        int differing = difference(x, wanted);
        double far = fabs(log(wanted->work / x->work));
        if (!best || differing < least || (differing == least && far < nearest)) {
            best = x;
            least = differing;
            nearest = far;
        }
    }
    return best;
}

/* The same node at another number of tokens, the nearest in work to `wanted`; NULL: it was measured at one alone. */
static const struct node_time *at_another_size(const struct node_times *t, const struct node_time *like, double wanted)
{
    const double apart = 1.4; /* nearer ones differ by chance as much as by work */
    const struct node_time *best = NULL;
    for (size_t i = 0; i < t->n; i++) {
        const struct node_time *x = &t->all[i];
        if (x->op == like->op && x->work > 0 && fabs(log(x->work / like->work)) > log(apart) && !difference(x, like) &&
            (!best || fabs(log(wanted / x->work)) < fabs(log(wanted / best->work))))
            best = x;
    }
    return best;
}

/* Part of a node's time does not depend on tokens: a product lays out its weight first. Where a node was measured at two sizes, its time
 * is on the line through both, but between a constant and what is in proportion. */
static double seconds_for(const struct node_times *t, const struct node_time *like, double work)
{
    double constant = like->seconds, proportional = like->seconds * work / like->work;
    const struct node_time *other = at_another_size(t, like, work);
    if (!other)
        return proportional;
    double slope = (other->seconds - like->seconds) / (other->work - like->work);
    double line = like->seconds + slope * (work - like->work);
    return fmin(fmax(line, fmin(constant, proportional)), fmax(constant, proportional));
}

/* Seconds a byte of what is bound by memory, for ops of which none was measured. */
static double seconds_per_byte(const struct node_times *t)
{
    double seconds = 0, bytes = 0;
    for (size_t i = 0; i < t->n; i++)
        if (!node_bound_by_operations(t->all[i].op)) {
            seconds += t->all[i].seconds;
            bytes += t->all[i].work;
        }
    return bytes > 0 ? seconds / bytes : 0;
}

double node_times_of(const struct node_times *t, const struct program *g, struct dims dims, double attention)
{
    double seconds = 0, per_byte = seconds_per_byte(t);
    for (int i = 1; i < g->graph.n_nodes; i++) {
        const struct node *n = &g->graph.nodes[i];
        struct node_time wanted;
        if (!node_is_of(n, 1))
            continue;
        describe(g, n, &wanted);
        wanted.work = node_work(g, n, dims) * (is_attention(n->op) ? attention : 1);
        if (wanted.work <= 0)
            continue;
        const struct node_time *like = most_similar(t, &wanted);
        seconds += like ? seconds_for(t, like, wanted.work) : per_byte * wanted.work;
    }
    return seconds;
}
