/* 8-bit optimizer states: the maps as torch computes them by the formula of bitsandbytes, and bitsandbytes' own test of
 * its optimizer (tests/test_optim.py, test_optimizer8bit): 50 steps beside Adam with states in full, after each of which
 * the other takes over parameters and states, so that every step's own error is seen. */
#include "cases.h"
#include "checks.h"
#include "cpu/kernels_table.h"
#include "maps.h"
#include "op/dynamic_map.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

void test_maps(void **state)
{
    (void)state;
    for (int i = 0; i < MAP_CODES; i++) {
        assert_true(fabs((double)(map_signed(i) - signed_map[i])) <= 2e-7 * fabs((double)signed_map[i]));
        assert_true(fabs((double)(map_unsigned(i) - unsigned_map[i])) <= 2e-7 * (double)unsigned_map[i]);
        assert_true(i == 0 || (map_signed(i) > map_signed(i - 1) && map_unsigned(i) > map_unsigned(i - 1)));
    }
    assert_true(map_signed(MAP_SIGNED_ZERO) == 0 && map_unsigned(0) == 0);
    assert_true(map_signed(255) == 1 && map_unsigned(255) == 1);
    assert_true(fabs((double)map_signed(0) + 0.99296874) < 1e-7 && fabs((double)map_signed(254) - 0.99296874) < 1e-7);
    assert_true(fabs((double)map_signed(128) - 5.5e-7) < 1e-13 && fabs((double)map_unsigned(1) - 3.25e-7) < 1e-13);
    assert_true(fabs((double)map_unsigned(254) - 0.99648438) < 1e-7);
}

/* ---- A kernel on plain arrays. ---- */

typedef void (*kernel)(const union args_any *, const struct call *);

/* `wide`: the floats are F64, as the reference has them. */
struct tensors {
    bool wide;
    int64_t n;
    void *p, *g, *m, *v, *absmax_m, *absmax_v;
    uint8_t *code_m, *code_v;
};

static int64_t blocks_of(int64_t n)
{
    return (n + MAP_BLOCK - 1) / MAP_BLOCK;
}

static void set(const struct tensors *t, void *x, int64_t i, double value)
{
    if (t->wide)
        ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

static double at(const struct tensors *t, const void *x, int64_t i)
{
    return t->wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void *zeros(int64_t bytes)
{
    void *p = calloc((size_t)bytes + 64, 1);
    assert_non_null(p);
    return p;
}

static struct tensors make(bool wide, int64_t n)
{
    int64_t size = wide ? 8 : 4;
    return (struct tensors){.wide = wide,
                            .n = n,
                            .p = zeros(n * size),
                            .g = zeros(n * size),
                            .m = zeros(n * size),
                            .v = zeros(n * size),
                            .absmax_m = zeros(blocks_of(n) * size),
                            .absmax_v = zeros(blocks_of(n) * size),
                            .code_m = zeros(n),
                            .code_v = zeros(n)};
}

static void destroy(struct tensors *t)
{
    void *all[] = {t->p, t->g, t->m, t->v, t->absmax_m, t->absmax_v, t->code_m, t->code_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static struct tensor tensor(const struct tensors *t, void *data, enum dtype type, int64_t n)
{
    return (struct tensor){.data = data, .dtype = type != DT_F32 || !t->wide ? type : DT_F64, .shape = {n}, .ndim = 1};
}

struct hyper {
    double lr, eps, weight_decay;
};

/* One step of Adam with states in full, or (eight) of 8 bits. */
static void step(const kernel *kernels, const struct tensors *t, const struct hyper *h, int number, bool eight)
{
    double scalars[STEP_SCALARS] = {[STEP_LR] = h->lr, [STEP_UPDATE] = number};
    struct tensor p = tensor(t, t->p, DT_F32, t->n), g = tensor(t, t->g, DT_F32, t->n);
    struct tensor scalar = tensor(t, scalars, DT_F64, STEP_SCALARS);
    union args_any a = {0};
    if (eight)
        a.adamw8bit = (struct args_adamw8bit){.p = p,
                                              .g = g,
                                              .m = tensor(t, t->code_m, DT_U8, t->n),
                                              .v = tensor(t, t->code_v, DT_U8, t->n),
                                              .absmax_m = tensor(t, t->absmax_m, DT_F32, blocks_of(t->n)),
                                              .absmax_v = tensor(t, t->absmax_v, DT_F32, blocks_of(t->n)),
                                              .step = scalar,
                                              .beta1 = 0.9,
                                              .beta2 = 0.999,
                                              .eps = h->eps,
                                              .weight_decay = h->weight_decay};
    else
        a.adamw = (struct args_adamw){.p = p,
                                      .g = g,
                                      .m = tensor(t, t->m, DT_F32, t->n),
                                      .v = tensor(t, t->v, DT_F32, t->n),
                                      .step = scalar,
                                      .beta1 = 0.9,
                                      .beta2 = 0.999,
                                      .eps = h->eps,
                                      .weight_decay = h->weight_decay,
                                      .decay_last = 1};
    kernels[eight ? OP_adamw8bit : OP_adamw](&a, &(struct call){.threads = 2});
}

static double state_m(const struct tensors *t, int64_t i)
{
    return (double)signed_map[t->code_m[i]] * at(t, t->absmax_m, i / MAP_BLOCK);
}

static double state_v(const struct tensors *t, int64_t i)
{
    return (double)unsigned_map[t->code_v[i]] * at(t, t->absmax_v, i / MAP_BLOCK);
}

/* ---- bitsandbytes' test. ---- */

static void near_adam(const kernel *kernels, bool wide, int64_t n, int steps)
{
    const struct hyper h = {.lr = 1e-3, .eps = 1e-8};
    struct tensors full = make(wide, n), eight = make(wide, n);
    for (int64_t i = 0; i < n; i++) {
        double x = 0.1 * random_normal(1, 0, (uint32_t)i);
        set(&full, full.p, i, x);
        set(&eight, eight.p, i, x);
    }
    for (int s = 1; s <= steps; s++) {
        double off = 0, relative = 0;
        int far_m = 0, far_v = 0;
        for (int64_t i = 0; i < n; i++) {
            double g = 0.01 * random_normal(2, (uint32_t)s, (uint32_t)i);
            set(&full, full.g, i, g);
            set(&eight, eight.g, i, g);
        }
        step(kernels, &full, &h, s, false);
        step(kernels, &eight, &h, s, true);
        for (int64_t i = 0; i < n; i++) {
            double want = at(&full, full.p, i), got = at(&eight, eight.p, i), m = state_m(&eight, i);
            double v = state_v(&eight, i), error = fabs(got - want);
            off += error;
            relative += error / (fabs(want) + 1e-9);
            far_m += fabs(m - at(&full, full.m, i)) > 3e-3 + 1e-3 * fabs(at(&full, full.m, i));
            far_v += fabs(v - at(&full, full.v, i)) > 3e-3 + 1e-3 * fabs(at(&full, full.v, i));
            set(&full, full.p, i, got);
            set(&full, full.m, i, m);
            set(&full, full.v, i, v);
        }
        if (!(off / (double)n < 6e-5 && relative / (double)n < 6e-4 && far_m < 20 && far_v < 20))
            fail_msg("%lld elements, step %d: off by %.3g, relative %.3g, %d and %d states far off", (long long)n, s,
                     off / (double)n, relative / (double)n, far_m, far_v);
    }
    destroy(&full);
    destroy(&eight);
}

/* ---- One step from zero states: m = (1-b1) g and v = (1-b2) g^2, so that the update is lr g / (|g| + eps), and the
 * decay stands behind it. ---- */

static void decay_comes_last(const kernel *kernels, bool wide)
{
    enum { N = 700 };
    const struct hyper h = {.lr = 0.1, .eps = 1e-2, .weight_decay = 0.5};
    for (int eight = 0; eight < 2; eight++) {
        struct tensors t = make(wide, N);
        for (int64_t i = 0; i < N; i++) {
            set(&t, t.p, i, 1 + 0.001 * (double)i);
            set(&t, t.g, i, 0.01 * (double)(i - N / 2));
        }
        step(kernels, &t, &h, 1, eight);
        for (int64_t i = 0; i < N; i++) {
            double g = 0.01 * (double)(i - N / 2), p = 1 + 0.001 * (double)i - 0.1 * g / (fabs(g) + 1e-2);
            assert_true(fabs(at(&t, t.p, i) - p * (1 - 0.1 * 0.5)) < 1e-6); /* decay first: 5e-3 off */
        }
        destroy(&t);
    }
}

/* Next to a large element, a tiny negative m keeps its sign, a tiny positive one becomes 0; -1 is no code. */
static void signs_are_kept(const kernel *kernels, bool wide)
{
    const struct hyper h = {.lr = 0, .eps = 1e-8};
    const double g[] = {1, 1e-8, -1e-8, 0, -0.5, -1};
    const int codes[] = {255, MAP_SIGNED_ZERO, MAP_SIGNED_ZERO - 1, MAP_SIGNED_ZERO, 0, 0};
    struct tensors t = make(wide, 256 + 6);
    for (int64_t i = 0; i < 6; i++)
        set(&t, t.g, 256 + i, g[i]);
    step(kernels, &t, &h, 1, true);
    for (int64_t i = 0; i < 6; i++)
        if (i != 4)
            assert_int_equal(t.code_m[256 + i], codes[i]);
    assert_true(fabs(state_m(&t, 256 + 4) + 0.05) < 0.1 * 0.008); /* half of a step between two codes */
    for (int64_t i = 0; i < 256; i++)                             /* a block of zeros */
        assert_true(t.code_m[i] == MAP_SIGNED_ZERO && t.code_v[i] == 0);
    assert_true(at(&t, t.absmax_m, 0) == 0 && at(&t, t.absmax_v, 0) == 0);
    destroy(&t);
}

static void check_kernels(const kernel *kernels, bool wide, int64_t largest)
{
    decay_comes_last(kernels, wide);
    signs_are_kept(kernels, wide);
    near_adam(kernels, wide, 1024 * 32, SANITIZED ? 3 : 50);
    if (!SANITIZED && largest > 1024 * 32)
        near_adam(kernels, wide, largest, 5);
}

extern const struct cpu_kernels cpu_kernels_generic;
#if defined __x86_64__
extern const struct cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512;
#endif

void test_adamw8bit(void **state)
{
    (void)state;
    check_kernels(reference_kernels, true, 0);
    check_kernels(cpu_kernels_generic.run, false, 0);
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        check_kernels(cpu_kernels_avx2.run, false, 0);
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl"))
        check_kernels(cpu_kernels_avx512.run, false, 1024 * 1024);
#endif
}
