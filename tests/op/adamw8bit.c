/* 8-bit AdamW on every backend that is there: the maps as torch computes them by the formula of bitsandbytes, and
 * bitsandbytes' own test of its optimizer (tests/test_optim.py, test_optimizer8bit). That is 50 steps beside Adam with
 * states in full, of the largest matrix five. After each the other takes over parameters and states, so that every step's own
 * error is seen. It says what it did not run. With SNUG_TEST_DEVICE=reference, cpu or cuda it tests that backend alone. */
#include "../sanitized.h"
#include "backend/backend.h"
#include "base/philox.h"
#include "cpu/isa.h"
#include "maps.h"
#include "op/optimizer/dynamic_map.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_maps(void **state)
{
    (void)state;
    for (int i = 0; i < MAP_CODES; i++) {
        assert_true(map_signed(i) == signed_map[i] && map_unsigned(i) == unsigned_map[i]);
        assert_true(i == 0 || (map_signed(i) > map_signed(i - 1) && map_unsigned(i) > map_unsigned(i - 1)));
    }
    assert_true(map_signed(MAP_SIGNED_ZERO) == 0 && map_unsigned(0) == 0);
    assert_true(map_signed(255) == 1 && map_unsigned(255) == 1);
    assert_true(fabs((double)map_signed(0) + 0.99296874) < 1e-7 && fabs((double)map_signed(254) - 0.99296874) < 1e-7);
    assert_true(fabs((double)map_signed(128) - 5.5e-7) < 1e-13 && fabs((double)map_unsigned(1) - 3.25e-7) < 1e-13);
    assert_true(fabs((double)map_unsigned(254) - 0.99648438) < 1e-7);
}

/* ---- numbers ---- */

static void *numbers(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    assert_non_null(p);
    return p;
}

/* x[i] = scale N(0,1), by Box and Muller. */
static void fill_normal(double *x, int64_t n, double scale, uint32_t stream)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += 2) {
        struct philox r = philox4x32((struct philox){{(uint32_t)i, stream, 0, 0}}, 0x736E7567, 2);
        double radius = scale * sqrt(-2 * log((r.w[0] + 0.5) * 0x1p-32)), angle = 2 * M_PI * r.w[1] * 0x1p-32;
        x[i] = radius * cos(angle);
        if (i + 1 < n)
            x[i + 1] = radius * sin(angle);
    }
}

/* x as it is in another type. */
static void round_to(enum dtype type, double *x, int64_t n)
{
    void *narrow = numbers(n, sizeof *x);
    dtype_convert(narrow, type, x, DT_F64, n);
    dtype_convert(x, DT_F64, narrow, type, n);
    free(narrow);
}

/* ---- parameters with their states, in a backend's memory ---- */

static void must(int code, const struct snug_err *err)
{
    if (code)
        fail_msg("%s", err->text);
}

struct tensors {
    const struct backend *b;
    char *arena;
    int64_t bytes, n, blocks;
    struct tensor p, copy, g, m, v, absmax_m, absmax_v, step; /* m and v of 8 bits, */
    struct tensor full_m, full_v;                             /* and in full */
};

static struct tensor place(struct tensors *t, enum dtype type, int64_t n)
{
    struct tensor x = {.data = t->arena ? t->arena + t->bytes : NULL, .dtype = type, .shape = {n}, .ndim = 1};
    t->bytes += (dtype_bytes(type, n) + t->b->facts.align - 1) / t->b->facts.align * t->b->facts.align;
    return x;
}

static void place_all(struct tensors *t, enum dtype narrow)
{
    enum dtype wide = t->b->facts.float_type;
    t->bytes = 0;
    t->p = place(t, wide, t->n);
    t->copy = narrow == wide ? (struct tensor){0} : place(t, narrow, t->n);
    t->g = place(t, narrow, t->n);
    t->m = place(t, DT_U8, t->n);
    t->v = place(t, DT_U8, t->n);
    t->absmax_m = place(t, wide, t->blocks);
    t->absmax_v = place(t, wide, t->blocks);
    t->full_m = place(t, wide, t->n);
    t->full_v = place(t, wide, t->n);
    t->step = place(t, DT_F64, STEP_SCALARS);
}

/* All zeros. `narrow`: of gradients, and if it is not the backend's own float, of a copy of the parameters. */
static void open_tensors(struct tensors *t, const struct backend *b, enum dtype narrow, int64_t n)
{
    struct snug_err err = {0};
    void *arena;
    *t = (struct tensors){.b = b, .n = n, .blocks = (n + MAP_BLOCK - 1) / MAP_BLOCK};
    place_all(t, narrow);
    must(b->arena->alloc(b, t->bytes, 0, NULL, &arena, &err), &err);
    t->arena = arena;
    place_all(t, narrow);
}

static void close_tensors(struct tensors *t)
{
    t->b->arena->free(t->b, t->arena, t->bytes);
}

static void put(const struct tensors *t, const struct tensor *x, const double *from)
{
    struct snug_err err = {0};
    int64_t n = tensor_elements(x);
    void *data = numbers(n, sizeof *from);
    dtype_convert(data, x->dtype, from, DT_F64, n);
    must(t->b->arena->upload(t->b, x->data, data, dtype_bytes(x->dtype, n), &err), &err);
    free(data);
}

static void get_bytes(const struct tensors *t, const struct tensor *x, void *to)
{
    struct snug_err err = {0};
    must(t->b->arena->download(t->b, to, x->data, dtype_bytes(x->dtype, tensor_elements(x)), &err), &err);
}

static void get(const struct tensors *t, const struct tensor *x, double *to)
{
    int64_t n = tensor_elements(x);
    void *data = numbers(n, sizeof *to);
    get_bytes(t, x, data);
    dtype_convert(to, DT_F64, data, x->dtype, n);
    free(data);
}

/* A state of 8 bits as numbers. */
static void get_state(const struct tensors *t, const struct tensor *codes, const struct tensor *absmax,
                      const float *map, double *to)
{
    uint8_t *code = numbers(t->n, 1);
    double *most = numbers(t->blocks, sizeof *most);
    get_bytes(t, codes, code);
    get(t, absmax, most);
    for (int64_t i = 0; i < t->n; i++)
        to[i] = (double)map[code[i]] * most[i / MAP_BLOCK];
    free(code);
    free(most);
}

struct hyper {
    double lr, eps, weight_decay;
};

static const double BETA1 = 0.9, BETA2 = 0.999;

/* One step with the gradient g, of 8-bit AdamW or (full) of AdamW that decays last, as bitsandbytes' does. */
static void step(const struct tensors *t, const struct hyper *h, int number, const double *g, bool full)
{
    const double scalars[STEP_SCALARS] = {[STEP_LR] = h->lr, [STEP_UPDATE] = number};
    struct snug_err err = {0};
    struct work w = {.op = full ? OP_adamw : OP_adamw8bit, .call.threads = 2};
    if (full)
        w.args.adamw = (struct args_adamw){.p = t->p,
                                           .g = t->g,
                                           .m = t->full_m,
                                           .v = t->full_v,
                                           .copy = t->copy,
                                           .step = t->step,
                                           .beta1 = BETA1,
                                           .beta2 = BETA2,
                                           .eps = h->eps,
                                           .weight_decay = h->weight_decay,
                                           .decay_last = 1};
    else
        w.args.adamw8bit = (struct args_adamw8bit){.p = t->p,
                                                   .g = t->g,
                                                   .m = t->m,
                                                   .v = t->v,
                                                   .absmax_m = t->absmax_m,
                                                   .absmax_v = t->absmax_v,
                                                   .copy = t->copy,
                                                   .step = t->step,
                                                   .beta1 = BETA1,
                                                   .beta2 = BETA2,
                                                   .eps = h->eps,
                                                   .weight_decay = h->weight_decay};
    put(t, &t->g, g);
    put(t, &t->step, scalars);
    must(t->b->run(t->b, &w, 1, &err), &err);
    must(t->b->arena->sync(t->b, &err), &err);
}

/* ---- bitsandbytes' test ---- */

struct adam {
    double *p, *m, *v;
};

/* Kingma and Ba, arXiv 1412.6980, as torch.optim.Adam. */
static void adam_step(const struct adam *a, int64_t n, double lr, double eps, int number, const double *g)
{
    double c1 = 1 - pow(BETA1, number), c2 = 1 - pow(BETA2, number);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        a->m[i] = BETA1 * a->m[i] + (1 - BETA1) * g[i];
        a->v[i] = BETA2 * a->v[i] + (1 - BETA2) * g[i] * g[i];
        a->p[i] -= lr / c1 * a->m[i] / (sqrt(a->v[i] / c2) + eps);
    }
}

/* Mean absolute and mean relative. */
struct difference {
    double absolute, relative;
};

static struct difference difference(const double *got, const double *want, int64_t n)
{
    double absolute = 0, relative = 0;
    for (int64_t i = 0; i < n; i++) {
        double error = fabs(got[i] - want[i]);
        absolute += error;
        relative += error / (fabs(want[i]) + 1e-9);
    }
    return (struct difference){absolute / (double)n, relative / (double)n};
}

static bool below(struct difference d, struct difference bound)
{
    return d.absolute < bound.absolute && d.relative < bound.relative;
}

static void keep_larger(struct difference *most, struct difference d)
{
    most->absolute = fmax(most->absolute, d.absolute);
    most->relative = fmax(most->relative, d.relative);
}

static bool few_far(const double *got, const double *want, int64_t n)
{
    int far = 0;
    for (int64_t i = 0; i < n; i++)
        far += !(fabs(got[i] - want[i]) <= 3e-3 + 1e-3 * fabs(want[i]));
    return far < 20;
}

/* `narrow`: of gradients, and of the copy of the parameters that a model in 16 bits computes with. */
static void near_adam(const struct backend *b, const char *name, enum dtype narrow, int64_t n, int steps)
{
    const struct hyper h = {.lr = 1e-3, .eps = 1e-8};
    const struct difference bound = {6e-5, 6e-4}, copy_bound = {1.7e-4, 1.6e-3};
    struct difference most = {0}, copy_most = {0};
    double *g = numbers(n, sizeof *g), *p = numbers(n, sizeof *p), *copy = numbers(n, sizeof *copy);
    double *m = numbers(n, sizeof *m), *v = numbers(n, sizeof *v);
    struct adam adam = {numbers(n, sizeof *p), numbers(n, sizeof *m), numbers(n, sizeof *v)};
    struct tensors t;
    open_tensors(&t, b, narrow, n);
    fill_normal(adam.p, n, 0.1, 0);
    round_to(b->facts.float_type, adam.p, n);
    put(&t, &t.p, adam.p);
    for (int s = 1; s <= steps; s++) {
        fill_normal(g, n, 0.01, (uint32_t)s);
        round_to(narrow, g, n);
        step(&t, &h, s, g, false);
        adam_step(&adam, n, h.lr, h.eps, s, g);
        get(&t, &t.p, p);
        get_state(&t, &t.m, &t.absmax_m, signed_map, m);
        get_state(&t, &t.v, &t.absmax_v, unsigned_map, v);
        struct difference off = difference(p, adam.p, n), copy_off = {0};
        bool states = few_far(m, adam.m, n) && few_far(v, adam.v, n);
        if (t.copy.ndim) {
            get(&t, &t.copy, copy);
            round_to(narrow, adam.p, n);
            copy_off = difference(copy, adam.p, n);
        }
        if (!below(off, bound) || !below(copy_off, copy_bound) || !states)
            fail_msg("%s, %s, %lld elements, step %d: off by %.3g, relative %.3g; the copy by %.3g, %.3g%s", name,
                     dtype_name(narrow), (long long)n, s, off.absolute, off.relative, copy_off.absolute,
                     copy_off.relative, states ? "" : "; states are far off");
        keep_larger(&most, off);
        keep_larger(&copy_most, copy_off);
        memcpy(adam.p, p, (size_t)n * sizeof *p);
        memcpy(adam.m, m, (size_t)n * sizeof *m);
        memcpy(adam.v, v, (size_t)n * sizeof *v);
    }
    print_message("%s, gradients in %s, %lld elements: a step is off by %.1e at most, relative %.1e", name,
                  dtype_name(narrow), (long long)n, most.absolute, most.relative);
    if (t.copy.ndim)
        print_message("; its copy by %.1e, %.1e", copy_most.absolute, copy_most.relative);
    print_message("\n");
    close_tensors(&t);
    void *all[] = {g, p, copy, m, v, adam.p, adam.m, adam.v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- One step from zero states: m = (1-b1) g and v = (1-b2) g^2, so that the update is lr g / (|g| + eps), and the
 * decay stands behind it. ---- */

static void decay_comes_last(const struct backend *b)
{
    enum { N = 700 };
    const struct hyper h = {.lr = 0.1, .eps = 1e-2, .weight_decay = 0.5};
    double p[N], g[N], got[N];
    struct tensors t;
    for (int i = 0; i < N; i++) {
        p[i] = 1 + 0.001 * i;
        g[i] = 0.01 * (i - N / 2);
    }
    open_tensors(&t, b, b->facts.float_type, N);
    for (int full = 0; full < 2; full++) {
        put(&t, &t.p, p);
        step(&t, &h, 1, g, full);
        get(&t, &t.p, got);
        for (int i = 0; i < N; i++) {
            double updated = p[i] - 0.1 * g[i] / (fabs(g[i]) + 1e-2);
            assert_true(fabs(got[i] - updated * (1 - 0.1 * 0.5)) < 1e-6); /* decay first: 5e-3 off */
        }
    }
    close_tensors(&t);
}

/* Next to a large element, a tiny negative m keeps its sign, a tiny positive one becomes 0; -1 is no code. */
static void signs_are_kept(const struct backend *b)
{
    enum { N = MAP_BLOCK + 6 };
    static const double some[] = {1, 1e-8, -1e-8, 0, -0.5, -1};
    static const int codes[] = {255, MAP_SIGNED_ZERO, MAP_SIGNED_ZERO - 1, MAP_SIGNED_ZERO, 0, 0};
    double g[N] = {0}, m[N], most[2];
    uint8_t code_m[N], code_v[N];
    struct tensors t;
    open_tensors(&t, b, b->facts.float_type, N);
    memcpy(g + MAP_BLOCK, some, sizeof some);
    step(&t, &(struct hyper){.eps = 1e-8}, 1, g, false);
    get_bytes(&t, &t.m, code_m);
    get_bytes(&t, &t.v, code_v);
    get_state(&t, &t.m, &t.absmax_m, signed_map, m);
    for (int i = 0; i < 6; i++)
        if (i != 4)
            assert_int_equal(code_m[MAP_BLOCK + i], codes[i]);
    assert_true(fabs(m[MAP_BLOCK + 4] + 0.05) < 0.1 * 0.008); /* half of a step between two codes */
    for (int i = 0; i < MAP_BLOCK; i++)                       /* a block of zeros */
        assert_true(code_m[i] == MAP_SIGNED_ZERO && code_v[i] == 0);
    get(&t, &t.absmax_m, most);
    assert_true(most[0] == 0);
    get(&t, &t.absmax_v, most);
    assert_true(most[0] == 0);
    close_tensors(&t);
}

/* ---- backends ---- */

static enum dtype narrow_type(const struct backend *b)
{
    return b->facts.narrow_types >> DT_BF16 & 1 ? DT_BF16 : b->facts.float_type;
}

static void test_small(const struct backend *b, const char *name)
{
    decay_comes_last(b);
    signs_are_kept(b);
    near_adam(b, name, b->facts.float_type, 1024 * 32, SANITIZED ? 3 : 50);
    if (narrow_type(b) != b->facts.float_type)
        near_adam(b, name, narrow_type(b), 1024 * 32, SANITIZED ? 3 : 50);
}

static void test_all(const struct backend *b)
{
    test_small(b, b->name);
    if (SANITIZED)
        return;
    near_adam(b, b->name, narrow_type(b), 1024 * 1024, 50);
    near_adam(b, b->name, narrow_type(b), 1024 * 4097, 5);
}

static bool is_wanted(const char *name)
{
    const char *wanted = getenv("SNUG_TEST_DEVICE");
    return !wanted || !*wanted || !strcmp(wanted, name);
}

static void test_reference(void **state)
{
    (void)state;
    if (!is_wanted("reference"))
        skip();
    test_all(backend_reference());
}

/* The cpu backend with the kernels of one instruction set. */
struct isa {
    struct backend base;
    const struct cpu_kernels *kernels;
};

static int run_isa(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)err;
    for (int i = 0; i < n; i++)
        ((const struct isa *)b)->kernels->run[work[i].op](&work[i].args, &work[i].call);
    return SNUG_OK;
}

static void test_isa(const char *name, const struct cpu_kernels *kernels)
{
    struct isa isa = {*backend_cpu(), kernels};
    isa.base.run = run_isa;
    test_small(&isa.base, name);
}

static void test_cpu(void **state)
{
    (void)state;
    if (!is_wanted("cpu"))
        skip();
    const struct cpu_isa *isa;
    for (int i = 0; (isa = cpu_isa_usable(i)); i++)
        test_isa(isa->name, isa->kernels);
    test_all(backend_cpu()); /* with the best */
}

static const char NO_GPU[] = "skipped on cuda: no GPU here, or a build without CUDA";

static void test_cuda(void **state)
{
    const struct backend *b;
    struct snug_err err = {0};
    (void)state;
    if (!is_wanted("cuda"))
        skip();
    if (!backend_cuda_present()) {
        print_message("%s\n", NO_GPU);
        skip();
    }
    must(backend_open(BACKEND_CUDA, &(struct cuda_settings){0}, &b, &err), &err);
    test_all(b);
    backend_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_cuda),
    };
    if (!is_wanted("cpu") && is_wanted("cuda") && !backend_cuda_present()) {
        printf("%s\n", NO_GPU);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
