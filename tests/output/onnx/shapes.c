#include "operators.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void sized(struct array *a)
{
    a->n = 1;
    for (int i = 0; i < a->rank; i++)
        a->n *= a->shape[i];
    a->x = calloc((size_t)a->n + 1, sizeof *a->x);
}

void broadcast_shape(struct array *y, const struct array *const *a, int n)
{
    y->rank = 0;
    for (int k = 0; k < n; k++)
        y->rank = a[k]->rank > y->rank ? a[k]->rank : y->rank;
    for (int i = 0; i < y->rank; i++) {
        y->shape[i] = 1;
        for (int k = 0; k < n; k++) {
            int own = i - y->rank + a[k]->rank;
            int64_t size = own < 0 ? 1 : a[k]->shape[own];
            assert_true(size == 1 || y->shape[i] == 1 || y->shape[i] == size);
            y->shape[i] = size == 1 ? y->shape[i] : size;
        }
    }
    sized(y);
}

int64_t axis_of(const struct operation *o, int rank, int64_t fallback)
{
    int64_t axis = o->has_attr ? o->i : fallback;
    assert_true(!o->has_attr || !strcmp(o->attr, "axis"));
    axis += axis < 0 ? rank : 0;
    assert_true(axis >= 0 && axis < rank);
    return axis;
}

int64_t behind(const struct array *a, int64_t axis)
{
    int64_t n = 1;
    for (int64_t i = axis + 1; i < a->rank; i++)
        n *= a->shape[i];
    return n;
}

/* ---- shapes ---- */

void run_Shape(const struct operation *o, const struct array *const *in, struct array *y)
{
    (void)o;
    *y = (struct array){.type = INT64, .rank = 1, .shape = {in[0]->rank}};
    sized(y);
    for (int i = 0; i < in[0]->rank; i++)
        y->x[i] = (double)in[0]->shape[i];
}

static void reshaped(const struct array *from, struct array *y)
{
    y->type = from->type;
    sized(y);
    assert_int_equal(y->n, from->n);
    memcpy(y->x, from->x, (size_t)y->n * sizeof *y->x);
}

void run_Reshape(const struct operation *o, const struct array *const *in, struct array *y)
{
    (void)o;
    int64_t known = 1;
    int open = -1;
    assert_true(in[1]->type == INT64 && in[1]->rank == 1);
    y->rank = (int)in[1]->n;
    for (int i = 0; i < y->rank; i++) {
        int64_t size = (int64_t)in[1]->x[i];
        y->shape[i] = size == 0 ? in[0]->shape[i] : size;
        if (size < 0)
            open = i;
        else
            known *= y->shape[i];
    }
    if (open >= 0)
        y->shape[open] = in[0]->n / known;
    reshaped(in[0], y);
}

/* The axes that a second input names, as bits. */
static unsigned axes(const struct array *a, int rank)
{
    unsigned bits = 0;
    assert_true(a->type == INT64 && a->rank == 1);
    for (int64_t i = 0; i < a->n; i++) {
        assert_true(a->x[i] >= 0 && a->x[i] < rank);
        bits |= 1u << (int)a->x[i];
    }
    return bits;
}

void run_Unsqueeze(const struct operation *o, const struct array *const *in, struct array *y)
{
    (void)o;
    y->rank = in[0]->rank + (int)in[1]->n;
    unsigned ones = axes(in[1], y->rank);
    for (int i = 0, k = 0; i < y->rank; i++)
        y->shape[i] = ones >> i & 1 ? 1 : in[0]->shape[k++];
    reshaped(in[0], y);
}

void run_Squeeze(const struct operation *o, const struct array *const *in, struct array *y)
{
    (void)o;
    unsigned ones = axes(in[1], in[0]->rank);
    for (int i = 0; i < in[0]->rank; i++)
        if (ones >> i & 1)
            assert_int_equal(in[0]->shape[i], 1);
        else
            y->shape[y->rank++] = in[0]->shape[i];
    reshaped(in[0], y);
}

void run_Transpose(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t step[RANK];
    assert_true(!strcmp(o->attr, "perm") && o->n_ints == in[0]->rank);
    *y = (struct array){.type = in[0]->type, .rank = in[0]->rank};
    for (int i = 0; i < y->rank; i++) {
        y->shape[i] = in[0]->shape[o->ints[i]];
        step[i] = behind(in[0], o->ints[i]);
    }
    sized(y);
    for (int64_t i = 0; i < y->n; i++) {
        int64_t rest = i, from = 0;
        for (int k = y->rank - 1; k >= 0; k--) {
            from += rest % y->shape[k] * step[k];
            rest /= y->shape[k];
        }
        y->x[i] = in[0]->x[from];
    }
}

void run_Range(const struct operation *o, const struct array *const *in, struct array *y)
{
    (void)o;
    assert_true(in[0]->type == INT64 && in[0]->rank == 0 && in[1]->rank == 0 && in[2]->rank == 0);
    *y = (struct array){.type = INT64, .rank = 1, .shape = {(int64_t)((in[1]->x[0] - in[0]->x[0]) / in[2]->x[0])}};
    sized(y);
    for (int64_t i = 0; i < y->n; i++)
        y->x[i] = in[0]->x[0] + (double)i * in[2]->x[0];
}

/* ---- along an axis ---- */

void run_Gather(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t axis = axis_of(o, in[0]->rank, 0), inner = behind(in[0], axis);
    assert_int_equal(in[1]->type, INT64);
    y->type = in[0]->type;
    for (int i = 0; i < axis; i++)
        y->shape[y->rank++] = in[0]->shape[i];
    for (int i = 0; i < in[1]->rank; i++)
        y->shape[y->rank++] = in[1]->shape[i];
    for (int64_t i = axis + 1; i < in[0]->rank; i++)
        y->shape[y->rank++] = in[0]->shape[i];
    sized(y);
    for (int64_t i = 0; i < y->n; i++) {
        int64_t row = (int64_t)in[1]->x[i / inner % in[1]->n], outer = i / inner / in[1]->n;
        assert_true(row >= 0 && row < in[0]->shape[axis]);
        y->x[i] = in[0]->x[(outer * in[0]->shape[axis] + row) * inner + i % inner];
    }
}

void run_GatherElements(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t axis = axis_of(o, in[0]->rank, 0), inner = behind(in[0], axis);
    assert_true(in[1]->type == INT64 && in[1]->rank == in[0]->rank && axis == in[0]->rank - 1);
    for (int i = 0; i < axis; i++)
        assert_int_equal(in[0]->shape[i], in[1]->shape[i]);
    broadcast_shape(y, in + 1, 1);
    y->type = in[0]->type;
    for (int64_t i = 0; i < y->n; i++) {
        int64_t row = (int64_t)in[1]->x[i];
        assert_true(row >= 0 && row < in[0]->shape[axis]);
        y->x[i] = in[0]->x[i / y->shape[axis] * in[0]->shape[axis] + row * inner];
    }
}

void run_Concat(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t axis = axis_of(o, in[0]->rank, 0), inner = behind(in[0], axis), first = 0;
    *y = (struct array){.type = in[0]->type, .rank = in[0]->rank};
    memcpy(y->shape, in[0]->shape, sizeof y->shape);
    for (int k = 1; k < o->n_in; k++) {
        assert_true(in[k]->type == y->type && in[k]->rank == y->rank);
        y->shape[axis] += in[k]->shape[axis];
    }
    sized(y);
    for (int k = 0; k < o->n_in; first += in[k++]->shape[axis])
        for (int64_t i = 0; i < in[k]->n; i++) {
            int64_t row = i / inner % in[k]->shape[axis], outer = i / inner / in[k]->shape[axis];
            y->x[(outer * y->shape[axis] + first + row) * inner + i % inner] = in[k]->x[i];
        }
}

/* y: as many as the node has outputs. */
void run_Split(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t axis = axis_of(o, in[0]->rank, 0), inner = behind(in[0], axis), first = 0;
    assert_true(in[1]->type == INT64 && in[1]->n == o->n_out);
    for (int k = 0; k < o->n_out; first += y[k++].shape[axis]) {
        y[k] = (struct array){.type = in[0]->type, .rank = in[0]->rank};
        memcpy(y[k].shape, in[0]->shape, sizeof y[k].shape);
        y[k].shape[axis] = (int64_t)in[1]->x[k];
        sized(&y[k]);
        for (int64_t i = 0; i < y[k].n; i++) {
            int64_t row = i / inner % y[k].shape[axis], outer = i / inner / y[k].shape[axis];
            y[k].x[i] = in[0]->x[(outer * in[0]->shape[axis] + first + row) * inner + i % inner];
        }
    }
    assert_int_equal(first, in[0]->shape[axis]);
}

void run_CumSum(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t axis = (int64_t)in[1]->x[0], inner = behind(in[0], axis);
    (void)o;
    assert_true(in[1]->rank == 0 && in[1]->type == INT64);
    broadcast_shape(y, in, 1);
    y->type = in[0]->type;
    for (int64_t i = 0; i < y->n; i++)
        y->x[i] = in[0]->x[i] + (i / inner % y->shape[axis] ? y->x[i - inner] : 0);
}

void run_ReduceSum(const struct operation *o, const struct array *const *in, struct array *y)
{
    int64_t axis = (int64_t)in[1]->x[0], inner = behind(in[0], axis);
    assert_true(!strcmp(o->attr, "keepdims") && o->i == 0 && in[1]->n == 1);
    y->type = in[0]->type;
    for (int i = 0; i < in[0]->rank; i++)
        if (i != axis)
            y->shape[y->rank++] = in[0]->shape[i];
    sized(y);
    for (int64_t i = 0; i < in[0]->n; i++)
        y->x[i / inner / in[0]->shape[axis] * inner + i % inner] += in[0]->x[i];
}
