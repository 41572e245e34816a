#include "interpret.h"
#include "operators.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    const struct onnx_file *f;
    struct array *made; /* inputs and what nodes have made */
    size_t n;
};

static const struct array *find(const struct world *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (!strcmp(w->made[i].name, name))
            return &w->made[i];
    for (size_t i = 0; i < w->f->n_tensors; i++)
        if (!strcmp(w->f->tensors[i].name, name))
            return &w->f->tensors[i];
    return NULL;
}

/* Element of `a` at the place i of `y`, whose shape `a` is broadcast to. */
static double at(const struct array *a, const struct array *y, int64_t i)
{
    int64_t place = 0, step = 1;
    for (int k = y->rank - 1; k >= 0; k--) {
        int own = k - y->rank + a->rank;
        int64_t here = i % y->shape[k];
        i /= y->shape[k];
        if (own < 0)
            continue;
        place += a->shape[own] == 1 ? 0 : here * step;
        step *= a->shape[own];
    }
    return a->x[place];
}

/* ---- element by element ---- */

#define UNARY(name, types, result, expression)                                                                         \
    static void run_##name(const struct operation *o, const struct array *const *in, struct array *y)                  \
    {                                                                                                                  \
        (void)o;                                                                                                       \
        assert_true(1 << in[0]->type & (types));                                                                       \
        broadcast_shape(y, in, 1);                                                                                     \
        y->type = (result) ? (result) : in[0]->type;                                                                   \
        for (int64_t i = 0; i < y->n; i++) {                                                                           \
            double a = in[0]->x[i];                                                                                    \
            y->x[i] = (expression);                                                                                    \
        }                                                                                                              \
    }
#define BINARY(name, types, result, expression)                                                                        \
    static void run_##name(const struct operation *o, const struct array *const *in, struct array *y)                  \
    {                                                                                                                  \
        (void)o;                                                                                                       \
        assert_true(1 << in[0]->type & (types) && in[0]->type == in[1]->type);                                         \
        broadcast_shape(y, in, 2);                                                                                     \
        y->type = (result) ? (result) : in[0]->type;                                                                   \
        for (int64_t i = 0; i < y->n; i++) {                                                                           \
            double a = at(in[0], y, i), b = at(in[1], y, i);                                                           \
            y->x[i] = (expression);                                                                                    \
        }                                                                                                              \
    }
enum { FLOATS = 1 << FLOAT, NUMBERS = 1 << FLOAT | 1 << INT64, BOOLS = 1 << BOOL };
UNARY(Erf, FLOATS, 0, erf(a))
UNARY(Tanh, FLOATS, 0, tanh(a))
UNARY(Sqrt, FLOATS, 0, sqrt(a))
UNARY(Relu, FLOATS, 0, a > 0 ? a : 0)
UNARY(Sigmoid, FLOATS, 0, 1 / (1 + exp(-a)))
UNARY(Cos, FLOATS, 0, cos(a))
UNARY(Sin, FLOATS, 0, sin(a))
UNARY(Abs, NUMBERS, 0, fabs(a))
UNARY(Not, BOOLS, 0, !(a > 0))
BINARY(Add, NUMBERS, 0, a + b)
BINARY(Sub, NUMBERS, 0, a - b)
BINARY(Mul, NUMBERS, 0, a *b)
BINARY(Div, FLOATS, 0, a / b)
BINARY(Less, NUMBERS, BOOL, a < b)
BINARY(Equal, NUMBERS, BOOL, !(a < b) && !(a > b))
BINARY(And, BOOLS, BOOL, a > 0 && b > 0)

static void run_Where(const struct operation *o, const struct array *const *in, struct array *y)
{
    (void)o;
    assert_true(in[0]->type == BOOL && in[1]->type == in[2]->type);
    broadcast_shape(y, in, 3);
    y->type = in[1]->type;
    for (int64_t i = 0; i < y->n; i++)
        y->x[i] = at(at(in[0], y, i) > 0 ? in[1] : in[2], y, i);
}

static void run_Clip(const struct operation *o, const struct array *const *in, struct array *y)
{
    (void)o;
    assert_true(in[0]->type == in[1]->type && in[0]->type == in[2]->type && in[1]->rank == 0 && in[2]->rank == 0);
    broadcast_shape(y, in, 1);
    y->type = in[0]->type;
    for (int64_t i = 0; i < y->n; i++)
        y->x[i] = fmin(fmax(in[0]->x[i], in[1]->x[0]), in[2]->x[0]);
}

static void run_Cast(const struct operation *o, const struct array *const *in, struct array *y)
{
    assert_string_equal(o->attr, "to");
    broadcast_shape(y, in, 1);
    y->type = (int)o->i;
    for (int64_t i = 0; i < y->n; i++)
        y->x[i] = y->type == BOOL ? in[0]->x[i] > 0 || in[0]->x[i] < 0 : in[0]->x[i];
}

static void run_Expand(const struct operation *o, const struct array *const *in, struct array *y)
{
    (void)o;
    struct array shape = {.rank = (int)in[1]->n};
    assert_true(in[1]->type == INT64 && in[1]->rank == 1 && shape.rank <= RANK);
    for (int i = 0; i < shape.rank; i++)
        shape.shape[i] = (int64_t)in[1]->x[i];
    broadcast_shape(y, (const struct array *const[]){in[0], &shape}, 2);
    y->type = in[0]->type;
    for (int64_t i = 0; i < y->n; i++)
        y->x[i] = at(in[0], y, i);
}

/* Elements before an axis. */
static int64_t before(const struct array *a, int64_t axis)
{
    int64_t n = 1;
    for (int64_t i = 0; i < axis; i++)
        n *= a->shape[i];
    return n;
}
/* ---- the rest ---- */

static void run_Softmax(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t axis = axis_of(o, in[0]->rank, -1), width = in[0]->shape[axis];
    assert_true(axis == in[0]->rank - 1 && in[0]->type == FLOAT);
    broadcast_shape(y, in, 1);
    y->type = FLOAT;
    for (int64_t row = 0; row < y->n; row += width) {
        double most = -INFINITY, sum = 0;
        for (int64_t i = row; i < row + width; i++)
            most = fmax(most, in[0]->x[i]);
        for (int64_t i = row; i < row + width; i++)
            sum += y->x[i] = exp(in[0]->x[i] - most);
        for (int64_t i = row; i < row + width; i++)
            y->x[i] /= sum;
    }
}

static void run_LayerNormalization(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t width = in[0]->shape[in[0]->rank - 1];
    assert_true(!strcmp(o->attr, "epsilon") && in[1]->n == width && (o->n_in < 3 || in[2]->n == width));
    broadcast_shape(y, in, 1);
    y->type = FLOAT;
    for (int64_t row = 0; row < y->n; row += width) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < width; i++)
            mean += in[0]->x[row + i] / (double)width;
        for (int64_t i = 0; i < width; i++)
            squares += pow(in[0]->x[row + i] - mean, 2) / (double)width;
        for (int64_t i = 0; i < width; i++)
            y->x[row + i] =
                (in[0]->x[row + i] - mean) / sqrt(squares + o->f) * in[1]->x[i] + (o->n_in > 2 ? in[2]->x[i] : 0);
    }
}

static void run_MatMul(const struct operation *o, const struct array *const *in, struct array *y)
{
    const struct array *a = in[0], *b = in[1];
    (void)o;
    assert_true(a->rank >= 2 && b->rank >= 2 && a->type == FLOAT && b->type == FLOAT);
    int64_t rows = a->shape[a->rank - 2], inner = a->shape[a->rank - 1], columns = b->shape[b->rank - 1];
    assert_int_equal(b->shape[b->rank - 2], inner);
    struct array of_a = *a, of_b = *b, batch = {0}; /* one element a matrix */
    of_a.rank -= 2, of_b.rank -= 2;
    broadcast_shape(&batch, (const struct array *const[]){&of_a, &of_b}, 2);
    *y = batch;
    y->shape[y->rank++] = rows;
    y->shape[y->rank++] = columns;
    y->type = FLOAT;
    sized(y);
    of_a.x = malloc((size_t)before(a, a->rank - 2) * sizeof(double));
    of_b.x = malloc((size_t)before(b, b->rank - 2) * sizeof(double));
    for (int64_t i = 0; i < before(a, a->rank - 2); i++)
        of_a.x[i] = (double)i;
    for (int64_t i = 0; i < before(b, b->rank - 2); i++)
        of_b.x[i] = (double)i;
    for (int64_t m = 0; m < batch.n; m++) {
        const double *from = a->x + (int64_t)at(&of_a, &batch, m) * rows * inner;
        const double *with = b->x + (int64_t)at(&of_b, &batch, m) * inner * columns;
        for (int64_t i = 0; i < rows * columns; i++)
            for (int64_t k = 0; k < inner; k++)
                y->x[m * rows * columns + i] += from[i / columns * inner + k] * with[k * columns + i % columns];
    }
    free(of_a.x);
    free(of_b.x);
    free(batch.x);
}

/* In (batch, channels, places), weight (outputs, channels, width), bias (outputs). */
static void run_Conv(const struct operation *o, const struct array *const *in, struct array *y)
{
    const struct array *x = in[0], *w = in[1];
    assert_true(!strcmp(o->attr, "pads") && o->n_ints == 2 && o->n_in == 3 && x->rank == 3 && w->rank == 3);
    assert_true(x->shape[1] == w->shape[1] && in[2]->n == w->shape[0]);
    int64_t C = x->shape[1], L = x->shape[2], O = w->shape[0], W = w->shape[2];
    *y = (struct array){.type = FLOAT, .rank = 3, .shape = {x->shape[0], O, L + o->ints[0] + o->ints[1] - W + 1}};
    sized(y);
    for (int64_t i = 0; i < y->n; i++) {
        int64_t place = i % y->shape[2], out = i / y->shape[2] % O, batch = i / y->shape[2] / O;
        y->x[i] = in[2]->x[out];
        for (int64_t c = 0; c < C; c++)
            for (int64_t k = 0; k < W; k++) {
                int64_t from = place + k - o->ints[0];
                if (from >= 0 && from < L)
                    y->x[i] += x->x[(batch * C + c) * L + from] * w->x[(out * C + c) * W + k];
            }
    }
}

#define ROW(name)                                                                                                      \
    {                                                                                                                  \
#name, run_##name                                                                                              \
    }
static const struct {
    const char *op;
    run_fn *run;
} operators[] = {ROW(Abs),     ROW(Add),
                 ROW(And),     ROW(Cast),
                 ROW(Clip),    ROW(Concat),
                 ROW(Cos),     ROW(CumSum),
                 ROW(Div),     ROW(Equal),
                 ROW(Erf),     ROW(Expand),
                 ROW(Gather),  ROW(LayerNormalization),
                 ROW(Less),    ROW(GatherElements),
                 ROW(MatMul),  ROW(Mul),
                 ROW(Not),     ROW(Range),
                 ROW(Relu),    ROW(ReduceSum),
                 ROW(Reshape), ROW(Shape),
                 ROW(Sigmoid), ROW(Sin),
                 ROW(Softmax), ROW(Split),
                 ROW(Squeeze), ROW(Sub),
                 ROW(Tanh),    ROW(Transpose),
                 ROW(Where),   ROW(Unsqueeze),
                 ROW(Conv),    ROW(Sqrt)};

static void run_node(struct world *w, const struct operation *o)
{
    const struct array *in[INPUTS];
    struct array y[OUTPUTS] = {0};
    run_fn *run = NULL;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (!strcmp(operators[i].op, o->op))
            run = operators[i].run;
    if (!run)
        fail_msg("operator %s", o->op);
    for (int i = 0; i < o->n_in; i++)
        if (!(in[i] = find(w, o->in[i])))
            fail_msg("%s reads %s before it is there", o->op, o->in[i]);
    assert_int_equal(o->n_out > 1, run == run_Split);
    run(o, in, y);
    for (int i = 0; i < o->n_out; i++) {
        if (find(w, o->out[i]))
            fail_msg("%s is there twice", o->out[i]);
        snprintf(y[i].name, NAME, "%s", o->out[i]);
        w->made[w->n++] = y[i];
    }
}

/* Of the sizes that are told; those with a name must be the same everywhere. */
static void compare_end(const struct array *a, const struct end *e, int64_t sizes[2])
{
    assert_int_equal(a->type, e->type);
    assert_int_equal(a->rank, e->rank);
    for (int i = 0; i < e->rank; i++) {
        const char *name = e->dim_name[i];
        int which = !strcmp(name, "sequence_length");
        assert_true(!*name || which || !strcmp(name, "batch_size"));
        if (*name && !sizes[which])
            sizes[which] = a->shape[i];
        assert_int_equal(a->shape[i], *name ? sizes[which] : e->dim[i]);
    }
}

struct array *interpret(const struct onnx_file *f, struct array *inputs)
{
    struct world w = {.f = f, .made = calloc(f->n_nodes * OUTPUTS + 8, sizeof *w.made)};
    struct array *out = calloc((size_t)f->n_outputs, sizeof *out);
    int64_t sizes[2] = {0};
    for (int i = 0; i < f->n_inputs; i++) {
        snprintf(inputs[i].name, NAME, "%s", f->inputs[i].name);
        inputs[i].type = INT64;
        compare_end(&inputs[i], &f->inputs[i], sizes);
        w.made[w.n++] = inputs[i];
    }
    for (size_t i = 0; i < f->n_nodes; i++)
        run_node(&w, &f->nodes[i]);
    for (int i = 0; i < f->n_outputs; i++) {
        const struct array *from = find(&w, f->outputs[i].name);
        assert_non_null(from);
        compare_end(from, &f->outputs[i], sizes);
        out[i] = *from;
        out[i].x = malloc((size_t)from->n * sizeof *out[i].x);
        memcpy(out[i].x, from->x, (size_t)from->n * sizeof *out[i].x);
    }
    for (size_t i = (size_t)f->n_inputs; i < w.n; i++)
        free(w.made[i].x);
    free(w.made);
    return out;
}

void free_arrays(struct array *a, int n)
{
    for (int i = 0; i < n; i++)
        free(a[i].x);
    free(a);
}
