/* Gradient rules against central differences. Each small case of an op that has a rule becomes a program: the op, then
 * a scalar loss (its own, or the mean squared error of its output), then what pass_grad emits. So does a program of
 * columns. The reference kernels run all in F64. A derivative is estimated from f at x-2e, x-e, x+e, x+2e: (8 (f1 -
 * f-1) - (f2 - f-2)) / 12e, off by e^4 f'''''/30. */
#include "base/mem.h"
#include "cases.h"
#include "checks.h"
#include "pass/pass.h"
#include "tolerance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_VALUES = 64, PROBES = 40 }; /* at most so many elements of a weight are probed */
static const double STEP_SIZE = 1e-3;

struct program {
    struct graph g;
    struct dims dims;
    int n_forward; /* nodes before this one are the forward pass */
    int loss;
    void *data[MAX_VALUES];
};

static bool is_weight(const struct op_case *c, int slot)
{
    const char *name = op_table[c->op].slots[slot].name;
    bool slopes = c->op == OP_attention_general && !c->args.attention_general.furthest;
    bool angles = (c->op == OP_rotary || slopes) && !strcmp(name, "table");
    return is_float(c->args.slot[slot].dtype) && strcmp(name, "labels") != 0 && strcmp(name, "weights") != 0 &&
           strcmp(name, "more") != 0 && strcmp(name, "norm") != 0 && !angles; /* a row's length is a constant to DoRA */
}

static int add_value(struct program *p, const char *name, enum role role, const struct tensor *t)
{
    struct dim shape[MAX_DIMS];
    for (int d = 0; d < MAX_DIMS; d++)
        shape[d] = DIM(t->shape[d]);
    return graph_add_value(&p->g, name, role, is_float(t->dtype) ? DT_F32 : t->dtype, t->ndim, shape);
}

static int add_like(struct program *p, const char *name, int id)
{
    struct value v = *graph_value(&p->g, id);
    return graph_add_value(&p->g, name, ROLE_INPUT, DT_F32, v.ndim, v.shape);
}

static int output(const struct op_case *c, const union op_any *node, const char *name)
{
    for (int i = 0; i < op_table[c->op].n_slots; i++)
        if (!strcmp(op_table[c->op].slots[i].name, name))
            return node->slot[i];
    return 0;
}

/* Slots that are activations which nobody else reads. */
static bool is_read_once(const struct op_case *c, const char *slot)
{
    bool general = c->op == OP_attention_general && (!strcmp(slot, "q") || !strcmp(slot, "kv"));
    return !strcmp(slot, "qkv") || !strcmp(slot, "add") || c->op == OP_scale ||
           ((c->op == OP_mask_dropout || c->op == OP_expert_bias || c->op == OP_bias) && !strcmp(slot, "x")) ||
           c->op == OP_activation || general;
}

/* A copy of a weight as an activation: I w. */
static int through_identity(struct program *p, int weight)
{
    struct dim rows = graph_value(&p->g, weight)->shape[0];
    struct op_linear n = {.w = weight, .in_out = 1};
    n.x = graph_add_value(&p->g, "identity", ROLE_INPUT, DT_F32, 2, (struct dim[]){rows, rows});
    emit_linear(&p->g, &n);
    return n.y;
}

/* The op and its loss. */
static void build(struct program *p, const struct op_inputs *in)
{
    const struct op_case *c = in->c;
    const struct op_info *op = &op_table[c->op];
    union op_any node = {0};
    int step = 0;
    for (int i = 0; i < op->n_slots; i++) {
        const char *name = !strcmp(op->slots[i].name, "cu") ? "cu_seqlens" : op->slots[i].name;
        if (!in->slot[i].present || !slot_reads(op->slots[i].kind))
            continue;
        node.slot[i] = add_value(p, name, is_weight(c, i) ? ROLE_WEIGHT : ROLE_INPUT, &c->args.slot[i]);
        if (!strcmp(name, "step"))
            step = node.slot[i];
        if (is_read_once(c, name))
            node.slot[i] = through_identity(p, node.slot[i]);
    }
    if (!graph_find(&p->g, "cu_seqlens"))
        graph_add_value(&p->g, "cu_seqlens", ROLE_INPUT, DT_I32, 1, (struct dim[]){DIM(2)});
    if (!step)
        step = graph_add_value(&p->g, "step", ROLE_INPUT, DT_F64, 1, (struct dim[]){DIM(STEP_SCALARS)});
    memcpy((char *)&node + op->attr_offset, &c->args.slot[op->n_slots], 8 * (size_t)op->n_attrs);
    graph_emit(&p->g, c->op, &node);
    p->loss = output(c, &node, "loss");
    if (c->op == OP_expert_use &&
        !p->g.err.code) { /* whose results are of use to this loss alone; any numbers are labels */
        struct op_balance_loss n = {.counts = node.expert_use.counts,
                                    .sums = node.expert_use.y,
                                    .cu = node.expert_use.cu,
                                    .labels = node.expert_use.places,
                                    .step = step,
                                    .coef = 1,
                                    .layers = 2};
        emit_balance_loss(&p->g, &n);
        p->loss = n.loss;
    }
    if (p->loss || p->g.err.code)
        return;
    int y = output(c, &node, "y")   ? output(c, &node, "y")
            : output(c, &node, "o") ? output(c, &node, "o")
                                    : output(c, &node, "gates");
    if (c->op == OP_norm && node.norm.h) { /* let the next layer read h too, as in a pre-norm model */
        struct op_norm next = {
            .x = y, .res = node.norm.h, .gamma = node.norm.gamma, .beta = node.norm.beta, .eps = 1e-6};
        emit_norm(&p->g, &next);
        y = next.y;
    }
    if (c->op == OP_rms_norm && node.rms_norm.h) {
        struct op_rms_norm next = {.x = y, .res = node.rms_norm.h, .gamma = node.rms_norm.gamma, .eps = 1e-6};
        emit_rms_norm(&p->g, &next);
        y = next.y;
    }
    struct op_mse mse = {.logits = y, .labels = add_like(p, "target", y), .step = step};
    emit_mse(&p->g, &mse);
    p->loss = mse.loss;
}

/* Of the case; NULL: it has none of that name, or there is no case. */
static const void *input_of(const struct op_inputs *in, const char *name)
{
    if (!in)
        return NULL;
    const struct op_info *op = &op_table[in->c->op];
    for (int i = 0; i < op->n_slots; i++)
        if (in->slot[i].present &&
            (!strcmp(op->slots[i].name, name) || (!strcmp(op->slots[i].name, "cu") && !strcmp(name, "cu_seqlens"))))
            return in->slot[i].ref ? (void *)in->slot[i].ref : in->slot[i].data;
    return NULL;
}

static void fill_random(double *to, int64_t n, uint32_t stream)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = random_normal(stream, 0, (uint32_t)i);
}

/* Memory for every value, columns in their bases; inputs and weights from the case, or random without one. */
static void fill(struct program *p, const struct op_inputs *in)
{
    assert_true(p->g.n_values <= MAX_VALUES);
    for (int id = 1; id < p->g.n_values; id++) {
        const struct value *v = graph_value(&p->g, id);
        int64_t n = value_elements(v, p->dims);
        bool integer = v->dtype == DT_I32;
        const void *from = v->name && v->live_in ? input_of(in, v->name) : NULL;
        if (v->base) {
            p->data[id] = (double *)p->data[v->base] + v->at;
            continue;
        }
        p->data[id] = mem_alloc((size_t)n * 8 + 1);
        assert_non_null(p->data[id]);
        if (from)
            memcpy(p->data[id], from, (size_t)n * (integer ? 4 : 8));
        else if (v->name && !strcmp(v->name, "step"))
            ((double *)p->data[id])[STEP_INV_N] = 0.2;
        else if (v->name && !strcmp(v->name, "cu_seqlens"))
            ((int32_t *)p->data[id])[1] = in ? (int32_t)in->slot[0].elements : (int32_t)p->dims.T;
        else if (v->name && !strcmp(v->name, "identity"))
            for (int64_t i = 0; i < n; i += p->dims.T + 1)
                ((double *)p->data[id])[i] = 1;
        else if (v->name && !strcmp(v->name, "target"))
            fill_random(p->data[id], n, 9999);
        else if (!in && v->live_in)
            fill_random(p->data[id], n, (uint32_t)id);
    }
}

static void run_nodes(struct program *p, int from, int end)
{
    for (int k = from; k < end; k++) {
        const struct node *n = &p->g.nodes[k];
        const struct op_info *op = node_op(n);
        union args_any args = {0};
        for (int i = 0; i < op->n_slots; i++) {
            const struct value *v = graph_value(&p->g, n->u.slot[i]);
            if (!n->u.slot[i])
                continue;
            args.slot[i] = (struct tensor){.data = p->data[n->u.slot[i]],
                                           .dtype = v->dtype == DT_I32 ? DT_I32 : DT_F64,
                                           .ndim = (int8_t)v->ndim,
                                           .pitch = v->pitch,
                                           .columns = value_is_columns(v),
                                           .add = n->add >> i & 1};
            for (int d = 0; d < v->ndim; d++)
                args.slot[i].shape[d] = dim_size(v->shape[d], p->dims);
        }
        memcpy(&args.slot[op->n_slots], (const char *)&n->u + op->attr_offset, 8 * (size_t)op->n_attrs);
        reference_kernels[n->op](&args, &(struct call){.threads = 1});
    }
}

static void close_program(struct program *p)
{
    for (int id = 1; id < p->g.n_values; id++)
        if (!graph_value(&p->g, id)->base)
            mem_free(p->data[id]);
    graph_free(&p->g);
}

static double loss_at(struct program *p, double *x, double value)
{
    double kept = *x;
    *x = value;
    run_nodes(p, 1, p->n_forward);
    *x = kept;
    return *(double *)p->data[p->loss];
}

static double central_difference(struct program *p, double *x)
{
    double e = STEP_SIZE, f1 = loss_at(p, x, *x + e), b1 = loss_at(p, x, *x - e);
    double f2 = loss_at(p, x, *x + 2 * e), b2 = loss_at(p, x, *x - 2 * e);
    return (8 * (f1 - b1) - (f2 - b2)) / (12 * e);
}

static void check_weight(struct program *p, const char *what, int weight)
{
    char name[64];
    const struct value *w = graph_value(&p->g, weight);
    int64_t n = value_elements(w, p->dims), stride = n / PROBES + 1;
    snprintf(name, sizeof name, "grad.%s", w->name);
    int id = graph_find(&p->g, name);
    assert_true(id > 0);
    const double *gradient = p->data[id];
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(gradient[i]));
    for (int64_t i = 0; i < n; i += stride) {
        double *x = (double *)p->data[weight] + i, slope = central_difference(p, x);
        if (!(fabs(slope - gradient[i]) <= GRADIENT_TOLERANCE * fmax(largest, fabs(slope))))
            fail_msg("%s: d loss / d %s[%lld] is %.12g by the rule, %.12g by differences (largest %.3g)", what, w->name,
                     (long long)i, gradient[i], slope, largest);
    }
}

/* A forward pass with its loss; frees it. */
static void check_program(struct program *p, const struct op_inputs *in, const char *what)
{
    struct snug_err err = {0};
    p->n_forward = p->g.n_nodes;
    pass_grad(&p->g, &(struct pass_settings){.program = PROGRAM_STEP, .loss = p->loss});
    if (graph_check(&p->g, "grad", &err))
        fail_msg("%s: %s", what, err.text);
    fill(p, in);
    run_nodes(p, 1, p->g.n_nodes);
    for (int id = 1; id < p->g.n_values; id++)
        if (graph_value(&p->g, id)->role == ROLE_WEIGHT)
            check_weight(p, what, id);
    close_program(p);
}

static void check_case(const struct op_case *c)
{
    struct op_inputs in;
    struct program p = {.dims = {.T = c->args.slot[0].shape[0], .B = c->n_sequences}};
    char what[128];
    snprintf(what, sizeof what, "%s, %s", op_table[c->op].name, c->name);
    inputs_make(&in, c, DT_F32);
    assert_int_equal(graph_init(&p.g, NULL), SNUG_OK);
    build(&p, &in);
    check_program(&p, &in, what);
    inputs_free(&in);
}

static struct op_linear layer(struct program *p, int x, const char *name, int64_t in, int64_t out)
{
    struct op_linear n = {.x = x};
    n.w = graph_add_value(&p->g, name, ROLE_WEIGHT, DT_F32, SHAPE(DIM(out), DIM(in)));
    emit_linear(&p->g, &n);
    return n;
}

/* Columns that are read, as of gate|up, and that are written, as of q|k|v with an adapter on one part: wide = x W^T;
 * both = [wide[:, 0:3] A^T, wide[:, 3:8] C^T]; out = [both[:, 0:2] E^T, both D^T]. What makes `out` belongs to layer
 * `second`, the rest to layer 1. */
static void build_columns(struct program *p, int second)
{
    *p = (struct program){.dims = {.T = 5, .B = 1}};
    assert_int_equal(graph_init(&p->g, NULL), SNUG_OK);
    int x = graph_add_value(&p->g, "x", ROLE_INPUT, DT_F32, SHAPE(DIM_T, DIM(4)));
    int step = graph_add_value(&p->g, "step", ROLE_INPUT, DT_F64, SHAPE(DIM(STEP_SCALARS)));
    graph_add_value(&p->g, "cu_seqlens", ROLE_INPUT, DT_I32, SHAPE(DIM(2)));
    p->g.layer = 1;
    int both = graph_add_value(&p->g, NULL, ROLE_ACTIVATION, DT_F32, SHAPE(DIM_T, DIM(6)));
    int out = graph_add_value(&p->g, NULL, ROLE_ACTIVATION, DT_F32, SHAPE(DIM_T, DIM(5)));
    int wide = layer(p, x, "wide", 4, 8).y;
    struct op_linear a = layer(p, graph_add_columns(&p->g, wide, 0, 3), "a", 3, 2);
    graph_place_columns(&p->g, a.y, both, 0);
    struct op_linear c = layer(p, graph_add_columns(&p->g, wide, 3, 5), "c", 5, 4);
    graph_place_columns(&p->g, c.y, both, 2);
    p->g.layer = second;
    struct op_linear e = layer(p, a.y, "e", 2, 2), d = layer(p, both, "d", 6, 3);
    graph_place_columns(&p->g, e.y, out, 0);
    graph_place_columns(&p->g, d.y, out, 2);
    p->g.layer = second + 1;
    struct op_mse mse = {.logits = out, .labels = add_like(p, "target", out), .step = step};
    emit_mse(&p->g, &mse);
    p->loss = mse.loss;
}

static void check_gradients_of_columns(void)
{
    struct program p;
    build_columns(&p, 1);
    check_program(&p, NULL, "columns");
}

/* Poisons what no node of the backward pass reads; how many activations that are. */
static int poison_dropped(struct program *p)
{
    int n = 0;
    for (int id = 1; id < p->g.n_values; id++) {
        const struct value *v = graph_value(&p->g, id);
        bool read = v->base || v->role != ROLE_ACTIVATION || id == p->loss;
        for (int k = p->n_forward; k < p->g.n_nodes && !read; k++)
            for (int i = 0; i < node_op(&p->g.nodes[k])->n_slots; i++)
                read |= value_root(&p->g, p->g.nodes[k].u.slot[i]) == id;
        for (int64_t i = 0; !read && i < value_elements(v, p->dims); i++)
            ((double *)p->data[id])[i] = NAN;
        n += !read;
    }
    return n;
}

/* Runs a program of columns; with recompute, what it drops must be gone: `dropped` activations. */
static void run_columns(struct program *p, int second, bool recompute, int dropped)
{
    struct snug_err err = {0};
    struct pass_settings settings = {.program = PROGRAM_STEP, .choices.recompute_every_n = recompute};
    build_columns(p, second);
    settings.loss = p->loss;
    p->n_forward = p->g.n_nodes;
    pass_grad(&p->g, &settings);
    pass_recompute(&p->g, &settings);
    if (graph_check(&p->g, "recompute", &err))
        fail_msg("%s", err.text);
    fill(p, NULL);
    run_nodes(p, 1, p->n_forward);
    assert_int_equal(poison_dropped(p), dropped);
    run_nodes(p, p->n_forward, p->g.n_nodes);
}

/* In one layer `wide` and `both` are made again, by columns and from columns; in two, `both` is kept between them. */
void test_columns_recomputed(void **state)
{
    (void)state;
    for (int second = 1; second <= 2; second++) {
        struct program kept, again;
        run_columns(&kept, second, false, 0);
        run_columns(&again, second, true, 3 - second);
        for (int id = 1; id < kept.g.n_values; id++) {
            const struct value *v = graph_value(&kept.g, id);
            if (v->kin == KIN_GRADIENT) {
                int other = graph_find(&again.g, v->name);
                assert_true(other > 0);
                assert_memory_equal(again.data[other], kept.data[id], (size_t)value_elements(v, kept.dims) * 8);
            }
        }
        close_program(&kept);
        close_program(&again);
    }
}

void test_gradients(void **state)
{
    (void)state;
    bool checked[OP_COUNT] = {false};
    for (int i = 0; i < n_op_cases; i++)
        if (op_table[op_cases[i].op].grad && !op_cases[i].long_only) {
            check_case(&op_cases[i]);
            checked[op_cases[i].op] = true;
        }
    check_gradients_of_columns();
    for (int op = 1; op < OP_COUNT; op++)
        if (op_table[op].grad && !checked[op])
            fail_msg("the gradient of %s has no small case", op_table[op].name);
}
