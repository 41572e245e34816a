#include "op/optimizer/rounding.h"

#include <string.h>

double rounding_store(const double *step, int64_t noise, enum rounding_part part, int64_t i, double x)
{
    if (!noise)
        return x;
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    struct philox block = rounding_bits(rounding_of(step, noise, 0), part, i);
    return (double)bf16_to_float(rounding_to_bf16(bits, rounding_number(block, i)));
}
