#include "output/onnx/lower.h"

#include <string.h>

/* ---- values ---- */

const char *onnx_use(struct onnx *x, int id)
{
    const struct value *v = graph_value(x->g, id);
    struct onnx_value *o = &x->of[id];
    if (o->name || x->err.code)
        return o->name ? o->name : "";
    if (o->part[0])
        o->name = onnx_node_with(x, "Concat", ONNX_IN(o->part[0], o->part[1], o->part[2]), ONNX_AXIS(-1));
    else if (v->role == ROLE_WEIGHT)
        o->name = onnx_weight(x, id);
    else if (v->role == ROLE_INPUT)
        o->name = onnx_input(x, id);
    else
        onnx_fail(x, SNUG_ERR_USAGE, "value %d: no ONNX file is written of a model with such a slice", id);
    return o->name ? o->name : "";
}

void onnx_set(struct onnx *x, int id, const char *name)
{
    if (id)
        x->of[id].name = name;
}

void onnx_parts(struct onnx *x, int id, int n, const char *part[ONNX_PARTS])
{
    const struct onnx_value *o = &x->of[id];
    int64_t width = graph_value(x->g, id)->shape[1].c / n;
    if (n == 1)
        part[0] = onnx_use(x, id);
    else if (!o->name && o->part[0])
        memcpy(part, o->part, sizeof o->part);
    else
        onnx_split(x, onnx_use(x, id), -1, n, (const int64_t[ONNX_PARTS]){width, width, width}, part);
}

/* ---- plain ops ---- */

/* As what is exported from PyTorch has it: programs that make such a model faster look for these nodes. */
static const char *gelu(struct onnx *x, const char *in)
{
    const char *v = onnx_node(x, "Div", ONNX_IN(in, onnx_real(x, 1.4142135623730951)));
    v = onnx_node(x, "Add", ONNX_IN(onnx_node(x, "Erf", ONNX_IN(v)), onnx_real(x, 1)));
    return onnx_node(x, "Mul", ONNX_IN(onnx_node(x, "Mul", ONNX_IN(in, v)), onnx_real(x, 0.5)));
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
static const char *gelu_tanh(struct onnx *x, const char *in)
{
    const char *v = onnx_node(x, "Mul", ONNX_IN(onnx_node(x, "Mul", ONNX_IN(in, in)), in));
    v = onnx_node(x, "Add", ONNX_IN(in, onnx_node(x, "Mul", ONNX_IN(v, onnx_real(x, 0.044715)))));
    v = onnx_node(x, "Tanh", ONNX_IN(onnx_node(x, "Mul", ONNX_IN(v, onnx_real(x, 0.79788456080286536)))));
    v = onnx_node(x, "Add", ONNX_IN(v, onnx_real(x, 1)));
    return onnx_node(x, "Mul", ONNX_IN(onnx_node(x, "Mul", ONNX_IN(in, onnx_real(x, 0.5))), v));
}

const char *onnx_act(struct onnx *x, enum act act, const char *in)
{
    switch (act) {
    case ACT_gelu:
        return gelu(x, in);
    case ACT_gelu_tanh:
        return gelu_tanh(x, in);
    case ACT_relu:
        return onnx_node(x, "Relu", ONNX_IN(in));
    case ACT_relu2:
        in = onnx_node(x, "Relu", ONNX_IN(in));
        return onnx_node(x, "Mul", ONNX_IN(in, in));
    case ACT_tanh:
        return onnx_node(x, "Tanh", ONNX_IN(in));
    case ACT_silu:
        return onnx_node(x, "Mul", ONNX_IN(in, onnx_node(x, "Sigmoid", ONNX_IN(in))));
    case ACT_none:
    case ACT_COUNT:
        break;
    }
    return in;
}

void onnx_lower_embed(struct onnx *x, const struct op_embed *n)
{
    const char *y = onnx_node(x, "Gather", ONNX_IN(onnx_use(x, n->table), onnx_use(x, n->ids)));
    const int more[][2] = {{n->table2, n->ids2}, {n->table3, n->ids3}};
    for (int i = 0; i < 2; i++)
        if (more[i][0]) {
            const char *rows = onnx_node(x, "Gather", ONNX_IN(onnx_use(x, more[i][0]), onnx_use(x, more[i][1])));
            y = onnx_node(x, "Add", ONNX_IN(y, rows));
        }
    onnx_set(x, n->y, y);
}

/* 1 for tokens that are neither masked nor padding, their share of the sequence's tokens, and what that makes of a row. */
void onnx_lower_mask_dropout(struct onnx *x, const struct op_mask_dropout *n)
{
    const struct onnx_attr to_float = {.name = "to", .kind = ONNX_ATTR_INT, .x = {ONNX_FLOAT}};
    struct onnx_attr keepdims = {.name = "keepdims", .kind = ONNX_ATTR_INT};
    const char *axis = ONNX_INTS(x, 1), *tokens = onnx_node_with(x, "ReduceSum", ONNX_IN(onnx_mask(x), axis), keepdims);
    const char *masked = onnx_node(x, "Equal", ONNX_IN(onnx_use(x, n->ids), onnx_int(x, n->token)));
    const char *left = onnx_node_with(x, "Cast", ONNX_IN(onnx_node(x, "Not", ONNX_IN(masked))), to_float);
    left = onnx_node(x, "Mul", ONNX_IN(onnx_node(x, "Unsqueeze", ONNX_IN(left, ONNX_INTS(x, 2))), onnx_mask(x)));
    const char *share = onnx_node_with(x, "ReduceSum", ONNX_IN(left, axis), keepdims);
    share = onnx_node(x, "Unsqueeze", ONNX_IN(onnx_node(x, "Div", ONNX_IN(share, tokens)), axis));
    const char *by = onnx_node(x, "Div", ONNX_IN(onnx_real(x, n->kept), share));
    const char *rows = onnx_node(x, "Mul", ONNX_IN(onnx_use(x, n->x), left));
    onnx_set(x, n->y, onnx_node(x, "Mul", ONNX_IN(rows, by)));
}

static const char *product(struct onnx *x, const char *in, int weight, int bias, const struct op_linear *n)
{
    const char *w = onnx_use(x, weight);
    if (!n->in_out && !x->turns[n->w])
        w = onnx_transpose(x, w, 2, (const int64_t[]){1, 0});
    const char *y = onnx_node(x, "MatMul", ONNX_IN(in, w));
    return bias ? onnx_node(x, "Add", ONNX_IN(y, onnx_use(x, bias))) : y;
}

/* The i-th of the weights that make `group`; 0 behind the last. */
static int member(const struct graph *g, int group, int i)
{
    for (int id = group + 1; group && id < g->n_values; id++)
        if (graph_value(g, id)->base == group && i-- == 0)
            return id;
    return 0;
}

/* The i-th of the biases that make `group`; 0 where there is none, or it is 0 whatever files say. */
static int member_bias(const struct graph *g, int group, int i)
{
    int b = member(g, group, i);
    return b && init_is_whole(&graph_value(g, b)->init) ? 0 : b;
}

/* The weight (O,I,width) of the file that is the matrix `w`; 0: it is no convolution's. */
static int convolution(const struct graph *g, int w)
{
    int id = graph_value(g, w)->group ? member(g, w, 0) : 0;
    return graph_value(g, id)->ndim == 3 ? id : 0;
}

/* Rows beyond the ends of a sequence are 0, so padding is made 0 before. */
void onnx_lower_neighbours(struct onnx *x, const struct op_neighbours *n)
{
    onnx_set(x, n->y, onnx_node(x, "Mul", ONNX_IN(onnx_use(x, n->x), onnx_mask(x))));
}

/* Of the rows themselves, which are what neighbours have become. ONNX has channels before places. */
static void lower_convolution(struct onnx *x, const struct op_linear *n, int weight)
{
    static const int64_t swapped[] = {0, 2, 1};
    int64_t half = graph_value(x->g, weight)->shape[2].c / 2;
    struct onnx_attr pads = {.name = "pads", .kind = ONNX_ATTR_INTS, .x = {half, half}, .n = 2};
    const char *in = onnx_transpose(x, onnx_use(x, n->x), 3, swapped);
    const char *y = onnx_node_with(x, "Conv", ONNX_IN(in, onnx_use(x, weight), onnx_use(x, n->b)), pads);
    onnx_set(x, n->y, onnx_act(x, (enum act)n->act, onnx_transpose(x, y, 3, swapped)));
}

/* One product of several layers is several here, under the names of the file: so programs that know attention find it. */
void onnx_lower_linear(struct onnx *x, const struct op_linear *n)
{
    if (convolution(x->g, n->w)) {
        lower_convolution(x, n, convolution(x->g, n->w));
        return;
    }
    const char *in = onnx_use(x, n->x);
    if (!graph_value(x->g, n->w)->group) {
        onnx_set(x, n->y, onnx_act(x, (enum act)n->act, product(x, in, n->w, n->b, n)));
        return;
    }
    for (int i = 0, w; (w = member(x->g, n->w, i)); i++)
        if (i < ONNX_PARTS)
            x->of[n->y].part[i] = onnx_act(x, (enum act)n->act, product(x, in, w, member_bias(x->g, n->b, i), n));
        else
            onnx_fail(x, SNUG_ERR_USAGE, "%s: no ONNX file is written of so many layers in one product",
                      graph_value(x->g, n->w)->name);
}

/* A bias that is made of several has a part for each part of the matrix. */
void onnx_lower_bias(struct onnx *x, const struct op_bias *n)
{
    const char *part[ONNX_PARTS];
    if (!graph_value(x->g, n->b)->group) {
        onnx_set(x, n->y, onnx_node(x, "Add", ONNX_IN(onnx_use(x, n->x), onnx_use(x, n->b))));
        return;
    }
    onnx_parts(x, n->x, ONNX_PARTS, part);
    for (int i = 0; i < ONNX_PARTS; i++) {
        int b = member_bias(x->g, n->b, i);
        x->of[n->y].part[i] = b ? onnx_node(x, "Add", ONNX_IN(part[i], onnx_use(x, b))) : part[i];
    }
}

void onnx_lower_norm(struct onnx *x, const struct op_norm *n)
{
    const char *h = onnx_use(x, n->x), *gamma = onnx_use(x, n->gamma);
    struct onnx_attr eps = {.name = "epsilon", .kind = ONNX_ATTR_FLOAT, .real = n->eps};
    if (n->res)
        h = onnx_node(x, "Add", ONNX_IN(onnx_use(x, n->res), h));
    onnx_set(x, n->h, h);
    if (n->one_plus)
        gamma = onnx_node(x, "Add", ONNX_IN(gamma, onnx_real(x, 1)));
    onnx_set(x, n->y,
             n->beta ? onnx_node_with(x, "LayerNormalization", ONNX_IN(h, gamma, onnx_use(x, n->beta)), eps)
                     : onnx_node_with(x, "LayerNormalization", ONNX_IN(h, gamma), eps));
}

void onnx_lower_rms_norm(struct onnx *x, const struct op_rms_norm *n)
{
    double width = (double)graph_value(x->g, n->gamma)->shape[0].c;
    struct onnx_attr keepdims = {.name = "keepdims", .kind = ONNX_ATTR_INT};
    bool per_sequence = graph_value(x->g, n->x)->shape[0].times.B; /* else per token, with a dimension more */
    const char *h = onnx_use(x, n->x), *gamma = onnx_use(x, n->gamma), *axis = ONNX_INTS(x, per_sequence ? 1 : 2);
    if (n->res)
        h = onnx_node(x, "Add", ONNX_IN(onnx_use(x, n->res), h));
    onnx_set(x, n->h, h);
    const char *mean = onnx_node_with(x, "ReduceSum", ONNX_IN(onnx_node(x, "Mul", ONNX_IN(h, h)), axis), keepdims);
    mean = onnx_node(x, "Div", ONNX_IN(onnx_node(x, "Unsqueeze", ONNX_IN(mean, axis)), onnx_real(x, width)));
    const char *root = onnx_node(x, "Sqrt", ONNX_IN(onnx_node(x, "Add", ONNX_IN(mean, onnx_real(x, n->eps)))));
    if (n->one_plus)
        gamma = onnx_node(x, "Add", ONNX_IN(gamma, onnx_real(x, 1)));
    onnx_set(x, n->y, onnx_node(x, "Mul", ONNX_IN(onnx_node(x, "Div", ONNX_IN(h, root)), gamma)));
}

void onnx_lower_add(struct onnx *x, const struct op_add *n)
{
    onnx_set(x, n->y, onnx_node(x, "Add", ONNX_IN(onnx_use(x, n->a), onnx_use(x, n->b))));
}

void onnx_lower_glu(struct onnx *x, const struct op_glu *n)
{
    int64_t half = graph_value(x->g, n->x)->shape[1].c / 2;
    const char *part[2];
    onnx_split(x, onnx_use(x, n->x), -1, 2, (const int64_t[]){half, half}, part);
    onnx_set(x, n->y, onnx_node(x, "Mul", ONNX_IN(onnx_act(x, (enum act)n->act, part[0]), part[1])));
}

void onnx_lower_gather(struct onnx *x, const struct op_gather *n)
{
    if (n->last)
        onnx_fail(x, SNUG_ERR_USAGE, "the last token of a sequence: no ONNX file is written of such a model");
    onnx_set(x, n->y, onnx_node_with(x, "Gather", ONNX_IN(onnx_use(x, n->x), onnx_int(x, 0)), ONNX_AXIS(1)));
}

void onnx_lower_pool(struct onnx *x, const struct op_pool *n)
{
    struct onnx_attr keepdims = {.name = "keepdims", .kind = ONNX_ATTR_INT};
    const char *mask = onnx_mask(x), *axis = ONNX_INTS(x, 1);
    const char *sum = onnx_node(x, "Mul", ONNX_IN(onnx_use(x, n->x), mask));
    sum = onnx_node_with(x, "ReduceSum", ONNX_IN(sum, axis), keepdims);
    const char *tokens = onnx_node_with(x, "ReduceSum", ONNX_IN(mask, axis), keepdims);
    onnx_set(x, n->y, onnx_node(x, "Div", ONNX_IN(sum, tokens)));
}

/* ---- all of them ---- */

static void lower_node(struct onnx *x, const struct node *n)
{
    switch (n->op) {
#define ROW(name)                                                                                                      \
    case OP_##name:                                                                                                    \
        onnx_lower_##name(x, &n->u.name);                                                                              \
        return;
        ONNX_LOWERED(ROW)
#undef ROW
    default:
        onnx_fail(x, SNUG_ERR_USAGE, "%s models: no ONNX file is written of their %s", x->c->arch->model_type,
                  node_op(n)->name);
    }
}

/* Values that `wanted` needs, from the last node to the first. */
static void mark(const struct graph *g, bool *needed)
{
    for (int i = g->n_nodes - 1; i > 0; i--) {
        const struct node *n = &g->nodes[i];
        bool needs = false;
        for (int s = 0; s < node_op(n)->n_slots; s++)
            needs |= node_writes(n, s) && needed[n->u.slot[s]];
        for (int s = 0; s < node_op(n)->n_slots && needs; s++)
            if (n->u.slot[s])
                needed[n->u.slot[s]] = needed[value_root(g, n->u.slot[s])] = true;
    }
    needed[0] = false;
}

static bool is_needed(const struct node *n, const bool *needed)
{
    for (int s = 0; s < node_op(n)->n_slots; s++)
        if (node_writes(n, s) && needed[n->u.slot[s]])
            return true;
    return false;
}

/* Weights that only products of their rows read are written as such products want them. */
static void find_turns(struct onnx *x, const bool *needed)
{
    const struct graph *g = x->g;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 1; i < g->n_nodes; i++) {
            const struct node *n = &g->nodes[i];
            for (int s = 0; s < node_op(n)->n_slots && is_needed(n, needed); s++) {
                bool rows = n->op == OP_linear && s == OP_SLOT(linear, w) && !n->u.linear.in_out;
                if (n->u.slot[s] && rows == !pass)
                    x->turns[n->u.slot[s]] = rows;
            }
        }
}

void onnx_lower(struct onnx *x, int wanted)
{
    const struct graph *g = x->g;
    bool *needed = mem_alloc((size_t)g->n_values + 1);
    if (!needed) {
        onnx_fail(x, SNUG_ERR_ENV, "no memory for %d values of a model", g->n_values);
        return;
    }
    needed[wanted] = true;
    mark(g, needed);
    find_turns(x, needed);
    for (int i = 1; i < g->n_nodes && !x->err.code; i++) {
        const struct node *n = &g->nodes[i];
        x->place = n->layer == 0              ? "embeddings/"
                   : n->layer <= x->c->layers ? onnx_name(x, "layer.%d/", n->layer - 1)
                                              : "head/";
        if (is_needed(n, needed))
            lower_node(x, n);
    }
    mem_free(needed);
}
