#include "base/dtype.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    int bits;
} rows[] = {
#define DTYPE(id, name, bits, computes) {name, bits},
    DTYPES(DTYPE)
#undef DTYPE
};

const char *dtype_name(enum dtype t)
{
    return rows[t].name;
}

int dtype_bits(enum dtype t)
{
    return rows[t].bits;
}

int64_t dtype_bytes(enum dtype t, int64_t elements)
{
    return elements * rows[t].bits / 8;
}

int dtype_from_name(const char *name)
{
    for (int t = 0; t < DT_COUNT; t++)
        if (!strcmp(rows[t].name, name))
            return t;
    return -1;
}

float bf16_to_float(uint16_t bits)
{
    uint32_t u = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

uint16_t bf16_from_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    if ((u & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

float fp16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3FF, u;
    if (exponent == 31)
        u = sign | 0x7F800000 | fraction << 13;
    else if (exponent)
        u = sign | (exponent + 112) << 23 | fraction << 13;
    else {
        float tiny = (float)fraction * 0x1p-24f;
        memcpy(&u, &tiny, 4);
        u |= sign;
    }
    float x;
    memcpy(&x, &u, 4);
    return x;
}

uint16_t fp16_from_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    uint32_t sign = u >> 16 & 0x8000, magnitude = u & 0x7FFFFFFF;
    if (magnitude > 0x7F800000)
        return (uint16_t)(sign | 0x7E00);
    if (magnitude >= 0x477FF000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7C00);
    if (magnitude >= 0x38800000) /* normal */
        return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13));
    float a;
    memcpy(&a, &magnitude, 4);
    a += 0.5f; /* the subnormal grid of fp16 is the float grid just above one half */
    memcpy(&u, &a, 4);
    return (uint16_t)(sign | (u - 0x3F000000));
}

float e4m3_to_float(uint8_t bits)
{
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    float magnitude = (bits & 127) == 127 ? NAN
                      : exponent          ? ldexpf((float)(8 + fraction), exponent - 10)
                                          : ldexpf((float)fraction, -9);
    return bits & 128 ? -magnitude : magnitude;
}

uint8_t e4m3_from_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    uint32_t sign = u >> 24 & 0x80, magnitude = u & 0x7FFFFFFF;
    if (magnitude > 0x7F800000)
        return (uint8_t)(sign | 0x7F);
    if (magnitude >= 0x43E00000) /* 448 */
        return (uint8_t)(sign | 0x7E);
    if (magnitude >= 0x3C800000) /* 2^-6, the smallest normal one */
        return (uint8_t)(sign | ((magnitude - 0x3C000000 + 0x7FFFF + (magnitude >> 20 & 1)) >> 20));
    float a;
    memcpy(&a, &magnitude, 4);
    a += 0x1p14f; /* the float grid just above it is that of the subnormals, 2^-9 */
    memcpy(&u, &a, 4);
    return (uint8_t)(sign | (u - 0x46800000));
}

static double load(const void *p, enum dtype t, int64_t i)
{
    switch (t) {
    case DT_F64:
        return ((const double *)p)[i];
    case DT_F32:
        return ((const float *)p)[i];
    case DT_BF16:
        return bf16_to_float(((const uint16_t *)p)[i]);
    default:
        return fp16_to_float(((const uint16_t *)p)[i]);
    }
}

static void store(void *p, enum dtype t, int64_t i, double x)
{
    switch (t) {
    case DT_F64:
        ((double *)p)[i] = x;
        break;
    case DT_F32:
        ((float *)p)[i] = (float)x;
        break;
    case DT_BF16:
        ((uint16_t *)p)[i] = bf16_from_float((float)x);
        break;
    default:
        ((uint16_t *)p)[i] = fp16_from_float((float)x);
    }
}

void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type, int64_t n)
{
    if (to_type == from_type) {
        memcpy(to, from, (size_t)dtype_bytes(to_type, n));
        return;
    }
    if (to_type == DT_BF16 && from_type == DT_F32) { /* weights of a model: without a branch for each */
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = bf16_from_float(((const float *)from)[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        store(to, to_type, i, load(from, from_type, i));
}
