/* How GGUF files store elements. Formulas are those of ggml's dequantize_row_*, each product and sum rounded to float:
 *   Q4_0, Q5_0, Q8_0, Q6_K   x = d * q            Q4_1, Q5_1   x = d * q + m            Q4_K, Q5_K   x = d * q - m
 * where d and m belong to a block, or in the K types to 16 or 32 elements of it: a 4 to 8 bit number of these times the block's. */
#include "format/gguf/gguf.h"

#include <string.h>

static float half(const unsigned char *p)
{
    return fp16_to_float((uint16_t)(p[0] | p[1] << 8));
}

static void q8_0(const unsigned char *p, int64_t blocks, float *to)
{
    for (; blocks--; p += 34, to += 32) {
        float d = half(p);
        for (int i = 0; i < 32; i++)
            to[i] = d * (float)(int8_t)p[2 + i];
    }
}

/* Of 16 bytes the low halves are the first 16 elements, the high halves the others. `high` gives bit 4 of each. */
static inline int nibble(const unsigned char *q, uint32_t high, int i)
{
    return (i < 16 ? q[i] & 15 : q[i - 16] >> 4) | (int)(high >> i & 1) << 4;
}

static uint32_t word(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void q4_0(const unsigned char *p, int64_t blocks, float *to)
{
    for (; blocks--; p += 18, to += 32) {
        float d = half(p);
        for (int i = 0; i < 32; i++)
            to[i] = d * (float)(nibble(p + 2, 0, i) - 8);
    }
}

static void q4_1(const unsigned char *p, int64_t blocks, float *to)
{
    for (; blocks--; p += 20, to += 32) {
        float d = half(p), m = half(p + 2);
        for (int i = 0; i < 32; i++)
            to[i] = d * (float)nibble(p + 4, 0, i) + m;
    }
}

static void q5_0(const unsigned char *p, int64_t blocks, float *to)
{
    for (; blocks--; p += 22, to += 32) {
        float d = half(p);
        uint32_t high = word(p + 2);
        for (int i = 0; i < 32; i++)
            to[i] = d * (float)(nibble(p + 6, high, i) - 16);
    }
}

static void q5_1(const unsigned char *p, int64_t blocks, float *to)
{
    for (; blocks--; p += 24, to += 32) {
        float d = half(p), m = half(p + 2);
        uint32_t high = word(p + 4);
        for (int i = 0; i < 32; i++)
            to[i] = d * (float)nibble(p + 8, high, i) + m;
    }
}

/* The 6-bit scale and minimum of group k of 8, out of 12 bytes: those of the first four groups are the low bits of bytes 0 to 3
 * and 4 to 7, whose high bits go with the last four bytes to the others. */
static void scale_min(const unsigned char s[12], int k, int *scale, int *min)
{
    *scale = k < 4 ? s[k] & 63 : (s[k + 4] & 15) | (s[k - 4] >> 6) << 4;
    *min = k < 4 ? s[k + 4] & 63 : s[k + 4] >> 4 | (s[k] >> 6) << 4;
}

/* 32 elements of group k: each second group has the high halves of its predecessor's bytes. `high` is NULL or has bit 4 of each
 * element of the block, of group k in bit k. */
static void k_group(const unsigned char *block, const unsigned char *high, const unsigned char *q, int k, float *to)
{
    int scale, min;
    scale_min(block + 4, k, &scale, &min);
    float d = half(block) * (float)scale, m = half(block + 2) * (float)min;
    q += k / 2 * 32;
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)((k % 2 ? q[i] >> 4 : q[i] & 15) | (high ? (high[i] >> k & 1) << 4 : 0)) - m;
}

static void q4_k(const unsigned char *p, int64_t blocks, float *to)
{
    for (; blocks--; p += 144, to += 256)
        for (int k = 0; k < 8; k++)
            k_group(p, NULL, p + 16, k, to + 32 * k);
}

static void q5_k(const unsigned char *p, int64_t blocks, float *to)
{
    for (; blocks--; p += 176, to += 256)
        for (int k = 0; k < 8; k++)
            k_group(p, p + 16, p + 48, k, to + 32 * k);
}

/* 128 bytes of low halves, 64 of upper two bits, 16 signed scales and d. In each half of the block, group k of 32 elements has its
 * low bits in bytes 32 * (k % 2) on, and its upper bits at bit 2 k of 32 bytes. */
static void q6_k(const unsigned char *p, int64_t blocks, float *to)
{
    for (; blocks--; p += 210, to += 256) {
        float d = half(p + 208);
        for (int i = 0; i < 256; i++) {
            int part = i / 128, k = i / 32 % 4, at = i % 32;
            int low = p[64 * part + 32 * (k % 2) + at] >> (k / 2 * 4) & 15;
            int q = (low | (p[128 + 32 * part + at] >> 2 * k & 3) << 4) - 32;
            to[i] = d * (float)(int8_t)p[192 + i / 16] * (float)q;
        }
    }
}

static const struct gguf_type types[] = {
    {"F32", 0, 1, 4, DT_F32, NULL},
    {"F16", 1, 1, 2, DT_F16, NULL},
    {"BF16", 30, 1, 2, DT_BF16, NULL},
    {"F64", 28, 1, 8, DT_F64, NULL},
    {"Q8_0", 8, 32, 34, DT_F32, q8_0},
    {"Q4_0", 2, 32, 18, DT_F32, q4_0},
    {"Q4_1", 3, 32, 20, DT_F32, q4_1},
    {"Q5_0", 6, 32, 22, DT_F32, q5_0},
    {"Q5_1", 7, 32, 24, DT_F32, q5_1},
    {"Q4_K", 12, 256, 144, DT_F32, q4_k},
    {"Q5_K", 13, 256, 176, DT_F32, q5_k},
    {"Q6_K", 14, 256, 210, DT_F32, q6_k},
#define NOT_READ(name, id)                                                                                             \
    {                                                                                                                  \
        name, id, 0, 0, DT_F32, NULL                                                                                   \
    }
    NOT_READ("Q8_1", 9),
    NOT_READ("Q2_K", 10),
    NOT_READ("Q3_K", 11),
    NOT_READ("Q8_K", 15),
    NOT_READ("IQ2_XXS", 16),
    NOT_READ("IQ2_XS", 17),
    NOT_READ("IQ3_XXS", 18),
    NOT_READ("IQ1_S", 19),
    NOT_READ("IQ4_NL", 20),
    NOT_READ("IQ3_S", 21),
    NOT_READ("IQ2_S", 22),
    NOT_READ("IQ4_XS", 23),
    NOT_READ("I8", 24),
    NOT_READ("I16", 25),
    NOT_READ("I32", 26),
    NOT_READ("I64", 27),
    NOT_READ("IQ1_M", 29),
    NOT_READ("TQ1_0", 34),
    NOT_READ("TQ2_0", 35),
    NOT_READ("MXFP4", 39),
    NOT_READ("NVFP4", 40),
#undef NOT_READ
};

const struct gguf_type *gguf_type(int64_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

const struct gguf_type *gguf_type_named(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}
