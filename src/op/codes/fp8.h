/* fp8.h: numbers of 8 bits, F8_E4M3, with a scale for each row (op/codes/fp8.c). */
#ifndef OP_FP8_H
#define OP_FP8_H

#include "base/philox.h"

#include <math.h>

/* Outputs and inputs of a layer whose products may be in FP8 are multiples of this: 16 bytes, as tensor cores read them. */
enum { FP8_SIZES = 16 };

/* 2^e for the least e, -100 at least, with largest / 2^e <= 448, the largest number of F8_E4M3. Dividing by it rounds nothing. Of a row
 * with an infinity it is NaN, so that its products show it. More of `largest` never gives less, by their bits too. */
ON_DEVICE static inline float fp8_scale(float largest)
{
    int exponent;
    if (largest <= 448 * 0x1p-100f)
        return 0x1p-100f;
    if (isinf(largest))
        return NAN;
    float fraction = frexpf(largest, &exponent); /* in [0.5, 1); 448 is 0.875 * 2^9 */
    return ldexpf(1, exponent - (fraction <= 0.875f ? 9 : 8));
}

/* Rows as such numbers, and back: codes and x are (rows,width), a scale for each row. The same for any number of threads. */
void fp8_codes(const float *x, int64_t rows, int64_t width, int threads, uint8_t *codes, float *scale);
void fp8_numbers(const uint8_t *codes, const float *scale, int64_t rows, int64_t width, float *x);

#endif
