#include "pass/node_list.h"
#include "pass/pass.h"

/* Activations over tokens are what a policy narrows; those over sequences (the head of a classifier) cost nothing as
 * they are. */
static bool is_narrowed(const struct value *v)
{
    return v->role == ROLE_ACTIVATION && !v->exact && dim_has_tokens(v->shape[0]);
}

static bool is_activation(const struct value *v, const struct precision *p)
{
    return v->role == ROLE_ACTIVATION && !v->exact && (v->dtype == p->wide || v->dtype == p->narrow);
}

/* Whether it is a product of sequences with nothing added to it, nor one that belongs to an adapter. */
static bool is_head(const struct graph *g, const struct node *n)
{
    const struct op_linear *h = &n->u.linear;
    if (n->op != OP_linear || h->b || h->add || dim_has_tokens(graph_value(g, h->x)->shape[0]))
        return false;
    for (int k = 1; k < g->n_nodes; k++)
        if (g->nodes[k].op == OP_linear && (g->nodes[k].u.linear.x == h->y || g->nodes[k].u.linear.add == h->y))
            return false;
    return true;
}

/* In a program that writes text the head's weight is large, and its rows are few: they get the narrow type, so that nobody has to widen the
 * weight. The sums, which are the logits, stay wide. `base`: only of a weight that an adapter leaves as it is. */
static void narrow_head(struct graph *g, const struct precision *p, bool base)
{
    for (int k = 1; k < g->n_nodes; k++)
        if (is_head(g, &g->nodes[k]) && (!base || graph_value(g, g->nodes[k].u.linear.w)->frozen)) {
            graph_value(g, g->nodes[k].u.linear.x)->dtype = p->narrow;
            graph_value(g, g->nodes[k].u.linear.y)->exact = true;
        }
}

static void assign_types(struct graph *g, const struct precision *p)
{
    for (int i = 1; i < g->n_values; i++) {
        struct value *v = &g->values[i];
        if (v->dtype == DT_F32)
            v->dtype = is_narrowed(v) || (p->pure && v->role == ROLE_WEIGHT) ? p->narrow : p->wide;
    }
}

/* Gradients of products' weights that one node writes, with their slices. */
static void narrow_gradients(struct graph *g, const struct precision *p)
{
    int *writers = mem_alloc((size_t)g->n_values * sizeof *writers); /* by root */
    bool *narrow = mem_alloc((size_t)g->n_values);
    if (!writers || !narrow)
        err_no_memory(&g->err, (unsigned long long)g->n_values * sizeof *writers);
    for (int k = 1; k < g->n_nodes && !g->err.code; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++)
            writers[value_root(g, g->nodes[k].u.slot[i])] += node_writes(&g->nodes[k], i);
    for (int k = 1; k < g->n_nodes && !g->err.code; k++) {
        const struct node *n = &g->nodes[k];
        int dw = n->op == OP_linear_dw           ? n->u.linear_dw.dw
                 : n->op == OP_linear_experts_dw ? n->u.linear_experts_dw.dw
                                                 : 0;
        int x = n->op == OP_linear_dw ? n->u.linear_dw.x : n->u.linear_experts_dw.x;
        narrow[dw] |= dw && g->values[x].dtype == p->narrow && writers[dw] == 1;
    }
    for (int i = 1; i < g->n_values && !g->err.code; i++)
        if (narrow[value_root(g, i)])
            g->values[i].dtype = p->narrow;
    mem_free(writers);
    mem_free(narrow);
}

/* A node computes in the narrow type as soon as one of its activations has it. */
static enum dtype node_type(const struct graph *g, const struct node *n, const struct precision *p)
{
    for (int i = 0; i < node_op(n)->n_slots; i++) {
        const struct value *v = graph_value(g, n->u.slot[i]);
        if (n->u.slot[i] && is_activation(v, p) && v->dtype == p->narrow)
            return p->narrow;
    }
    return p->wide;
}

/* Appends the node with casts round it, so that its activations have one type. */
static void append_in_one_type(struct graph *g, struct node_list *l, struct node n, const struct precision *p)
{
    enum dtype type = node_type(g, &n, p);
    struct node after[OP_MAX_SLOTS];
    int n_after = 0;
    for (int i = 0; i < node_op(&n)->n_slots; i++) {
        int id = n.u.slot[i];
        const struct value v = *graph_value(g, id);
        if (!id || v.dtype == type || !is_activation(&v, p))
            continue;
        if (node_reads(&n, i)) {
            n.u.slot[i] = node_list_cast(g, l, &n, id, 0, type);
            if (node_writes(&n, i))
                graph_fail(g, SNUG_ERR_INPUT, "graph: %s adds into a gradient of another dtype", node_op(&n)->name);
        } else {
            n.u.slot[i] = graph_add_value(g, NULL, ROLE_ACTIVATION, type, v.ndim, v.shape);
            graph_value(g, n.u.slot[i])->layer = n.layer;
            struct node cast = {.op = OP_cast, .layer = n.layer, .backward = n.backward};
            cast.u.cast = (struct op_cast){.x = n.u.slot[i], .y = id};
            after[n_after++] = cast;
        }
    }
    node_list_append(g, l, &n);
    for (int i = 0; i < n_after; i++)
        node_list_append(g, l, &after[i]);
}

/* Of a head with its loss; NULL where that has no gradient. */
static int *head_scaler(struct node *n)
{
    struct op_linear_cross_entropy *h = &n->u.linear_cross_entropy;
    return n->op == OP_linear_cross_entropy && (h->dx || h->dw || h->db) ? &h->scaler : NULL;
}

static void scale_losses(struct graph *g)
{
    for (int k = 1; k < g->n_nodes && !g->err.code; k++) {
        struct node *n = &g->nodes[k];
        int *scaler = n->op == OP_cross_entropy_bwd  ? &n->u.cross_entropy_bwd.scaler
                      : n->op == OP_mse_bwd          ? &n->u.mse_bwd.scaler
                      : n->op == OP_bce_bwd          ? &n->u.bce_bwd.scaler
                      : n->op == OP_span_loss_bwd    ? &n->u.span_loss_bwd.scaler
                      : n->op == OP_balance_loss_bwd ? &n->u.balance_loss_bwd.scaler
                                                     : head_scaler(n);
        if (scaler)
            *scaler = pass_loss_scaler(g);
    }
}

void pass_precision(struct graph *g, struct pass_settings *s)
{
    const struct precision *p = &s->precision;
    if (g->err.code)
        return;
    assign_types(g, p);
    if (p->narrow == p->wide)
        return;
    bool stays_narrow = p->pure || s->choices.copies;
    if (s->program == PROGRAM_GENERATION && (stays_narrow || s->adapters)) /* whose base is narrow: pass_materialize */
        narrow_head(g, p, !stays_narrow);
    if (p->narrow_grads)
        narrow_gradients(g, p);
    struct node_list l = {0};
    for (int k = 1; k < g->n_nodes; k++)
        append_in_one_type(g, &l, g->nodes[k], p);
    node_list_finish(g, &l);
    if (precision_scales(p))
        scale_losses(g);
}
