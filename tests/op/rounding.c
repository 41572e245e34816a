/* Stochastic rounding against what follows from its definition: of the 65536 equally likely numbers exactly as many
 * round up as the remainder says. So a mean is within so many standard deviations of the exact number, and what is lost
 * where all is rounded to nearest arrives. */
#include "op/optimizer/rounding.h"
#include "checks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const double ULP = 0x1p-7; /* of bf16 in [1, 2) */

static uint32_t bits_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static void share_that_rounds_up(void)
{
    for (int k = 0; k < 12; k++) {
        uint32_t remainder = (uint32_t[]){0, 1, 2, 255, 4096, 32767, 32768, 32769, 50000, 65534, 65535, 12345}[k];
        uint32_t x = bits_of((k % 2 ? -1.0f : 1.0f) * 1.5f) | remainder, up = 0;
        for (uint32_t number = 0; number < 65536; number++) {
            uint16_t y = rounding_to_bf16(x, number);
            assert_true(y == x >> 16 || y == (x >> 16) + 1);
            up += y != x >> 16;
        }
        assert_int_equal(up, remainder);
    }
}

static void special_numbers(void)
{
    assert_int_equal(rounding_to_bf16(0, 65535), 0);
    assert_int_equal(rounding_to_bf16(bits_of(INFINITY), 65535), 0x7F80);
    assert_int_equal(rounding_to_bf16(bits_of(-INFINITY), 65535), 0xFF80);
    for (uint32_t number = 0; number < 65536; number += 257)
        assert_true(isnan(bf16_to_float(rounding_to_bf16(0x7F800001, number))) &&
                    isnan(bf16_to_float(rounding_to_bf16(0xFFFFFFFF, number))));
}

struct mean {
    double sum;
    int64_t n;
};

/* The mean of n roundings of x in [1, 2) is within five standard deviations of it. */
static void assert_unbiased(struct mean m, double x)
{
    double up = fmod(x, ULP) / ULP, deviation = ULP * sqrt(up * (1 - up) / (double)m.n);
    assert_true(fabs(m.sum / (double)m.n - x) < 5 * deviation);
}

static void means(void)
{
    double step[STEP_SCALARS] = {[STEP_UPDATE] = 1, [STEP_SEED_LOW] = 42};
    const double x = 1.25 + ULP / 5;
    struct mean elements = {0}, updates = {0}, tensors = {0};
    double together = 0; /* of the roundings of a weight and its state, each as 0 or 1 */
    for (int64_t i = 0; i < 200000; i++) {
        double y = rounding_store(step, 7, ROUND_WEIGHT, i, x), z = rounding_store(step, 7, ROUND_STATE1, i, x);
        elements.sum += y, elements.n++;
        together += y > x && z > x;
    }
    assert_unbiased(elements, x);
    double both = 1.0 / 25, n = 200000; /* where they are independent */
    assert_true(fabs(together / n - both) < 5 * sqrt(both * (1 - both) / n));
    for (int64_t i = 0; i < 20000; i++) {
        tensors.sum += rounding_store(step, i + 1, ROUND_WEIGHT, 3, x), tensors.n++;
        step[STEP_UPDATE] = (double)i;
        updates.sum += rounding_store(step, 7, ROUND_WEIGHT, 3, x), updates.n++;
        step[STEP_UPDATE] = 1;
    }
    assert_unbiased(updates, x);
    assert_unbiased(tensors, x);
}

enum { N = 1024, STEPS = 1000 };

static struct tensor vector(double *x)
{
    return (struct tensor){.data = x, .shape = {N}, .dtype = DT_F64, .ndim = 1};
}

static double mean_of(const double *x)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += x[i];
    return sum / N;
}

/* Steps of a fortieth of half a unit: to nearest, 1 would stay 1. */
static void small_steps(void)
{
    static double p[N], g[N];
    double step[STEP_SCALARS] = {[STEP_LR] = 1e-4, [STEP_SEED_LOW] = 1};
    struct args_sgd a = {.p = vector(p), .g = vector(g), .step = {.data = step}, .noise = 11};
    for (int i = 0; i < N; i++)
        p[i] = g[i] = 1;
    for (int t = 1; t <= STEPS; t++) {
        step[STEP_UPDATE] = t;
        ref_sgd(&a, &(struct call){.threads = 1});
    }
    /* each rounding is off by ULP / 2 at most, below 1 by half of that */
    assert_true(fabs(mean_of(p) - 0.9) < 5 * ULP / 4 * sqrt((double)STEPS / N));
    assert_true(bf16_to_float(bf16_from_float(1 - 1e-4f)) == 1);
}

/* A second moment without gradients: 0.999 of it is less than half a unit below it, and to nearest it would stay. */
static void decay(void)
{
    static double p[N], g[N], m[N], v[N];
    double step[STEP_SCALARS] = {[STEP_LR] = 0, [STEP_SEED_LOW] = 1};
    struct args_adamw a = {.p = vector(p), .g = vector(g), .m = vector(m), .v = vector(v), .step = {.data = step}};
    a.beta1 = 0.9, a.beta2 = 0.999, a.eps = 1e-8, a.noise = 12;
    for (int i = 0; i < N; i++)
        v[i] = 1;
    for (int t = 1; t <= STEPS; t++) {
        step[STEP_UPDATE] = t;
        ref_adamw(&a, &(struct call){.threads = 1});
    }
    assert_true(fabs(mean_of(v) - pow(0.999, STEPS)) < 5 * ULP / 4 * sqrt((double)STEPS / N));
    assert_true(bf16_to_float(bf16_from_float(0.999f)) == 1);
}

void test_rounding(void **state)
{
    (void)state;
    share_that_rounds_up();
    special_numbers();
    means();
    small_steps();
    decay();
}
