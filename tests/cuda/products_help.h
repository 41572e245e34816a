/* products_help.h: matrix products on a GPU beside the reference, with guard bytes and poisoned outputs. */
#ifndef TEST_CUDA_PRODUCTS_HELP_H
#define TEST_CUDA_PRODUCTS_HELP_H

#include "base/mem.h"
#include "base/philox.h"
#include "cuda/kernels.h"
#include "cuda/kernels/linear/linear_sm90.h"
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

static inline double normal(uint32_t stream, uint32_t i)
{
    struct philox r = philox4x32((struct philox){{i, stream, 0, 0}}, 1, 2);
    double u = (r.w[0] + 0.5) * 0x1p-32, v = (r.w[1] + 0.5) * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static inline void fill(struct slot *s, enum dtype dtype, int ndim, int64_t rows, int64_t columns, uint32_t stream,
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

static inline void upload(struct slot *s)
{
    assert_int_equal(cudaMemcpy(s->device + s->offset, s->host, (size_t)s->bytes + GUARD, cudaMemcpyHostToDevice), 0);
}

/* An output that is written whole starts as NaN. */
static inline void poison(struct slot *s)
{
    assert_int_equal(cudaMemset(s->device + s->offset, 0xFF, (size_t)s->bytes), 0);
}

static inline void release(struct slot *s)
{
    mem_free(s->ref);
    mem_free(s->host);
    cudaFree(s->device);
}

static inline struct tensor on_device(const struct slot *s, bool add)
{
    return (struct tensor){.data = s->device + s->offset,
                           .shape = {s->shape[0], s->shape[1]},
                           .dtype = s->dtype,
                           .ndim = (int8_t)s->ndim,
                           .add = add};
}

static inline struct tensor on_host(const struct slot *s, double *data, bool add)
{
    return (struct tensor){
        .data = data, .shape = {s->shape[0], s->shape[1]}, .dtype = DT_F64, .ndim = (int8_t)s->ndim, .add = add};
}

static inline double factors(bool tf32)
{
    return tf32 ? 0x1p-10 : 0;
}

static inline double unit_of(enum dtype t)
{
    return t == DT_BF16 ? 0x1p-9 : t == DT_F16 ? 0x1p-12 : 0x1p-25;
}

/* Errors of a sum of `length` terms: sqrt(length) roundings of the size of the result's root mean square, some more
 * where the terms were `rounded` by themselves (relative to their size), and one rounding of the result. Two more,
 * where u, b or a product that is added are rounded to 16 bits first. What y = act(u) is derived from may be larger
 * than itself. */
static inline void compare(const struct slot *s, const double *expected, const double *derived_from, int64_t length,
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

static inline struct cuda_call call(cudaStream_t stream, void *workspace, bool tf32, struct snug_err *err)
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

static inline void describe(char *what, const char *op, int64_t N, int64_t I, int64_t O, const struct form *f)
{
    snprintf(what, 160, "%s %lldx%lldx%lld %s>%s%s%s%s%s %s%s offset %d", op, (long long)N, (long long)I, (long long)O,
             dtype_name(f->type), dtype_name(f->wide), f->in_out ? " in_out" : "", f->add ? " add" : "",
             f->bias ? f->narrow_bias ? " narrow bias" : " bias" : "", f->tf32 ? " tf32" : "", act_names[f->act],
             f->slope ? " slope" : "", f->offset);
}

static inline void must(int code, const struct snug_err *err, const char *what)
{
    if (code)
        fail_msg("%s: %s", what, err->text);
}

static inline void check_linear(int64_t N, int64_t I, int64_t O, const struct form *f)
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

static inline void check_dx(int64_t N, int64_t I, int64_t O, const struct form *f)
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

static inline void check_dw(int64_t N, int64_t I, int64_t O, const struct form *f)
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

static const int64_t sizes[][3] = {/* N, I, O */
                                   {1, 8, 2},     {32, 1024, 2}, {5, 7, 3},    {33, 77, 77},   {130, 64, 1},
                                   {257, 96, 40}, {64, 1, 16},   {300, 33, 8}, {512, 256, 192}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static const struct {
    enum dtype type;
    bool tf32;
} types[] = {{DT_F32, false}, {DT_F32, true}, {DT_BF16, false}, {DT_F16, false}};
enum { TYPES = sizeof types / sizeof *types };

/* Runs tests with `products` open; 77: there is no device, and they are skipped. */
static inline int with_products(const struct CMUnitTest *tests, size_t n)
{
    int devices = 0;
    struct snug_err err = {0};
    if (cudaGetDeviceCount(&devices) || !devices) {
        printf("no CUDA device: skipped\n");
        return 77;
    }
    if (cuda_call_device(&device, 0))
        return 1;
    if (cuda_products_open(&products, device.sm90, &err)) {
        printf("%s\n", err.text);
        return 1;
    }
    int failed = _cmocka_run_group_tests("products", tests, n, NULL, NULL);
    cuda_products_close(products);
    return failed;
}

#endif
