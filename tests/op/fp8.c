/* Numbers of 8 bits: F8_E4M3 by its definition (OCP 8-bit Floating Point Specification, revision 1.0), and the scales of rows. */
#include "op/codes/fp8.h"

#include "base/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Of the 7 bits without a sign: four of exponent with a bias of 7, three of fraction; the last is NaN. */
static double defined(int bits)
{
    int exponent = bits >> 3, fraction = bits & 7;
    return exponent ? pow(2, exponent - 7) * (1 + fraction / 8.0) : pow(2, -6) * fraction / 8;
}

static void codes_stand_for_what_is_defined(void **state)
{
    (void)state;
    for (int i = 0; i < 127; i++) {
        assert_true((double)e4m3_to_float((uint8_t)i) == defined(i));
        assert_true((double)e4m3_to_float((uint8_t)(i | 0x80)) == -defined(i));
    }
    assert_true(isnan(e4m3_to_float(0x7F)) && isnan(e4m3_to_float(0xFF)));
}

/* The nearest of all, of two the even one. */
static int nearest(double x)
{
    int best = 0;
    for (int i = 1; i < 127; i++) {
        double here = fabs(x - defined(i)), there = fabs(x - defined(best));
        best = here < there || (here == there && i % 2 == 0) ? i : best;
    }
    return best;
}

static void numbers_become_the_nearest_code(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7F80; i++) { /* all numbers of bf16, and their neighbours among floats */
        float x = bf16_to_float((uint16_t)i);
        for (int k = 0; k < 3; k++) {
            float y = k == 1 ? nextafterf(x, 0) : k == 2 ? nextafterf(x, INFINITY) : x;
            assert_int_equal(e4m3_from_float(y), nearest((double)y));
            assert_int_equal(e4m3_from_float(-y), nearest((double)y) | 0x80);
        }
    }
    assert_int_equal(e4m3_from_float(INFINITY), 0x7E);
    assert_int_equal(e4m3_from_float(NAN) & 0x7F, 0x7F);
}

static void scales_are_the_least_that_fit(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7F80; i++) {
        float largest = bf16_to_float((uint16_t)i), scale = fp8_scale(largest),
              next = fp8_scale(bf16_to_float((uint16_t)(i + 1)));
        int exponent;
        assert_true(frexpf(scale, &exponent) == 0.5f);
        assert_true(largest / scale <= 448);
        assert_true(scale == 0x1p-100f || largest / (scale / 2) > 448);
        assert_true(scale <= next || isnan(next));
    }
    assert_true(isnan(fp8_scale(INFINITY)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_stand_for_what_is_defined),
        cmocka_unit_test(numbers_become_the_nearest_code),
        cmocka_unit_test(scales_are_the_least_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
