/* cpu/simd/simd.h and cpu/act.h against libm in double, base/dtype.h and base/philox.h. Built and run for every instruction
 * set. */
#include "cpu/act.h"
#include "cpu/simd/simd_philox.h"
#include "op/act.h"
#include "tests/op/isa.h"
#include "tests/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

/* One function of one variable: a vector of floats in, a vector out. */
typedef vf (*function)(vf);

static float once(function f, float x)
{
    float lane[VF_LANES];
    vf_store(lane, f(vf_set1(x)));
    for (int i = 1; i < VF_LANES; i++) /* every lane computes the same */
        if (bits_of(lane[i]) != bits_of(lane[0]))
            fail_msg("lane %d of f(%a): %a, lane 0: %a", i, (double)x, (double)lane[i], (double)lane[0]);
    return lane[0];
}

enum { RUN = 256 }; /* floats that follow one another */

/* The largest |f - exact| / (|exact| + floor) of a run of floats, as far as they are in [low, high]; Inf
 * if f is NaN. */
static double worst_of_run(function f, double (*exact)(double), float low, float high, double floor, uint32_t first)
{
    double most = 0;
    for (uint32_t u = first; u < first + RUN; u += VF_LANES) {
        float x[VF_LANES], y[VF_LANES];
        for (uint32_t i = 0; i < VF_LANES; i++)
            x[i] = float_of(u + i);
        vf_store(y, f(vf_load(x)));
        for (int i = 0; i < VF_LANES; i++) {
            if (!(x[i] >= low && x[i] <= high))
                continue;
            double want = exact((double)x[i]), off = fabs((double)y[i] - want),
                   error = off == 0 ? 0 : off / (fabs(want) + floor);
            if (!(error <= most))
                most = isnan(error) ? INFINITY : error;
        }
    }
    return most;
}

/* The same over the floats of either sign: over every 511th run of them, or all where SNUG_TEST_ALL_FLOATS is set, which
 * takes about a minute a function on two cores. Fewer where an emulator or a sanitizer makes it slow. */
static double worst(function f, double (*exact)(double), float low, float high, double floor)
{
    const uint32_t runs = 1u << 24, few = SANITIZED || getenv("SNUG_TEST_SHORT") ? 8191 : 511; /* odd: no two alike */
    const uint32_t step = getenv("SNUG_TEST_ALL_FLOATS") ? 1 : few;
    double most = 0;
#pragma omp parallel for schedule(dynamic, 1024) reduction(max : most)
    for (uint32_t i = 0; i < runs; i += step) {
        uint32_t first = i * RUN;
        float x = float_of(first), y = float_of(first + RUN - 1);
        if (!(fmaxf(x, y) >= low && fminf(x, y) <= high))
            continue;
        double error = worst_of_run(f, exact, low, high, floor, first);
        most = error > most ? error : most;
    }
    return most;
}

#define ASSERT_BELOW(error, bound)                                                                                     \
    do {                                                                                                               \
        double e_ = (error);                                                                                           \
        print_message("%s: %.3g\n", #error, e_);                                                                       \
        assert_true(e_ < (bound));                                                                                     \
    } while (0)

/* Denormal results are off by at most half a unit of them. */
static const double DENORMAL = 0x1p-126 / 4;

static vf exp_(vf x)
{
    return vf_exp(x);
}

static vf exp2_(vf x)
{
    return vf_exp2(x);
}

static vf log_(vf x)
{
    return vf_log(x);
}

static vf tanh_(vf x)
{
    return vf_tanh(x);
}

static vf sigmoid_(vf x)
{
    return vf_sigmoid(x);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static vf cdf_(vf x)
{
    vf pdf;
    return vf_normal(x, &pdf);
}

static double cdf(double x)
{
    return erfc(-x * 0.70710678118654752440) / 2;
}

static vf pdf_(vf x)
{
    vf pdf;
    vf_normal(x, &pdf);
    return pdf;
}

static double pdf(double x)
{
    return exp(-x * x / 2) * 0.39894228040143267794;
}

static void functions_against_libm(void **state)
{
    (void)state;
    ASSERT_BELOW(worst(exp_, exp, -87.3f, 88.72f, 0), 1e-7);
    ASSERT_BELOW(worst(exp_, exp, -110, -87.3f, DENORMAL), 1e-6);
    ASSERT_BELOW(worst(exp2_, exp2, -126, 127.9f, 0), 2e-7);
    ASSERT_BELOW(worst(exp2_, exp2, -160, -126, DENORMAL), 1e-6);
    ASSERT_BELOW(worst(log_, log, 0x1p-126f, 3.4e38f, 0), 1.5e-7);
    ASSERT_BELOW(worst(tanh_, tanh, -100, 100, 0), 1.5e-7);
    ASSERT_BELOW(worst(sigmoid_, sigmoid, -87, 100, 0), 1.5e-7);
    ASSERT_BELOW(worst(cdf_, cdf, -9, 20, 0), 5e-7);
    ASSERT_BELOW(worst(pdf_, pdf, -9, 9, 0), 2e-7);
    ASSERT_BELOW(worst(cdf_, cdf, -1000, -9, 1e-19), 5e-7);
}

static void functions_at_the_ends(void **state)
{
    (void)state;
    assert_true(once(exp_, -INFINITY) == 0 && once(exp_, INFINITY) == INFINITY && once(exp_, 0) == 1);
    assert_true(once(exp_, 88.8f) == INFINITY && once(exp_, 88.7f) < INFINITY);
    assert_true(once(exp2_, -INFINITY) == 0 && once(exp2_, INFINITY) == INFINITY && once(exp2_, 128.5f) == INFINITY);
    assert_true(once(log_, 0) == -INFINITY && once(log_, INFINITY) == INFINITY && once(log_, 1) == 0);
    assert_true(isnan(once(log_, -1)));
    assert_true(once(tanh_, INFINITY) == 1 && once(tanh_, -INFINITY) == -1);
    assert_true(once(sigmoid_, INFINITY) == 1 && once(sigmoid_, -INFINITY) == 0);
    assert_true(once(cdf_, INFINITY) == 1 && once(cdf_, -INFINITY) == 0 && once(pdf_, INFINITY) == 0);
    function all[] = {exp_, exp2_, log_, tanh_, sigmoid_, cdf_, pdf_};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_true(isnan(once(all[i], NAN)));
}

/* Activations and their slopes as op/act.c defines them. The floor in the bound of slopes: they
 * cross zero as differences of larger terms. */
static enum act act_now;

static vf act_(vf x)
{
    return vf_act(act_now, x);
}

static double act(double x)
{
    return act_value(act_now, x);
}

static vf slope_(vf x)
{
    return vf_act_slope(act_now, x);
}

static double slope(double x)
{
    return act_slope(act_now, x);
}

/* The same from tables, whichever way this instruction set takes. */
static vf gelu_(vf x)
{
    vf s;
    return gelu_of_tables(act_now == ACT_gelu ? gelu_table : gelu_tanh_table, x, &s);
}

static vf gelu_slope_(vf x)
{
    vf s;
    gelu_of_tables(act_now == ACT_gelu ? gelu_table : gelu_tanh_table, x, &s);
    return s;
}

static void gelu_from_tables(void **state)
{
    (void)state;
    for (act_now = ACT_gelu; act_now <= ACT_gelu_tanh; act_now++) {
        ASSERT_BELOW(worst(gelu_, act, -1e30f, 1e30f, 1), 1e-7);
        ASSERT_BELOW(worst(gelu_, act, -0.01f, 0.01f, 1e-30), 2e-7);
        ASSERT_BELOW(worst(gelu_slope_, slope, -1e6f, 1e6f, 1), 3e-7);
        assert_true(isnan(once(gelu_, NAN)) && isnan(once(gelu_slope_, NAN)));
        assert_true(once(gelu_, -INFINITY) == 0 && once(gelu_, INFINITY) == INFINITY);
    }
}

/* Denormal numbers on the way to a result that is none: an Intel processor takes a hundred times as long for each. */
static void gelu_from_tables_without_denormals(void **state)
{
    (void)state;
#if defined __SSE2__
    enum { DENORMAL_SEEN = 1 << 1, UNDERFLOW_SEEN = 1 << 4 };
    for (act_now = ACT_gelu; act_now <= ACT_gelu_tanh; act_now++)
        for (float x = 0x1p-20f; x < 8; x *= 1.01f)
            for (int sign = -1; sign <= 1; sign += 2) {
                _mm_setcsr(_mm_getcsr() & ~(DENORMAL_SEEN | UNDERFLOW_SEEN));
                volatile float y = once(gelu_, (float)sign * x) + once(gelu_slope_, (float)sign * x);
                (void)y;
                assert_int_equal(_mm_getcsr() & (DENORMAL_SEEN | UNDERFLOW_SEEN), 0);
            }
#endif
}

static void activations_against_their_definition(void **state)
{
    (void)state;
    for (act_now = ACT_none; act_now < ACT_COUNT; act_now++) {
        print_message("%s\n", act_names[act_now]);
        bool tables = GELU_BY_TABLES && (act_now == ACT_gelu || act_now == ACT_gelu_tanh);
        float most = act_now == ACT_relu2 ? 0x1p63f : 1e30f; /* of which the square is a float */
        ASSERT_BELOW(worst(act_, act, -50, most, tables ? 0.1 : 1e-3), 1e-6);
        ASSERT_BELOW(worst(slope_, slope, -1e6f, 1e6f, tables ? 1 : 0.1), 1e-6);
        assert_true(isnan(once(act_, NAN)));
    }
}

static void bf16_rounds_as_dtype_does(void **state)
{
    (void)state;
    uint16_t got[VF_LANES];
    for (uint64_t u = 0; u <= UINT32_MAX; u += u % 0x8000 == 0x7FFF || u % 0x8000 < 2 ? 1 : 0x3FF) {
        float x = float_of((uint32_t)u);
        uint16_t want = bf16_from_float(x);
#if defined __AVX512BF16__
        if (fabsf(x) < 0x1p-126f)
            want &= 0x8000; /* the instruction makes 0 of denormals */
#endif
        vh_store(got, vh_from_vf(vf_set1(x)));
        if (isnan(x) ? !isnan(bf16_to_float(got[0])) : got[0] != want || got[VF_LANES - 1] != want)
            fail_msg("%a: %04x instead of %04x", (double)x, got[0], want);
    }
    for (uint32_t u = 0; u < 0x10000; u++) {
        uint16_t h[VF_LANES];
        float x[VF_LANES];
        for (int i = 0; i < VF_LANES; i++)
            h[i] = (uint16_t)u;
        vf_store(x, vf_from_bf16(vh_load(h)));
        assert_int_equal(bits_of(x[VF_LANES - 1]), u << 16);
    }
}

static void philox_equals_the_scalar_one(void **state)
{
    (void)state;
    uint32_t key0 = 0x12345678u, key1 = 0x9ABCDEF0u, out[4 * VF_LANES];
    struct vphilox c;
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < VF_LANES; i++)
            c.w[j][i] = (uint32_t)(i + 100 * j) * 2654435761u;
    vphilox_store(out, vphilox4x32(c, key0, key1));
    for (int i = 0; i < VF_LANES; i++) {
        struct philox one = {{c.w[0][i], c.w[1][i], c.w[2][i], c.w[3][i]}};
        one = philox4x32(one, key0, key1);
        assert_memory_equal(out + 4 * i, one.w, 16);
    }
}

/* Unaligned, for every number of lanes; what is not asked for is not touched. */
static void tails(void **state)
{
    (void)state;
    float from[2 * VF_LANES], to[2 * VF_LANES];
    uint16_t narrow[2 * VF_LANES];
    for (int i = 0; i < 2 * VF_LANES; i++)
        from[i] = (float)(i + 1);
    for (int n = 0; n <= VF_LANES; n++) {
        for (int i = 0; i < 2 * VF_LANES; i++) {
            to[i] = -1;
            narrow[i] = 7;
        }
        vf v = vf_get_upto(from, 1, n, false);
        for (int i = 0; i < VF_LANES; i++)
            assert_true(v[i] == (i < n ? (float)(i + 2) : 0));
        vf_put_upto(to, 1, v, n, false);
        vf_put_upto(narrow, 1, v, n, true);
        for (int i = 0; i < 2 * VF_LANES; i++) {
            bool inside = i >= 1 && i < 1 + n;
            assert_true(to[i] == (inside ? (float)(i + 1) : -1));
            assert_int_equal(narrow[i], inside ? bf16_from_float((float)(i + 1)) : 7);
        }
        v = vf_get_upto(narrow, 1, n, true);
        for (int i = 0; i < VF_LANES; i++)
            assert_true(v[i] == (i < n ? (float)(i + 2) : 0));
    }
}

static void lanes_folded(void **state)
{
    (void)state;
    vf v, w = vf_set1(-3);
    for (int i = 0; i < VF_LANES; i++)
        v[i] = (float)(1 << i);
    assert_true(vf_hsum(v) == (float)((1 << VF_LANES) - 1));
    assert_true(vf_hmax(v) == (float)(1 << (VF_LANES - 1)));
    for (int i = 0; i < VF_LANES; i++) {
        w[i] = 5;
        assert_true(vf_hmax(w) == 5 && vf_hsum(w) == 5 - 3 * (VF_LANES - 1));
        w[i] = -3;
    }
    vd low = vd_low(v), high = vd_high(v);
    for (int i = 0; i < VF_LANES / 2; i++)
        assert_true(low[i] == (double)v[i] && high[i] == (double)v[i + VF_LANES / 2]);
    /* Small whole numbers are exact in bf16: 3 * 5 + 2 * 7 + 1 */
    vf sum = vf_dot_pairs(vf_set1(1), vu_pair_round(vf_set1(3), vf_set1(2)), vu_pair_round(vf_set1(5), vf_set1(7)));
    assert_true(vf_hmax(sum) == 30 && vf_hsum(sum) == 30 * VF_LANES);
}

int main(void)
{
    if (!ISA_SUPPORTED())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_against_libm),
        cmocka_unit_test(functions_at_the_ends),
        cmocka_unit_test(gelu_from_tables),
        cmocka_unit_test(gelu_from_tables_without_denormals),
        cmocka_unit_test(activations_against_their_definition),
        cmocka_unit_test(bf16_rounds_as_dtype_does),
        cmocka_unit_test(philox_equals_the_scalar_one),
        cmocka_unit_test(tails),
        cmocka_unit_test(lanes_folded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
