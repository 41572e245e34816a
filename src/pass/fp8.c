#include "op/codes/fp8.h"

#include "graph/graph.h"
#include "pass/node_list.h"
#include "pass/pass.h"

/* A factor of a product: its codes and their scales. */
struct factor {
    int y, scale;
};

struct products {
    struct graph *g;
    struct node_list l;
    struct factor *of
        [2]; /* by value: those of rows that a product has read in the forward pass so far, and in the backward pass */
    int *scale; /* by weight that is in codes of 8 bits */
    enum dtype wide;
};

static bool is_of_sizes(const struct value *w)
{
    return w->shape[0].c % FP8_SIZES == 0 && w->shape[1].c % FP8_SIZES == 0;
}

/* Whether the product of rows x with weight w is one of tokens with a weight of the model's. */
static bool is_wanted(const struct graph *g, int x, int w, const struct pass_settings *s)
{
    const struct value *weight = graph_value(g, w);
    return weight->role == ROLE_WEIGHT && is_of_sizes(weight) && (!s->adapters || weight->frozen) &&
           dim_has_tokens(graph_value(g, x)->shape[0]);
}

static int new_value(struct graph *g, const struct node *beside, enum dtype type, int ndim, const struct dim *shape)
{
    int id = graph_add_value(g, NULL, ROLE_ACTIVATION, type, ndim, shape);
    if (id)
        graph_value(g, id)->layer = beside->layer;
    return id;
}

static struct node node_beside(const struct node *n, enum op op)
{
    return (struct node){.op = op, .layer = n->layer, .backward = n->backward};
}

/* `x_scale`: of x, which is in codes itself; 0: it is not. */
static struct factor quantized(struct products *p, const struct node *n, int x, int x_scale, bool transposed)
{
    const struct value v = *graph_value(p->g, x);
    struct dim shape[2] = {v.shape[transposed], v.shape[!transposed]};
    struct factor f = {new_value(p->g, n, DT_F8_E4M3, 2, shape), new_value(p->g, n, p->wide, 1, shape)};
    struct node q = node_beside(n, OP_quantize_fp8);
    if (p->g->err.code)
        return f;
    graph_value(p->g, f.y)->exact = graph_value(p->g, f.scale)->exact = true;
    q.u.quantize_fp8 =
        (struct op_quantize_fp8){.x = x, .x_scale = x_scale, .y = f.y, .scale = f.scale, .transposed = transposed};
    node_list_append(p->g, &p->l, &q);
    return f;
}

/* y = x w^T + b + add, w (O,I); `as_rows`: as it lies. */
static void product(struct products *p, const struct node *n, struct op_linear_fp8 like, bool as_rows, bool adds)
{
    struct factor *x = &p->of[n->backward][like.x];
    struct node y = node_beside(n, OP_linear_fp8);
    if (!x->y)
        *x = quantized(p, n, like.x, 0, false);
    struct factor w = {like.w, p->scale[like.w]};
    if (!as_rows || !w.scale)
        w = quantized(p, n, w.y, w.scale, !as_rows);
    like.x = x->y;
    like.x_scale = x->scale;
    like.w = w.y;
    like.w_scale = w.scale;
    y.u.linear_fp8 = like;
    y.add = (unsigned)adds << OP_SLOT(linear_fp8, y);
    node_list_append(p->g, &p->l, &y);
}

/* A value like `id`, which the product makes in its place. */
static int before(struct products *p, const struct node *n, int id)
{
    const struct value v = *graph_value(p->g, id);
    return new_value(p->g, n, v.dtype, v.ndim, v.shape);
}

static void forward(struct products *p, const struct node *n)
{
    const struct op_linear a = n->u.linear;
    int y = a.act ? before(p, n, a.y) : a.y;
    product(p, n, (struct op_linear_fp8){.x = a.x, .w = a.w, .b = a.b, .add = a.add, .y = y}, !a.in_out, false);
    struct node act = node_beside(n, OP_activation);
    act.u.activation = (struct op_activation){.x = y, .y = a.y, .slope = a.slope, .act = a.act};
    if (a.act)
        node_list_append(p->g, &p->l, &act);
}

static void input_gradient(struct products *p, const struct node *n)
{
    const struct op_linear_dx a = n->u.linear_dx;
    product(p, n, (struct op_linear_fp8){.x = a.dy, .w = a.w, .y = a.dx}, a.in_out, n->add != 0);
}

static void gradient_of_activation(struct products *p, const struct node *n)
{
    const struct op_linear_dx_act a = n->u.linear_dx_act;
    int dy = before(p, n, a.du);
    product(p, n, (struct op_linear_fp8){.x = a.dy, .w = a.w, .y = dy}, a.in_out, false);
    struct node act = *n;
    act.op = OP_act_bwd;
    act.add = (n->add >> OP_SLOT(linear_dx_act, dbias) & 1) << OP_SLOT(act_bwd, dbias);
    act.u.act_bwd = (struct op_act_bwd){.slope = a.slope, .dy = dy, .du = a.du, .dbias = a.dbias};
    node_list_append(p->g, &p->l, &act);
}

void pass_fp8(struct graph *g, struct pass_settings *s)
{
    int n = g->n_values, last = graph_last_layer(g);
    if (g->err.code || !s->precision.fp8)
        return;
    struct products p = {.g = g, .scale = graph_kin(g, KIN_SCALE), .wide = s->precision.wide};
    for (int i = 0; i < 2; i++)
        if (!(p.of[i] = mem_alloc((size_t)n * sizeof *p.of[i])))
            err_no_memory(&g->err, (unsigned long long)n * sizeof *p.of[i]);
    for (int k = 1; k < g->n_nodes && !g->err.code; k++) {
        const struct node *node = &g->nodes[k];
        bool layer = node->layer > 0 && node->layer < last;
        if (layer && node->op == OP_linear && is_wanted(g, node->u.linear.x, node->u.linear.w, s))
            forward(&p, node);
        else if (layer && node->op == OP_linear_dx && is_wanted(g, node->u.linear_dx.dy, node->u.linear_dx.w, s))
            input_gradient(&p, node);
        else if (layer && node->op == OP_linear_dx_act &&
                 is_wanted(g, node->u.linear_dx_act.dy, node->u.linear_dx_act.w, s))
            gradient_of_activation(&p, node);
        else
            node_list_append(g, &p.l, node);
    }
    node_list_finish(g, &p.l);
    mem_free(p.of[0]);
    mem_free(p.of[1]);
    mem_free(p.scale);
}
