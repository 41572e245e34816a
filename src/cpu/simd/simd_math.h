/* simd_math.h: exponentials, logarithm, tanh and the normal distribution on vectors (simd.h). The polynomials are minimax
 * fits made for these ranges; errors are over all floats of the stated range, against libm in double (tests/op/simd.c; all
 * floats were looked at with AVX2 and with AVX-512). NaN and Inf go through. */
#ifndef CPU_SIMD_SIMD_MATH_H
#define CPU_SIMD_SIMD_MATH_H

#include "cpu/simd/simd.h"

/* p * 2^n for whole n in [-150, 150] given as floats. */
SIMD vf vf_scale2(vf p, vf n)
{
#if defined __AVX512F__
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
    return p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
#endif
}

/* e^(x + y) for |y| <= 0.02: what an argument's rounding lost can be handed in as y. */
SIMD vf vf_exp2parts(vf x, vf y)
{
    x = vf_min(vf_set1(89), vf_max(vf_set1(-104), x)); /* in this order NaN stays */
    const float round = 0x1.8p23f;
    vf n = vf_fma(x, vf_set1(0x1.715476p0f), vf_set1(round)) - round;
    vf r = vf_fma(n, vf_set1(0x1.bd0106p-13f), vf_fma(n, vf_set1(-0x1.63p-1f), x)); /* x - n ln 2, ln 2 in two parts */
    r = r + y;
    vf p = vf_set1(0x1.6a1a72p-10f);
    p = vf_fma(p, r, vf_set1(0x1.123fc6p-7f));
    p = vf_fma(p, r, vf_set1(0x1.555916p-5f));
    p = vf_fma(p, r, vf_set1(0x1.55548ap-3f));
    p = vf_fma(p, r, vf_set1(0x1.fffffcp-2f));
    p = vf_fma(p, r * r, r) + 1;
    return vf_scale2(p, n);
}

/* e^x, |relative error| < 1e-7 (gradual underflow below -87.3, 0 below -103.97, Inf above 88.72). */
SIMD vf vf_exp(vf x)
{
    return vf_exp2parts(x, (vf){0});
}

/* 2^x, |relative error| < 2e-7 (gradual underflow below -126, 0 below -150, Inf above 128): cheaper than e^x, where a
 * factor log2(e) can be part of what makes x. */
SIMD vf vf_exp2(vf x)
{
    /* 2^x = 2^floor(x) 2^r, 0 <= r <= 1 */
#if defined __AVX512F__
    vf r = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC),
       n = x; /* scalef takes floor(n) */
#else
    const float round = 0x1.8p23f;
    x = vf_min(vf_set1(129), vf_max(vf_set1(-150), x)); /* in this order NaN stays */
    vf n = x - 0.5f + round - round, r = x - n;
#endif
    vf p = vf_set1(0x1.ec320ap-10f);
    p = vf_fma(p, r, vf_set1(0x1.26900ep-7f));
    p = vf_fma(p, r, vf_set1(0x1.c95446p-5f));
    p = vf_fma(p, r, vf_set1(0x1.ebd5a8p-3f));
    p = vf_fma(p, r, vf_set1(0x1.62e4f6p-1f));
    p = vf_fma(p, r, vf_set1(0x1.fffffep-1f));
    return vf_scale2(p, n);
}

/* Natural logarithm of positive normal x, |relative error| < 1.5e-7; -Inf at 0 (and below 2^-126), NaN below 0. */
SIMD vf vf_log(vf x)
{
    /* x = 2^e (1 + f) with 1 + f in [sqrt 1/2, sqrt 2) */
    vi bits = (vi)x - 0x3F3504F3, e = bits >> 23;
    vf f = (vf)((bits & 0x7FFFFF) + 0x3F3504F3) - 1, n = __builtin_convertvector(e, vf);
    vf p = vf_set1(-0x1.38b576p-4f);
    p = vf_fma(p, f, vf_set1(0x1.055b68p-3f));
    p = vf_fma(p, f, vf_set1(-0x1.0d8542p-3f));
    p = vf_fma(p, f, vf_set1(0x1.22da1ep-3f));
    p = vf_fma(p, f, vf_set1(-0x1.547244p-3f));
    p = vf_fma(p, f, vf_set1(0x1.99a008p-3f));
    p = vf_fma(p, f, vf_set1(-0x1.000226p-2f));
    p = vf_fma(p, f, vf_set1(0x1.555544p-2f));
    vf ff = f * f;
    p = vf_fma(n, vf_set1(-0x1.bd0106p-13f), vf_fma(p, f * ff, ff * -0.5f)) + f;
    vf y = vf_fma(n, vf_set1(0x1.63p-1f), p);
    y = vf_select(x < 0x1p-126f, vf_set1(-INFINITY), y);
    y = vf_select(x < 0, vf_set1(NAN), y);
    return vf_select(x < INFINITY, y, x); /* Inf and NaN as they came */
}

/* |relative error| < 1.5e-7. */
SIMD vf vf_tanh(vf x)
{
    vf a = vf_abs(x), z = x * x;
    vf p = vf_set1(-0x1.75e1a8p-8f);
    p = vf_fma(p, z, vf_set1(0x1.522692p-6f));
    p = vf_fma(p, z, vf_set1(-0x1.b83c58p-5f));
    p = vf_fma(p, z, vf_set1(0x1.110726p-3f));
    p = vf_fma(p, z, vf_set1(-0x1.555532p-2f));
    vf small = vf_fma(p * z, x, x), large = 1 - 2 / (vf_exp(a + a) + 1);
    return vf_select(a < 0.625f, small, vf_copysign(large, x));
}

/* 1 / (1 + e^-x), |relative error| < 1.5e-7 above -87. */
SIMD vf vf_sigmoid(vf x)
{
    return 1 / (1 + vf_exp(-x));
}

/* The normal distribution's cdf Phi(x) = (1 + erf(x / sqrt 2)) / 2, and its density in *pdf. |relative error| < 5e-7
 * where x > -9 (both tails keep their digits; 1 + erf would lose them), 0 below -14.5. */
SIMD vf vf_normal(vf x, vf *pdf)
{
    /* Phi(-a) = e^(-a^2/2) R(a), R a polynomial in t = 1 / (1 + 0.3 a). a^2 in two parts: the square of its upper 12
     * bits, which is exact, and the rest. */
    vf a = vf_min(vf_set1(14.5f), vf_abs(x)), upper = (vf)((vi)a & ~0xFFF);
    vf e = vf_exp2parts(upper * upper * -0.5f, (a - upper) * (a + upper) * -0.5f);
    vf t = 1 / vf_fma(a, vf_set1(0.3f), vf_set1(1));
    vf p = vf_set1(0.038407404f);
    p = vf_fma(p, t, vf_set1(-0.169307515f));
    p = vf_fma(p, t, vf_set1(0.228951886f));
    p = vf_fma(p, t, vf_set1(-0.0768397674f));
    p = vf_fma(p, t, vf_set1(0.142765343f));
    p = vf_fma(p, t, vf_set1(0.0945858359f));
    p = vf_fma(p, t, vf_set1(0.121945269f));
    p = vf_fma(p, t, vf_set1(0.119484209f));
    p = vf_fma(p, t, vf_set1(7.37242954e-06f));
    *pdf = e * 0.398942280f;
    vf tail = e * p;
    return vf_select(x < 0, tail, 1 - tail);
}

#endif
