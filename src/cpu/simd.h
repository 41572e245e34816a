/* simd.h: vectors for the CPU kernels. Kernel sources are compiled once per instruction set (src/cpu/meson.build), so a
 * kernel is written once, in C with the vector extensions of gcc and clang, and only this file and the matrix tiles
 * know intrinsics.
 *
 *     vf, vi, vu    VF_LANES floats, signed, unsigned 32-bit integers: one register
 *                   (16 lanes with AVX-512, 8 with AVX2, else 4)
 *     vh            VF_LANES 16-bit integers: bf16 bit patterns in memory order
 *
 * + - * / & | ^ << and comparisons are the compiler's own (a comparison gives -1 or 0 in each lane of a vi). Numbers
 * depend neither on alignment nor on threads; across instruction sets they may differ in the last bits. NaN and Inf go
 * through every function unless it says otherwise. */
#ifndef CPU_SIMD_H
#define CPU_SIMD_H

#include "base/dtype.h"
#include "base/philox.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined __SSE2__
#include <immintrin.h>
#endif

/* ISA(name): the external name of a kernel in this compilation, as in cpu_norm_avx512. */
#define ISA_PASTE(a, b) a##_##b
#define ISA_EXPAND(a, b) ISA_PASTE(a, b)
#define ISA(name) ISA_EXPAND(name, SNUG_ISA)

#if defined __AVX512F__
enum { VF_LANES = 16 };
#elif defined __AVX2__
enum { VF_LANES = 8 };
#else
enum { VF_LANES = 4 };
#endif

typedef float vf __attribute__((vector_size(4 * VF_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * VF_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * VF_LANES)));
typedef uint16_t vh __attribute__((vector_size(2 * VF_LANES)));
typedef double vd __attribute__((vector_size(4 * VF_LANES)));

#define SIMD static inline __attribute__((always_inline, unused))

/* For loops over registers, which only stay registers when these are unrolled. */
#if defined __SANITIZE_ADDRESS__
#define UNROLL /* with the checks the code would take minutes to compile */
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- making, choosing ---- */

SIMD vf vf_set1(float x)
{
    return x - (vf){0};
}

SIMD vi vi_set1(int32_t x)
{
    return x - (vi){0};
}

SIMD vu vu_set1(uint32_t x)
{
    return x - (vu){0};
}

/* 0 1 2 … */
SIMD vi vi_iota(void)
{
    vi v;
    for (int i = 0; i < VF_LANES; i++)
        v[i] = i;
    return v;
}

/* Where the mask is -1 a, where it is 0 b. */
SIMD vf vf_select(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* The lanes of v where the mask is -1, 0 elsewhere. */
SIMD vf vf_where(vi mask, vf v)
{
    return (vf)(mask & (vi)v);
}

/* Lane by lane a > b ? a : b, so b when either is NaN. */
SIMD vf vf_max(vf a, vf b)
{
#if defined __AVX512F__
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined __AVX2__
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vf_select(a > b, a, b);
#endif
}

/* Lane by lane a < b ? a : b, so b when either is NaN. */
SIMD vf vf_min(vf a, vf b)
{
#if defined __AVX512F__
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined __AVX2__
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vf_select(a < b, a, b);
#endif
}

SIMD vf vf_abs(vf x)
{
    return (vf)((vi)x & 0x7FFFFFFF);
}

/* Lane by lane table[i]. */
SIMD vf vf_gather(const float *table, vi i)
{
#if defined __AVX512F__
    return (vf)_mm512_i32gather_ps((__m512i)i, table, 4);
#elif defined __AVX2__
    return (vf)_mm256_i32gather_ps(table, (__m256i)i, 4);
#else
    vf v;
    for (int k = 0; k < VF_LANES; k++)
        v[k] = table[i[k]];
    return v;
#endif
}

/* The same for tables of 8 and of 16 numbers, which a register can hold (16: only with AVX-512). */
SIMD vf vf_lookup8(const float *table, vi i)
{
#if defined __AVX512F__
    return (vf)_mm512_permutexvar_ps((__m512i)i, _mm512_castps256_ps512(_mm256_loadu_ps(table)));
#elif defined __AVX2__
    return (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)i);
#else
    return vf_gather(table, i);
#endif
}

SIMD vf vf_lookup16(const float *table, vi i)
{
#if defined __AVX512F__
    return (vf)_mm512_permutexvar_ps((__m512i)i, _mm512_loadu_ps(table));
#else
    return vf_gather(table, i);
#endif
}

/* The same for 32 numbers, in two registers of AVX-512; of i only the lowest five bits count. */
SIMD vf vf_lookup32(const float *table, vi i)
{
#if defined __AVX512F__
    return (vf)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)i, _mm512_loadu_ps(table + 16));
#else
    return vf_gather(table, i & 31);
#endif
}

/* |x| with the sign of y. */
SIMD vf vf_copysign(vf x, vf y)
{
    return (vf)(((vi)x & 0x7FFFFFFF) | ((vu)y & 0x80000000u));
}

/* ---- memory: unaligned; the _n forms touch only the first n < VF_LANES lanes, and read 0 into the others ---- */

SIMD vf vf_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

SIMD void vf_store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

SIMD vf vf_load_n(const float *p, int n)
{
#if defined __AVX512F__
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif defined __AVX2__
    return (vf)_mm256_maskload_ps(p, (__m256i)(vi_iota() < n));
#else
    vf v = {0};
    memcpy(&v, p, 4 * (size_t)n);
    return v;
#endif
}

SIMD void vf_store_n(float *p, vf v, int n)
{
#if defined __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined __AVX2__
    _mm256_maskstore_ps(p, (__m256i)(vi_iota() < n), (__m256)v);
#else
    memcpy(p, &v, 4 * (size_t)n);
#endif
}

SIMD vu vu_load(const uint32_t *p)
{
    vu v;
    memcpy(&v, p, sizeof v);
    return v;
}

SIMD void vu_store(uint32_t *p, vu v)
{
    memcpy(p, &v, sizeof v);
}

SIMD vh vh_load(const uint16_t *p)
{
    vh v;
    memcpy(&v, p, sizeof v);
    return v;
}

SIMD void vh_store(uint16_t *p, vh v)
{
    memcpy(p, &v, sizeof v);
}

SIMD vh vh_load_n(const uint16_t *p, int n)
{
#if defined __AVX512F__
    return (vh)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p);
#else
    vh v = {0};
    memcpy(&v, p, 2 * (size_t)n);
    return v;
#endif
}

SIMD void vh_store_n(uint16_t *p, vh v, int n)
{
#if defined __AVX512F__
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)v);
#else
    memcpy(p, &v, 2 * (size_t)n);
#endif
}

/* ---- bf16 ---- */

/* Widened with zeros. */
SIMD vu vu_from_vh(vh x)
{
#if defined __AVX512F__ /* gcc 12 makes six instructions of the conversion below */
    return (vu)_mm512_cvtepu16_epi32((__m256i)x);
#elif defined __AVX2__
    return (vu)_mm256_cvtepu16_epi32((__m128i)x);
#else
    return __builtin_convertvector(x, vu);
#endif
}

SIMD vf vf_from_bf16(vh bits)
{
    return (vf)(vu_from_vh(bits) << 16);
}

/* The nearest bf16 as a float bit pattern whose low half is to be ignored; ties to even, NaN stays NaN. */
SIMD vu vu_round_bf16(vf x)
{
    vu u = (vu)x, rounded = u + 0x7FFF + (u >> 16 & 1);
    vu nan = (vu)(x != x);
    return (nan & (u | 0x400000)) | (~nan & rounded);
}

/* To nearest, ties to even, as bf16_from_float. The processor's own instruction (AVX512_BF16) makes 0 of |x| < 2^-126.
 */
SIMD vh vh_from_vf(vf x)
{
#if defined __AVX512BF16__
    return (vh)_mm512_cvtneps_pbh((__m512)x);
#else
    return __builtin_convertvector(vu_round_bf16(x) >> 16, vh);
#endif
}

/* Element i on of a tensor that is BF16 or else F32: one kernel body serves both when `bf16` is a constant after
 * inlining. */
SIMD vf vf_get(const void *base, int64_t i, bool bf16)
{
    return bf16 ? vf_from_bf16(vh_load((const uint16_t *)base + i)) : vf_load((const float *)base + i);
}

SIMD vf vf_get_n(const void *base, int64_t i, int n, bool bf16)
{
    return bf16 ? vf_from_bf16(vh_load_n((const uint16_t *)base + i, n)) : vf_load_n((const float *)base + i, n);
}

SIMD void vf_put(void *base, int64_t i, vf v, bool bf16)
{
    if (bf16)
        vh_store((uint16_t *)base + i, vh_from_vf(v));
    else
        vf_store((float *)base + i, v);
}

SIMD void vf_put_n(void *base, int64_t i, vf v, int n, bool bf16)
{
    if (bf16)
        vh_store_n((uint16_t *)base + i, vh_from_vf(v), n);
    else
        vf_store_n((float *)base + i, v, n);
}

/* The tail: n may also be VF_LANES or more (then a whole vector). */
SIMD vf vf_get_upto(const void *base, int64_t i, int64_t n, bool bf16)
{
    return n >= VF_LANES ? vf_get(base, i, bf16) : vf_get_n(base, i, (int)n, bf16);
}

SIMD void vf_put_upto(void *base, int64_t i, vf v, int64_t n, bool bf16)
{
    if (n >= VF_LANES)
        vf_put(base, i, v, bf16);
    else
        vf_put_n(base, i, v, (int)n, bf16);
}

/* ---- arithmetic ---- */

/* a*b + c, rounded once where the processor can (FMA), twice where it cannot. */
SIMD vf vf_fma(vf a, vf b, vf c)
{
#if defined __AVX512F__
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined __FMA__
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined __FP_FAST_FMAF && !defined __SSE2__
    for (int i = 0; i < VF_LANES; i++)
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}

SIMD vf vf_sqrt(vf x)
{
#if defined __AVX512F__
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined __AVX2__
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined __SSE2__
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < VF_LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

/* The first and the second half of the lanes in double. */
SIMD vd vd_low(vf x)
{
    typedef float half __attribute__((vector_size(2 * VF_LANES)));
    half h;
    memcpy(&h, &x, sizeof h);
    return __builtin_convertvector(h, vd);
}

SIMD vd vd_high(vf x)
{
    typedef float half __attribute__((vector_size(2 * VF_LANES)));
    half h;
    memcpy(&h, (const char *)&x + sizeof h, sizeof h);
    return __builtin_convertvector(h, vd);
}

/* The halves of a vector folded on each other until one lane is left: lane i is paired with lane i + VF_LANES/2 first.
 */
#define VF_FOLD(v, op)                                                                                                 \
    do {                                                                                                               \
        float lane_[VF_LANES];                                                                                         \
        vf_store(lane_, v);                                                                                            \
        for (int half_ = VF_LANES / 2; half_; half_ /= 2)                                                              \
            for (int i_ = 0; i_ < half_; i_++)                                                                         \
                lane_[i_] = op(lane_[i_], lane_[i_ + half_]);                                                          \
        return lane_[0];                                                                                               \
    } while (0)

SIMD float vf_hsum(vf v)
{
#if defined __AVX512F__
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#elif defined __AVX2__
    __m256 h = (__m256)v;
#endif
#if defined __AVX2__
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
#else
#define ADD_(a, b) ((a) + (b))
    VF_FOLD(v, ADD_);
#undef ADD_
#endif
}

/* The largest lane; unspecified when one is NaN. */
SIMD float vf_hmax(vf v)
{
#if defined __AVX512F__
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#elif defined __AVX2__
    __m256 h = (__m256)v;
#endif
#if defined __AVX2__
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
#else
#define MAX_(a, b) ((a) > (b) ? (a) : (b))
    VF_FOLD(v, MAX_);
#undef MAX_
#endif
}

/* Whether products of bf16 are computed by the processor's dot product of pairs; else bf16 is widened and multiplied as
 * F32, which is as fast where there is no such instruction, and faster where it runs at half the rate. */
#if defined __AVX512BF16__
enum { BF16_PAIRS = 1 };
#else
enum { BF16_PAIRS = 0 };
#endif

/* ---- products of bf16 pairs: a 32-bit lane holds element 2k in its low half and 2k+1 in its high half ---- */

/* Two bf16 rows interleaved: (even[i], odd[i]) in lane i. */
SIMD vu vu_pair(vh even, vh odd)
{
    return vu_from_vh(even) | vu_from_vh(odd) << 16;
}

/* The same from floats, rounded to bf16. */
SIMD vu vu_pair_round(vf even, vf odd)
{
    return vu_pair(vh_from_vf(even), vh_from_vf(odd));
}

/* acc + a.odd * b.odd + a.even * b.even in fp32. The native instruction makes 0 of denormals and does not fuse; the
 * order of the two additions is the same everywhere. */
SIMD vf vf_dot_pairs(vf acc, vu a, vu b)
{
#if defined __AVX512BF16__
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
#else
    acc = vf_fma((vf)(a & 0xFFFF0000u), (vf)(b & 0xFFFF0000u), acc);
    return vf_fma((vf)(a << 16), (vf)(b << 16), acc);
#endif
}

/* ---- functions. The polynomials are minimax fits made for these ranges; errors are over all floats of the stated
 * range ---- */

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

/* ---- Philox4x32-10, VF_LANES calls at once (base/philox.h) ---- */

struct vphilox {
    vu w[4];
};

/* The high and low halves of a * m. */
SIMD vu vu_mul_wide(vu a, uint32_t m, vu *low)
{
#if defined __AVX512F__
    __m512i by = _mm512_set1_epi32((int)m), even = _mm512_mul_epu32((__m512i)a, by);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), by);
    *low = (vu)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    return (vu)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
#elif defined __AVX2__
    __m256i by = _mm256_set1_epi32((int)m), even = _mm256_mul_epu32((__m256i)a, by);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), by);
    *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    return (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
#else
    vu high;
    for (int i = 0; i < VF_LANES; i++)
        high[i] = (uint32_t)((uint64_t)a[i] * m >> 32);
    *low = a * m;
    return high;
#endif
}

SIMD struct vphilox vphilox4x32(struct vphilox c, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        vu a_low, b_low, a_high = vu_mul_wide(c.w[0], 0xD2511F53u, &a_low),
                         b_high = vu_mul_wide(c.w[2], 0xCD9E8D57u, &b_low);
        c = (struct vphilox){{b_high ^ c.w[1] ^ key0, b_low, a_high ^ c.w[3] ^ key1, a_low}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

/* Lane i of a and of b one after another, from the low halves (or the high halves). */
#if defined __AVX512F__
#define VU_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define VU_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif defined __AVX2__
#define VU_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VU_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define VU_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VU_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* out (VF_LANES, 4): the words call by call, as VF_LANES scalar calls would leave them. */
SIMD void vphilox_store(uint32_t *out, struct vphilox c)
{
    vu even_low = VU_ZIP_LOW(c.w[0], c.w[2]), even_high = VU_ZIP_HIGH(c.w[0], c.w[2]);
    vu odd_low = VU_ZIP_LOW(c.w[1], c.w[3]), odd_high = VU_ZIP_HIGH(c.w[1], c.w[3]);
    vu all[4] = {VU_ZIP_LOW(even_low, odd_low), VU_ZIP_HIGH(even_low, odd_low), VU_ZIP_LOW(even_high, odd_high),
                 VU_ZIP_HIGH(even_high, odd_high)};
    memcpy(out, all, sizeof all);
}

#endif
