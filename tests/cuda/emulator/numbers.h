/* numbers.h: floats and the bits that hold them. */
#ifndef EMULATOR_NUMBERS_H
#define EMULATOR_NUMBERS_H

#include <stdint.h>
#include <string.h>

__extension__ typedef _Float16 half;

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

static inline float f16_of(uint64_t bits)
{
    uint16_t b = (uint16_t)bits;
    half v;
    memcpy(&v, &b, sizeof v);
    return (float)v;
}

static inline uint16_t bits_f16(double x)
{
    half v = (half)x;
    uint16_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static inline float bf16_of(uint64_t bits)
{
    return f32_of(bits << 16);
}

/* To nearest even. */
static inline uint16_t bits_bf16(float x)
{
    uint32_t b = bits_f32(x);
    return (uint16_t)(x != x ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16);
}

/* TF32, to nearest, away from zero in the middle. */
static inline uint32_t bits_tf32(uint32_t f32)
{
    return (f32 & 0x7f800000) == 0x7f800000 ? f32 : (f32 + 0x1000) & 0xffffe000;
}

#endif
