/* The products of linear layers on a GPU against the reference kernels in double on the same numbers, and what
 * kernel.cuh and products.h promise besides: nothing outside an output is written, the same bits every time, also out
 * of a captured graph and beside another stream's work. */
#include "base/mem.h"
#include "base/philox.h"
#include "cuda/kernels.h"
#include "cuda/kernels/linear_sm90.h"
#include "cuda/products/algorithms_json.h"
#include "cuda/products/nodes.h"
#include "cuda/products/products.h"
#include "cuda/products/tune.h"
#include "op/act.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 256 }; /* bytes behind each output that must stay as they are */

struct slot {
    enum dtype dtype;
    int64_t shape[2], elements, bytes;
    int ndim;
    double *ref;
    void *host;
    char *device;
    int offset; /* bytes from a well-aligned address */
};

static struct cuda_products *products;
static struct cuda_call device; /* what a call says of it */

/* ---- data ---- */

static double normal(uint32_t stream, uint32_t i)
{
    struct philox r = philox4x32((struct philox){{i, stream, 0, 0}}, 1, 2);
    double u = (r.w[0] + 0.5) * 0x1p-32, v = (r.w[1] + 0.5) * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static void fill(struct slot *s, enum dtype dtype, int ndim, int64_t rows, int64_t columns, uint32_t stream,
                 double scale, int offset)
{
    *s = (struct slot){.dtype = dtype, .shape = {rows, columns}, .ndim = ndim, .offset = offset};
    s->elements = ndim == 2 ? rows * columns : rows;
    s->bytes = dtype_bytes(dtype, s->elements);
    s->ref = mem_alloc((size_t)s->elements * 8 + 8);
    s->host = mem_alloc((size_t)s->bytes + GUARD);
    for (int64_t i = 0; i < s->elements; i++)
        s->ref[i] = scale * normal(stream, (uint32_t)i);
    dtype_convert(s->host, dtype, s->ref, DT_F64, s->elements);
    dtype_convert(s->ref, DT_F64, s->host, dtype, s->elements);
    memset((char *)s->host + s->bytes, 0xA5, GUARD);
    assert_int_equal(cudaMalloc((void **)&s->device, (size_t)s->bytes + GUARD + 256), 0);
}

static void upload(struct slot *s)
{
    assert_int_equal(cudaMemcpy(s->device + s->offset, s->host, (size_t)s->bytes + GUARD, cudaMemcpyHostToDevice), 0);
}

/* An output that is written whole starts as NaN. */
static void poison(struct slot *s)
{
    assert_int_equal(cudaMemset(s->device + s->offset, 0xFF, (size_t)s->bytes), 0);
}

static void release(struct slot *s)
{
    mem_free(s->ref);
    mem_free(s->host);
    cudaFree(s->device);
}

static struct tensor on_device(const struct slot *s, bool add)
{
    return (struct tensor){.data = s->device + s->offset,
                           .shape = {s->shape[0], s->shape[1]},
                           .dtype = s->dtype,
                           .ndim = (int8_t)s->ndim,
                           .add = add};
}

static struct tensor on_host(const struct slot *s, double *data, bool add)
{
    return (struct tensor){
        .data = data, .shape = {s->shape[0], s->shape[1]}, .dtype = DT_F64, .ndim = (int8_t)s->ndim, .add = add};
}

static double factors(bool tf32)
{
    return tf32 ? 0x1p-10 : 0;
}

static double unit_of(enum dtype t)
{
    return t == DT_BF16 ? 0x1p-9 : t == DT_F16 ? 0x1p-12 : 0x1p-25;
}

/* Errors of a sum of `length` terms: sqrt(length) roundings of the size of the result's root mean square, some more where
 * the terms were `rounded` by themselves (relative to their size), one rounding of the result, and where u, b or a product
 * that is added are rounded to 16 bits first, two more. What y = act(u) is derived from may be larger than itself. */
static void compare(const struct slot *s, const double *expected, const double *derived_from, int64_t length,
                    double rounded, const char *what)
{
    char *got = mem_alloc((size_t)s->bytes + GUARD);
    double *value = mem_alloc((size_t)s->elements * 8 + 8), square = 0, worst = 0;
    assert_int_equal(cudaMemcpy(got, s->device + s->offset, (size_t)s->bytes + GUARD, cudaMemcpyDeviceToHost), 0);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal((unsigned char)got[s->bytes + i], 0xA5);
    dtype_convert(value, DT_F64, got, s->dtype, s->elements);
    for (int64_t i = 0; i < s->elements; i++)
        square += fmax(expected[i] * expected[i], derived_from[i] * derived_from[i]);
    double rms = sqrt(square / (double)(s->elements ? s->elements : 1));
    double sums = 8 * 0x1p-24 * sqrt((double)length + 1) + 4 * rounded;
    for (int64_t i = 0; i < s->elements; i++) {
        double size = fmax(fabs(expected[i]), rms), off = fabs(value[i] - expected[i]);
        double allowed = sums * size + 3.01 * 2 * unit_of(s->dtype) * size;
        if (!(off <= allowed))
            fail_msg("%s: element %lld is %.9g, not %.9g (off %.3g, allowed %.3g)", what, (long long)i, value[i],
                     expected[i], off, allowed);
        worst = fmax(worst, off / size);
    }
    if (getenv("SNUG_TEST_VERBOSE"))
        printf("    %s: largest error %.2e\n", what, worst);
    mem_free(got);
    mem_free(value);
}

/* ---- running ---- */

static struct cuda_call call(cudaStream_t stream, void *workspace, bool tf32, struct snug_err *err)
{
    struct cuda_call c = device;
    c.stream = stream;
    c.workspace = workspace;
    c.tf32 = tf32;
    c.products = products;
    c.err = err;
    return c;
}

struct form {
    enum dtype type, wide; /* of activations; of y or dw */
    bool in_out, add, bias, tf32;
    bool narrow_bias; /* of y's type, not F32 */
    enum act act;
    bool slope; /* of the activation: written going forward, multiplied by going back */
    int offset; /* of all pointers, in elements */
    bool own;   /* by the kernel of linear_sm90.cu */
};

static void describe(char *what, const char *op, int64_t N, int64_t I, int64_t O, const struct form *f)
{
    snprintf(what, 160, "%s %lldx%lldx%lld %s>%s%s%s%s%s %s%s offset %d", op, (long long)N, (long long)I, (long long)O,
             dtype_name(f->type), dtype_name(f->wide), f->in_out ? " in_out" : "", f->add ? " add" : "",
             f->bias ? f->narrow_bias ? " narrow bias" : " bias" : "", f->tf32 ? " tf32" : "", act_names[f->act],
             f->slope ? " slope" : "", f->offset);
}

static void must(int code, const struct snug_err *err, const char *what)
{
    if (code)
        fail_msg("%s: %s", what, err->text);
}

static void check_linear(int64_t N, int64_t I, int64_t O, const struct form *f)
{
    char what[160];
    describe(what, "linear", N, I, O, f);
    int at = f->offset * dtype_bits(f->type) / 8;
    struct slot x, w, b, y, slope;
    fill(&x, f->type, 2, N, I, 1, 1, at);
    fill(&w, f->type, 2, f->in_out ? I : O, f->in_out ? O : I, 2, 1 / sqrt((double)I), at);
    enum dtype b_type = f->narrow_bias ? f->wide : DT_F32;
    fill(&b, b_type, 1, O, 1, 3, 1, f->offset * dtype_bits(b_type) / 8);
    fill(&y, f->wide, 2, N, O, 4, 1, f->offset * dtype_bits(f->wide) / 8);
    fill(&slope, f->wide, 2, N, O, 5, 1, f->offset * dtype_bits(f->wide) / 8);
    upload(&x), upload(&w), upload(&b), upload(&y), upload(&slope);
    poison(&y), poison(&slope);
    struct args_linear a = {.x = on_device(&x, false),
                            .w = on_device(&w, false),
                            .y = on_device(&y, false),
                            .act = f->act,
                            .in_out = f->in_out};
    if (f->bias)
        a.b = on_device(&b, false);
    if (f->slope)
        a.slope = on_device(&slope, false);
    struct snug_err err = {0};
    struct cuda_call c = call(NULL, NULL, f->tf32, &err);
    int64_t bytes = cuda_linear_workspace(&a, &c);
    assert_int_equal(cudaMalloc(&c.workspace, (size_t)bytes + 256), 0);
    assert_true(!f->own || cuda_linear_sm90_fits(&a, &c));
    must(f->own ? cuda_linear_sm90(&a, &c) : cuda_linear(&a, &c), &err, what);
    must(cuda_check(cudaDeviceSynchronize(), what, &err), &err, what);
    double *u = mem_alloc((size_t)y.elements * 8 + 8);
    struct args_linear r = {.x = on_host(&x, x.ref, false),
                            .w = on_host(&w, w.ref, false),
                            .y = on_host(&y, u, false),
                            .in_out = f->in_out};
    if (f->bias)
        r.b = on_host(&b, b.ref, false);
    ref_linear(&r, NULL);
    for (int64_t i = 0; i < y.elements; i++) {
        y.ref[i] = act_value(f->act, u[i]);
        slope.ref[i] = act_slope(f->act, u[i]);
    }
    compare(&y, y.ref, u, I, factors(f->tf32), what);
    if (f->slope && f->act != ACT_relu) /* which jumps where u is 0, or nearly */
        compare(&slope, slope.ref, u, I, factors(f->tf32), what);
    mem_free(u);
    cudaFree(c.workspace);
    release(&x), release(&w), release(&b), release(&y), release(&slope);
}

static void check_dx(int64_t N, int64_t I, int64_t O, const struct form *f)
{
    char what[160];
    describe(what, "linear_dx", N, I, O, f);
    int at = f->offset * dtype_bits(f->type) / 8;
    struct slot dy, w, dx, slope, db;
    fill(&dy, f->type, 2, N, O, 6, 1, at);
    fill(&w, f->type, 2, f->in_out ? I : O, f->in_out ? O : I, 2, 1 / sqrt((double)O), at);
    fill(&dx, f->type, 2, N, I, 7, 1, at);
    fill(&slope, f->type, 2, N, I, 5, 1, at);
    fill(&db, DT_F32, 1, I, 1, 9, 1, 0);
    upload(&dy), upload(&w), upload(&dx), upload(&slope), upload(&db);
    if (!f->add)
        poison(&dx);
    struct args_linear_dx a = {
        .dy = on_device(&dy, false), .w = on_device(&w, false), .dx = on_device(&dx, f->add), .in_out = f->in_out};
    struct args_linear_dx_act both = {.dy = a.dy,
                                      .w = a.w,
                                      .slope = on_device(&slope, false),
                                      .du = a.dx,
                                      .dbias = on_device(&db, N % 2),
                                      .in_out = f->in_out};
    struct snug_err err = {0};
    struct cuda_call c = call(NULL, NULL, f->tf32, &err);
    bool joined = f->slope && !f->add;
    int64_t bytes = joined ? cuda_linear_dx_act_workspace(&both, &c) : cuda_linear_dx_workspace(&a, &c);
    assert_int_equal(cudaMalloc(&c.workspace, (size_t)bytes + 256), 0);
    assert_true(!f->own || cuda_linear_dx_act_sm90_fits(&both, &c));
    must(f->own   ? cuda_linear_dx_act_sm90(&both, &c)
         : joined ? cuda_linear_dx_act(&both, &c)
                  : cuda_linear_dx(&a, &c),
         &err, what);
    must(cuda_check(cudaDeviceSynchronize(), what, &err), &err, what);
    struct args_linear_dx r = {.dy = on_host(&dy, dy.ref, false),
                               .w = on_host(&w, w.ref, false),
                               .dx = on_host(&dx, dx.ref, f->add),
                               .in_out = f->in_out};
    ref_linear_dx(&r, NULL);
    double *expected = mem_alloc((size_t)dx.elements * 8 + 8);
    for (int64_t i = 0; i < dx.elements; i++)
        expected[i] = dx.ref[i] * (joined ? slope.ref[i] : 1);
    compare(&dx, expected, dx.ref, O, factors(f->tf32), what);
    if (joined) {
        for (int64_t i = 0; i < I; i++) {
            db.ref[i] = N % 2 ? db.ref[i] : 0;
            for (int64_t n = 0; n < N; n++)
                db.ref[i] += expected[n * I + i];
        }
        double rounded = f->type != DT_F32 && !f->own ? 2 * unit_of(f->type) : factors(f->tf32);
        compare(&db, db.ref, db.ref, 64 * (N + O), rounded, what);
    }
    mem_free(expected);
    cudaFree(c.workspace);
    release(&dy), release(&w), release(&dx), release(&slope), release(&db);
}

static void check_dw(int64_t N, int64_t I, int64_t O, const struct form *f)
{
    char what[160];
    describe(what, "linear_dw", N, I, O, f);
    int at = f->offset * dtype_bits(f->type) / 8;
    struct slot dy, x, dw, db;
    fill(&dy, f->type, 2, N, O, 6, 1, at);
    fill(&x, f->type, 2, N, I, 1, 1, at);
    fill(&dw, f->wide, 2, f->in_out ? I : O, f->in_out ? O : I, 8, 1, f->offset * dtype_bits(f->wide) / 8);
    fill(&db, DT_F32, 1, O, 1, 9, 1, f->offset * 4);
    upload(&dy), upload(&x), upload(&dw), upload(&db);
    if (!f->add)
        poison(&dw), poison(&db);
    struct args_linear_dw a = {.dy = on_device(&dy, false),
                               .x = on_device(&x, false),
                               .dw = on_device(&dw, f->add),
                               .db = on_device(&db, f->add),
                               .in_out = f->in_out};
    struct snug_err err = {0};
    struct cuda_call c = call(NULL, NULL, f->tf32, &err);
    assert_int_equal(cudaMalloc(&c.workspace, (size_t)cuda_linear_dw_workspace(&a, &c) + 256), 0);
    must(cuda_linear_dw(&a, &c), &err, what);
    must(cuda_check(cudaDeviceSynchronize(), what, &err), &err, what);
    struct args_linear_dw r = {.dy = on_host(&dy, dy.ref, false),
                               .x = on_host(&x, x.ref, false),
                               .dw = on_host(&dw, dw.ref, f->add),
                               .db = on_host(&db, db.ref, f->add),
                               .in_out = f->in_out};
    ref_linear_dw(&r, NULL);
    compare(&dw, dw.ref, dw.ref, N, factors(f->tf32), what);
    compare(&db, db.ref, db.ref, N, 0, what);
    cudaFree(c.workspace);
    release(&dy), release(&x), release(&dw), release(&db);
}

/* ---- tests ---- */

static const int64_t sizes[][3] = {/* N, I, O */
                                   {1, 8, 2},     {32, 1024, 2}, {5, 7, 3},    {33, 77, 77},   {130, 64, 1},
                                   {257, 96, 40}, {64, 1, 16},   {300, 33, 8}, {512, 256, 192}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static const struct {
    enum dtype type;
    bool tf32;
} types[] = {{DT_F32, false}, {DT_F32, true}, {DT_BF16, false}, {DT_F16, false}};
enum { TYPES = sizeof types / sizeof *types };

static void forward(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < SIZES; i++)
            for (int v = 0; v < 4; v++) {
                struct form f = {.type = types[t].type,
                                 .wide = types[t].type,
                                 .tf32 = types[t].tf32,
                                 .in_out = v & 1,
                                 .bias = v != 1,
                                 .narrow_bias = v == 3,
                                 .act = (enum act)(v == 1 ? ACT_none : (v + i) % ACT_COUNT),
                                 .slope = v == 2 && (v + i) % ACT_COUNT != ACT_none};
                check_linear(sizes[i][0], sizes[i][1], sizes[i][2], &f);
            }
}

static void backward(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < SIZES; i++)
            for (int v = 0; v < 4; v++) {
                struct form f = {.type = types[t].type,
                                 .wide = (i + v / 2) % 2 ? types[t].type : DT_F32,
                                 .tf32 = types[t].tf32,
                                 .in_out = v & 1,
                                 .add = v & 2};
                check_dx(sizes[i][0], sizes[i][1], sizes[i][2], &f);
                check_dw(sizes[i][0], sizes[i][1], sizes[i][2], &f);
            }
}

/* Our own kernel, where there is one for the device: all edges of its tiles of 160 rows and 128 columns, its stages of 64
 * terms, more tiles than blocks, and less. */
static void own_kernel(void **state)
{
    (void)state;
    static const int64_t own_sizes[][3] = {{1, 8, 8},     {160, 64, 256},  {161, 72, 264},  {320, 256, 512},
                                           {319, 320, 8}, {200, 1024, 40}, {3000, 64, 1288}};
    if (!device.sm90)
        skip();
    for (size_t i = 0; i < sizeof own_sizes / sizeof *own_sizes; i++)
        for (int act = 0; act < ACT_COUNT; act++)
            for (int v = 0; v < 8; v++) {
                enum dtype type = v & 1 ? DT_F16 : DT_BF16;
                struct form f = {.type = type,
                                 .wide = type,
                                 .in_out = v & 2,
                                 .bias = act != ACT_silu,
                                 .narrow_bias = v & 2,
                                 .act = (enum act)act,
                                 .slope = v & 4 && act,
                                 .own = true};
                if (act != ACT_relu && act != ACT_tanh)
                    check_linear(own_sizes[i][0], own_sizes[i][1], own_sizes[i][2], &f);
                if (f.slope && act == ACT_gelu)
                    check_dx(own_sizes[i][0], own_sizes[i][1], own_sizes[i][2], &f);
            }
}

/* Slices of weights and of stacked tensors start anywhere. */
static void unaligned(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int offset = 1; offset <= 4; offset *= 2) {
            struct form f = {.type = types[t].type,
                             .wide = types[t].type,
                             .tf32 = types[t].tf32,
                             .bias = true,
                             .act = ACT_gelu,
                             .slope = true,
                             .offset = offset};
            check_linear(96, 64, 80, &f);
            check_dx(96, 64, 80, &f);
            f.in_out = f.add = true;
            check_dx(96, 64, 80, &f);
            check_dw(96, 64, 80, &f);
        }
}

static void no_rows(void **state)
{
    (void)state;
    for (int add = 0; add < 2; add++) {
        struct form f = {.type = DT_BF16, .wide = DT_F32, .add = add};
        check_dw(0, 16, 24, &f);
        check_dx(0, 16, 24, &f);
        f.bias = true;
        f.act = ACT_gelu;
        check_dx(0, 16, 24, &f);
        check_linear(0, 16, 24, &f);
    }
}

/* A plan asks for the largest N; smaller ones and other forms of the layer get by with that. */
static void workspace_is_one_per_layer(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        struct args_linear_dw a = {.dy = {.shape = {4096, 512}, .dtype = types[t].type, .ndim = 2},
                                   .x = {.shape = {4096, 256}, .dtype = types[t].type, .ndim = 2},
                                   .dw = {.shape = {512, 256}, .dtype = DT_F32, .ndim = 2},
                                   .db = {.shape = {512}, .dtype = DT_F32, .ndim = 1}};
        struct snug_err err = {0};
        struct cuda_call c = call(NULL, NULL, types[t].tf32, &err);
        int64_t most = cuda_linear_dw_workspace(&a, &c);
        assert_true(most <= 40 << 20);
        a.dy.shape[0] = a.x.shape[0] = 160;
        assert_true(cuda_linear_dw_workspace(&a, &c) <= most);
        struct form f = {.type = types[t].type, .wide = DT_F32, .tf32 = types[t].tf32};
        check_dw(160, 256, 512, &f);
        f.add = true;
        check_dw(160, 256, 512, &f);
    }
}

/* 100 runs, alone, from a graph and with another stream at work: the same bits. The sum is long enough to be split. */
static void the_same_bits(void **state)
{
    (void)state;
    enum { N = 16384, I = 256, O = 192 };
    for (int t = 0; t < TYPES; t++) {
        struct slot dy, x, dw, db;
        fill(&dy, types[t].type, 2, N, O, 6, 1, 0);
        fill(&x, types[t].type, 2, N, I, 1, 1, 0);
        fill(&dw, DT_F32, 2, O, I, 8, 1, 0);
        fill(&db, DT_F32, 1, O, 1, 9, 1, 0);
        upload(&dy), upload(&x), upload(&dw), upload(&db);
        struct args_linear_dw a = {.dy = on_device(&dy, false),
                                   .x = on_device(&x, false),
                                   .dw = on_device(&dw, false),
                                   .db = on_device(&db, false)};
        struct snug_err err = {0};
        cudaStream_t stream, other;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
        assert_int_equal(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), 0);
        struct cuda_call c = call(stream, NULL, types[t].tf32, &err);
        int64_t bytes = cuda_linear_dw_workspace(&a, &c);
        assert_int_equal(cudaMalloc(&c.workspace, (size_t)bytes + 256), 0);
        char *busy, *first = mem_alloc((size_t)(dw.bytes + db.bytes)), *now = mem_alloc((size_t)(dw.bytes + db.bytes));
        assert_int_equal(cudaMalloc((void **)&busy, 64 << 20), 0);
        for (int i = 0; i < 100; i++) {
            poison(&dw), poison(&db);
            assert_int_equal(cudaMemset(c.workspace, 0xFF, (size_t)bytes), 0);
            cudaDeviceSynchronize();
            for (int k = 0; i % 3 == 1 && k < 8; k++)
                cudaMemcpyAsync(busy, busy + (32 << 20), 32 << 20, cudaMemcpyDeviceToDevice, other);
            if (i % 3 == 2) {
                assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), 0);
                must(cuda_linear_dw(&a, &c), &err, "captured");
                assert_int_equal(cudaStreamEndCapture(stream, &graph), 0);
                assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), 0);
                assert_int_equal(cudaGraphLaunch(exec, stream), 0);
                cudaDeviceSynchronize();
                cudaGraphExecDestroy(exec);
                cudaGraphDestroy(graph);
            } else {
                must(cuda_linear_dw(&a, &c), &err, "launched");
            }
            must(cuda_check(cudaDeviceSynchronize(), "linear_dw", &err), &err, "the same bits");
            char *to = i ? now : first;
            cudaMemcpy(to, dw.device, (size_t)dw.bytes, cudaMemcpyDeviceToHost);
            cudaMemcpy(to + dw.bytes, db.device, (size_t)db.bytes, cudaMemcpyDeviceToHost);
            if (i)
                assert_memory_equal(first, now, (size_t)(dw.bytes + db.bytes));
        }
        mem_free(first), mem_free(now);
        cudaFree(busy), cudaFree(c.workspace);
        cudaStreamDestroy(stream), cudaStreamDestroy(other);
        release(&dy), release(&x), release(&dw), release(&db);
    }
}

static json_t *choice_of(json_t *choices, const char *op, int64_t N, bool add)
{
    size_t i;
    json_t *o, *found = NULL;
    json_array_foreach(choices, i, o) if (!strcmp(json_string_value(json_object_get(o, "op")), op) &&
                                          json_integer_value(json_object_get(o, "N")) == N &&
                                          json_boolean_value(json_object_get(o, "add")) == add &&
                                          json_object_get(o, "algo")) found = o;
    return found;
}

/* The tuning step measures each product once; other numbers of rows take the choice of the nearest that was measured;
 * results are as right as before. */
static void tuned(void **state)
{
    (void)state;
    struct snug_err err = {0};
    json_t *none = json_array(), *choices;
    struct form f = {.type = DT_BF16, .wide = DT_BF16, .bias = true, .act = ACT_gelu_tanh, .slope = true, .add = true};
    struct cuda_product_node nodes[7] = {
        {.op = OP_linear}, {.op = OP_linear_dx}, {.op = OP_linear_dw}, {.op = OP_norm}};
    struct tensor x = {.shape = {512, 256}, .ndim = 2, .dtype = DT_BF16}, y = x, w = x, b = x;
    w.shape[0] = y.shape[1] = b.shape[0] = 192;
    b.ndim = 1;
    b.dtype = DT_F32;
    nodes[0].args.linear = (struct args_linear){.x = x, .w = w, .b = b, .y = y, .slope = y, .act = ACT_gelu_tanh};
    nodes[1].args.linear_dx = (struct args_linear_dx){.dy = y, .w = w, .dx = x};
    nodes[1].args.linear_dx.dx.add = true;
    nodes[2].args.linear_dw = (struct args_linear_dw){.dy = y, .x = x, .dw = w};
    nodes[4] = nodes[1];
    nodes[5] = nodes[2];
    nodes[5].args.linear_dw.dy.shape[0] = 0; /* no rows: nothing to measure */
    b.shape[0] = 256;
    nodes[6].op = OP_linear_dx_act;
    nodes[6].args.linear_dx_act = (struct args_linear_dx_act){.dy = y, .w = w, .slope = x, .du = x, .dbias = b};
    assert_int_equal(algorithms_import(products, none, "none", &err), 0);
    must(cuda_products_tune(products, nodes, 7, false, &(struct cuda_tuning){0}, &err), &err, "tuning");
    assert_int_equal(cuda_products_unmeasured(products), 0);
    assert_int_equal(algorithms_export(products, ALGORITHMS_MEASURED, &choices, &err), 0);
    assert_non_null(choice_of(choices, "linear_dx", 512, true));
    json_decref(choices);
    check_linear(512, 256, 192, &f);
    check_dx(512, 256, 192, &f);
    check_linear(400, 256, 192, &f);
    check_dx(400, 256, 192, &f);
    f.act = ACT_gelu;
    f.add = false;
    check_dx(512, 256, 192, &f);
    check_dx(400, 256, 192, &f);
    f.add = true;
    assert_int_equal(cuda_products_unmeasured(products), 0);
    assert_int_equal(algorithms_export(products, ALGORITHMS_ALL, &choices, &err), 0);
    assert_true(json_equal(json_object_get(choice_of(choices, "linear_dx", 512, true), "algo"),
                           json_object_get(choice_of(choices, "linear_dx", 400, true), "algo")));
    json_decref(choices);
    check_dw(512, 256, 192, &f);
    assert_int_equal(cuda_products_unmeasured(products), 1); /* this one adds; the one that was measured does not */
    json_decref(none);
}

/* What was chosen comes back from its JSON and gives the same table. */
static void choices_travel(void **state)
{
    (void)state;
    struct snug_err err = {0};
    json_t *before, *after;
    assert_int_equal(algorithms_export(products, ALGORITHMS_ALL, &before, &err), 0);
    assert_true(json_array_size(before) > 100);
    assert_int_equal(algorithms_import(products, before, "choices.json", &err), 0);
    struct form f = {.type = DT_BF16, .wide = DT_BF16, .bias = true};
    check_linear(512, 256, 192, &f);
    assert_int_equal(algorithms_export(products, ALGORITHMS_ALL, &after, &err), 0);
    assert_true(json_equal(before, after));
    json_decref(after);
    json_object_set_new(json_array_get(before, 0), "op", json_string("attention"));
    assert_int_equal(algorithms_import(products, before, "choices.json", &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "choices.json: products: \"attention\" is no matrix product");
    json_decref(before);
}

static json_t *exported(enum algorithms_which which)
{
    struct snug_err err = {0};
    json_t *choices;
    assert_int_equal(algorithms_export(products, which, &choices, &err), 0);
    return choices;
}

/* What a checkpoint recorded stands in the place of what was measured here, is not measured again, and does not get into
 * the profile; what cuBLASLt does not take is counted and left out. Times do not tell choices apart, algorithms do. */
static void recorded_choices_stand(void **state)
{
    (void)state;
    struct snug_err err = {0};
    struct tensor x = {.shape = {512, 256}, .ndim = 2, .dtype = DT_BF16}, y = x, w = x;
    w.shape[0] = y.shape[1] = 192;
    struct cuda_product_node node = {.op = OP_linear_dx, .args.linear_dx = {.dy = y, .w = w, .dx = x}};
    struct cuda_product product = cuda_product_of(products, OP_linear_dx, &node.args, false);
    json_t *none = json_array(), *all;
    char name[128];
    int refused;
    assert_int_equal(algorithms_import(products, none, "none", &err), 0);
    must(cuda_products_tune(products, &node, 1, false, &(struct cuda_tuning){0}, &err), &err, "tuning");
    json_t *mine = exported(ALGORITHMS_MEASURED), *recorded = json_deep_copy(mine);
    assert_int_equal(json_array_size(mine), 1);
    all = exported(ALGORITHMS_OF_RUN);
    assert_int_equal(json_array_size(all), 0); /* nobody asked for it */
    json_decref(all);
    cuda_products_workspace(products, &product);
    struct hash128 before = algorithms_hash(products);
    assert_true(before.low != 0);

    json_object_set_new(json_array_get(recorded, 0), "us", json_real(4321));
    must(algorithms_add_recorded(products, recorded, "state.json", &refused, name, &err), &err, "taking choices");
    must(cuda_products_tune(products, &node, 1, false, &(struct cuda_tuning){0}, &err), &err, "tuning");
    assert_int_equal(refused, 0);
    cuda_products_workspace(products, &product);
    struct hash128 after = algorithms_hash(products);
    assert_true(after.low == before.low && after.high == before.high);
    all = exported(ALGORITHMS_OF_RUN);
    assert_true(json_equal(all, recorded));
    json_decref(all);
    all = exported(ALGORITHMS_MEASURED);
    assert_true(json_equal(all, mine));
    json_decref(all);
    check_dx(512, 256, 192, &(struct form){.type = DT_BF16, .wide = DT_BF16});

    /* an algorithm for bf16, said to be one for F32 */
    json_object_set_new(json_array_get(recorded, 0), "in", json_string("F32"));
    json_object_set_new(json_array_get(recorded, 0), "out", json_string("F32"));
    assert_int_equal(algorithms_import(products, none, "none", &err), 0);
    must(algorithms_add_recorded(products, recorded, "state.json", &refused, name, &err), &err, "taking choices");
    assert_int_equal(refused, 1);
    assert_string_equal(name, "linear_dx 512x256x192 F32>F32");
    all = exported(ALGORITHMS_ALL);
    assert_int_equal(json_array_size(all), 0);
    json_decref(all);
    json_decref(mine);
    json_decref(recorded);
    json_decref(none);
}

int main(void)
{
    int devices = 0;
    struct snug_err err = {0};
    if (cudaGetDeviceCount(&devices) || !devices) {
        printf("no CUDA device: skipped\n");
        return 77;
    }
    if (cuda_call_device(&device, 0))
        return 1;
    if (cuda_products_open(&products, &err)) {
        printf("%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward),        cmocka_unit_test(backward),
                                       cmocka_unit_test(unaligned),      cmocka_unit_test(no_rows),
                                       cmocka_unit_test(the_same_bits),  cmocka_unit_test(workspace_is_one_per_layer),
                                       cmocka_unit_test(choices_travel), cmocka_unit_test(tuned),
                                       cmocka_unit_test(own_kernel),     cmocka_unit_test(recorded_choices_stand)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_products_close(products);
    return failed;
}
