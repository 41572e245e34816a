/* bfmmla.h: the matrix instruction of arm64 processors with bf16 (FEAT_BF16; Arm ARM, DDI 0487, BFMMLA). It adds to 2 x 2
 * floats the product of 2 rows and 2 columns of 4 bf16 each, twice the work of BFDOT, which multiplies pairs.
 *
 * Numerics: an element is what it was plus (the product at k plus that at k + 1), then the same with k + 2 and k + 3. Each
 * sum is rounded to odd, and denormals count as 0. So the bits of an element depend on its row and its column alone. */
#ifndef CPU_SIMD_BFMMLA_H
#define CPU_SIMD_BFMMLA_H

#include "cpu/simd/simd.h"

#if defined __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
enum { BFMMLA = 1 };
#else
enum { BFMMLA = 0 };
#endif

enum { QUAD = 2 }; /* 32-bit words along k that it takes */

/* sum += a times b: rows (2, QUAD words), columns (2, QUAD words), sum (2,2). */
SIMD vf vf_bfmmla(vf sum, vu a, vu b)
{
#if defined __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    return (vf)vbfmmlaq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
#else
    (void)a, (void)b;
    return sum;
#endif
}

/* Two rows of 4 floats as two blocks of 2 x 2, and back. */
SIMD void swap_blocks(vf *x, vf *y)
{
#if defined __ARM_NEON
    vf low = (vf)vzip1q_f64((float64x2_t)*x, (float64x2_t)*y), high = (vf)vzip2q_f64((float64x2_t)*x, (float64x2_t)*y);
    *x = low;
    *y = high;
#else
    (void)x, (void)y;
#endif
}

#endif
