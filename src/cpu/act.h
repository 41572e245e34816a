/* act.h: the activation functions of op/act.c on vectors.
 *
 * Errors over all floats against op/act.c in double: of a value y at most 1e-6 (|y| + 0.001) above -50, of a slope s at most
 * 1e-6 (|s| + 0.1). GELU of either form from tables: 1e-7 (|y| + 1) and 3e-7 (|s| + 1), and of small y 2e-7 |y|.
 * docs/determinism.md has what was found. */
#ifndef CPU_ACT_H
#define CPU_ACT_H

#include "cpu/simd/gelu_tables.h"
#include "cpu/simd/simd_lookup.h"
#include "cpu/simd/simd_math.h"
#include "graph/op.h"

/* 2 sqrt(2/pi) (x + 0.044715 x^3): gelu_tanh(x) = x sigmoid of this, since (1 + tanh z) / 2 = sigmoid(2 z). */
SIMD vf gelu_tanh_argument(vf x)
{
    const float a = 1.59576912f, b = 1.59576912f * 0.044715f;
    return x * vf_fma(x * x, vf_set1(b), vf_set1(a));
}

/* gelu of either form (gelu_tables.py) and its slope from a table's pieces: half the work of an exponential and a
 * division, where the table lies in registers. The |error| is < 1e-7 of gelu and < 3e-7 of the slope for |x| < 6;
 * beyond, gelu is 0 or x, and the slope 0 or 1. */
SIMD vf gelu_of_tables(const float table[][GELU_PIECES], vf x, vf *slope)
{
    const float round = 0x1p23f; /* what is added to it becomes whole, in the lowest bits */
    vf u = vf_min(vf_set1((GELU_PIECES - 1) * GELU_WIDTH), vf_abs(x)),
       t = vf_fma(u, vf_set1(1 / GELU_WIDTH), vf_set1(round));
    vf r = vf_fma(t - round, vf_set1(-GELU_WIDTH), u);
    vf derivative = vf_lookup32(table[GELU_DEGREE], (vi)t);
    vf d = vf_fma(derivative, r, vf_lookup32(table[GELU_DEGREE - 1], (vi)t));
    UNROLL for (int j = GELU_DEGREE - 2; j >= 0; j--)
    {
        derivative = vf_fma(derivative, r, d);
        d = vf_fma(d, r, vf_lookup32(table[j], (vi)t));
    }
    *slope = vf_select(x > 0, 1 - derivative, derivative);
    return vf_max(vf_set1(0), x) - d;
}

#if defined __AVX512F__
enum { GELU_BY_TABLES = 1 };
#else
enum { GELU_BY_TABLES = 0 };
#endif

SIMD vf vf_act(enum act act, vf x)
{
    vf pdf;
    if (GELU_BY_TABLES && act == ACT_gelu)
        return gelu_of_tables(gelu_table, x, &pdf);
    if (GELU_BY_TABLES && act == ACT_gelu_tanh)
        return gelu_of_tables(gelu_tanh_table, x, &pdf);
    switch (act) {
    case ACT_gelu:
        return x * vf_normal(x, &pdf);
    case ACT_gelu_tanh:
        return x * vf_sigmoid(gelu_tanh_argument(x));
    case ACT_relu:
        return vf_max(vf_set1(0), x);
    case ACT_relu2:
        x = vf_max(vf_set1(0), x);
        return x * x;
    case ACT_tanh:
        return vf_tanh(x);
    case ACT_silu:
        return x * vf_sigmoid(x);
    default:
        return x;
    }
}

/* s(z) = sigmoid(z), and s'(z) = e s^2 with e = exp(-z): no 1 - s, which would lose digits. */
SIMD vf sigmoid_and_slope(vf z, vf *slope)
{
    vf e = vf_exp(-z), s = 1 / (1 + e);
    *slope = e * s * s;
    return s;
}

SIMD vf vf_act_slope(enum act act, vf x)
{
    vf p, s, e;
    if (GELU_BY_TABLES && (act == ACT_gelu || act == ACT_gelu_tanh)) {
        gelu_of_tables(act == ACT_gelu ? gelu_table : gelu_tanh_table, x, &s);
        return s;
    }
    switch (act) {
    case ACT_gelu:
        p = vf_normal(x, &e);
        return vf_fma(x, e, p);
    case ACT_gelu_tanh: /* beyond 8 the slope is 0 or 1 */
        x = vf_min(vf_set1(8), vf_max(vf_set1(-8), x));
        s = sigmoid_and_slope(gelu_tanh_argument(x), &e);
        return vf_fma(x * e, vf_fma(x * x, vf_set1(1.59576912f * 3 * 0.044715f), vf_set1(1.59576912f)), s);
    case ACT_relu:
        return vf_where(x > 0, vf_set1(1));
    case ACT_relu2:
        return 2 * vf_max(vf_set1(0), x);
    case ACT_tanh: /* 1 - tanh^2 = 4 e / (1 + e)^2 with e = exp(-2 |x|) */
        e = vf_exp(-2 * vf_abs(x));
        return 4 * e / ((1 + e) * (1 + e));
    case ACT_silu:
        x = vf_min(vf_set1(80), vf_max(vf_set1(-80), x));
        s = sigmoid_and_slope(x, &e);
        return vf_fma(x, e, s);
    default:
        return vf_set1(1);
    }
}

/* Both at once: the compiler does not see what two calls have in common. */
SIMD vf vf_act_and_slope(enum act act, vf x, vf *slope)
{
    if (GELU_BY_TABLES && act == ACT_gelu)
        return gelu_of_tables(gelu_table, x, slope);
    if (GELU_BY_TABLES && act == ACT_gelu_tanh)
        return gelu_of_tables(gelu_tanh_table, x, slope);
    *slope = vf_act_slope(act, x);
    return vf_act(act, x);
}

#endif
