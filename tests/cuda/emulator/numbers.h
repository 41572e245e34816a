/* numbers.h: floats and the bits that hold them. */
#ifndef EMULATOR_NUMBERS_H
#define EMULATOR_NUMBERS_H

#include "base/dtype.h"

#include <stdint.h>
#include <string.h>

static inline float f32_of(uint64_t bits)
{
    uint32_t b = (uint32_t)bits;
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

static inline uint32_t bits_f32(float v)
{
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static inline double f64_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint64_t bits_f64(double v)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

/* To 16 bits as PTX's cvt.rn, which has one NaN. */
static inline uint16_t bits_f16(float x)
{
    return x != x ? 0x7fff : fp16_from_float(x);
}

static inline uint16_t bits_bf16(float x)
{
    return x != x ? 0x7fff : bf16_from_float(x);
}

/* As cvt.rn.satfinite, likewise. */
static inline uint8_t bits_e4m3(float x)
{
    return x != x ? 0x7f : e4m3_from_float(x);
}

/* TF32, to nearest, away from zero in the middle. */
static inline uint32_t bits_tf32(uint32_t f32)
{
    return (f32 & 0x7f800000) == 0x7f800000 ? f32 : (f32 + 0x1000) & 0xffffe000;
}

#endif
