/* simd.h: vectors for the CPU kernels. Kernel sources are compiled once per instruction set (src/cpu/meson.build), so a
 * kernel is written once, in C with the vector extensions of gcc and clang, and only these headers and
 * the matrix tiles know intrinsics. simd_math.h has functions, simd_philox.h random numbers.
 *
 *     vf, vi, vu    VF_LANES floats, signed, unsigned 32-bit integers: one register
 *                   (16 lanes with AVX-512, 8 with AVX2, 4 with NEON and elsewhere)
 *     vh            VF_LANES 16-bit integers: bf16 bit patterns in memory order
 *
 * + - * / & | ^ << and comparisons are the compiler's own (a comparison gives -1 or 0 in each lane of a vi). Numbers
 * depend neither on alignment nor on threads; across instruction sets they may differ in the last bits. NaN and Inf go
 * through every function unless it says otherwise. */
#ifndef CPU_SIMD_SIMD_H
#define CPU_SIMD_SIMD_H

#include "base/dtype.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined __SSE2__
#include <immintrin.h>
#elif defined __ARM_NEON
#include <arm_neon.h>
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
#if defined __ARM_NEON
    return (vf)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
#else
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
#endif
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

/* |x| with the sign of y. */
SIMD vf vf_copysign(vf x, vf y)
{
    return (vf)(((vi)x & 0x7FFFFFFF) | ((vu)y & 0x80000000u));
}

/* Lane i of a and of b one after another, from the low halves (or the high halves); lanes 2i and 2i + 1 of a the other way round. */
#if defined __AVX512F__
#define VU_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define VU_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define VF_SWAP_PAIRS(a) __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif defined __AVX2__
#define VU_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VU_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define VF_SWAP_PAIRS(a) __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define VU_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VU_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define VF_SWAP_PAIRS(a) __builtin_shufflevector(a, a, 1, 0, 3, 2)
#endif

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

/* To nearest, ties to even, as bf16_from_float. AVX512_BF16's instruction makes 0 of |x| < 2^-126, arm64's
 * does not. */
SIMD vh vh_from_vf(vf x)
{
#if defined __AVX512BF16__
    return (vh)_mm512_cvtneps_pbh((__m512)x);
#elif defined __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    return (vh)vcvt_bf16_f32((float32x4_t)x);
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

/* Two vectors one after the other. bf16 with AVX-512 is one store, of a whole line of the cache where `i` is a multiple of 32. */
SIMD void vf_put_two(void *base, int64_t i, vf a, vf b, bool bf16)
{
#if defined __AVX512BF16__
    if (bf16) {
        _mm512_storeu_si512((uint16_t *)base + i, (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
        return;
    }
#endif
    vf_put(base, i, a, bf16);
    vf_put(base, i + VF_LANES, b, bf16);
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
#elif defined __ARM_NEON
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
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
#elif defined __ARM_NEON
    return (vf)vsqrtq_f32((float32x4_t)x);
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
#elif defined __ARM_NEON
    return vaddvq_f32((float32x4_t)v);
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
#elif defined __ARM_NEON
    return vmaxvq_f32((float32x4_t)v);
#else
#define MAX_(a, b) ((a) > (b) ? (a) : (b))
    VF_FOLD(v, MAX_);
#undef MAX_
#endif
}

/* Whether products of bf16 are computed by the processor's dot product of pairs; else bf16 is widened and multiplied as
 * F32, which is as fast where there is no such instruction, and faster where it runs at half the rate. */
#if defined __AVX512BF16__ || defined __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
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

/* acc + a.odd * b.odd + a.even * b.even in fp32. The processors' own instructions make 0 of denormals and do not fuse.
 * x86-64's adds in this order; arm64's adds the sum of the two products, and rounds each sum to odd. */
SIMD vf vf_dot_pairs(vf acc, vu a, vu b)
{
#if defined __AVX512BF16__
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
#elif defined __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    return (vf)vbfdotq_f32((float32x4_t)acc, (bfloat16x8_t)a, (bfloat16x8_t)b);
#else
    acc = vf_fma((vf)(a & 0xFFFF0000u), (vf)(b & 0xFFFF0000u), acc);
    return vf_fma((vf)(a << 16), (vf)(b << 16), acc);
#endif
}

#endif
