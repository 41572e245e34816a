/* amx_emulation.h: the instructions of cpu/simd/amx.h in plain C, after the operation sections of Intel's manual (SDM vol. 2:
 * LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS). Using tiles that are not configured, or in shapes that do not
 * fit each other, aborts as the processor would fault. */
#ifndef TESTS_OP_AMX_EMULATION_H
#define TESTS_OP_AMX_EMULATION_H

#include <stdlib.h>

/* The registers of a thread, which all sources share. */
extern _Thread_local struct amx_unit {
    struct amx_shapes shapes; /* palette 0: not configured */
    uint8_t bytes[8][16][64];
} amx_unit;
_Thread_local struct amx_unit amx_unit __attribute__((weak));

static inline void amx_must(bool ok)
{
    if (!ok)
        abort();
}

static inline void amx_configure(const struct amx_shapes *shapes)
{
    memset(&amx_unit, 0, sizeof amx_unit);
    amx_must(shapes->palette == 1 && shapes->start_row == 0);
    for (int i = 0; i < 16; i++)
        amx_must(shapes->rows[i] <= (i < 8 ? 16 : 0) && shapes->row_bytes[i] <= (i < 8 ? 64 : 0) &&
                 !shapes->rows[i] == !shapes->row_bytes[i]);
    amx_unit.shapes = *shapes;
}

static inline void amx_release(void)
{
    memset(&amx_unit, 0, sizeof amx_unit);
}

static inline void amx_zero(int tile)
{
    amx_must(amx_unit.shapes.palette && amx_unit.shapes.rows[tile]);
    memset(amx_unit.bytes[tile], 0, sizeof amx_unit.bytes[tile]);
}

static inline void amx_load(int tile, const void *from, int64_t stride)
{
    amx_zero(tile);
    for (int r = 0; r < amx_unit.shapes.rows[tile]; r++)
        memcpy(amx_unit.bytes[tile][r], (const char *)from + r * stride, amx_unit.shapes.row_bytes[tile]);
}

static inline void amx_store(int tile, void *to, int64_t stride)
{
    amx_must(amx_unit.shapes.palette && amx_unit.shapes.rows[tile]);
    for (int r = 0; r < amx_unit.shapes.rows[tile]; r++)
        memcpy((char *)to + r * stride, amx_unit.bytes[tile][r], amx_unit.shapes.row_bytes[tile]);
}

/* A bf16 as the instruction takes it: denormals are 0. */
static inline float amx_widen(const uint8_t *half)
{
    uint16_t bits;
    memcpy(&bits, half, 2);
    uint32_t wide = bits & 0x7F80 ? (uint32_t)bits << 16 : (uint32_t)(bits & 0x8000) << 16;
    float x;
    memcpy(&x, &wide, 4);
    return x;
}

static inline float amx_flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Rows of pairs: the first and the second of each, as numbers. */
static inline void amx_widen_pairs(float first[16], float second[16], const uint8_t *row)
{
    for (int i = 0; i < 16; i++) {
        first[i] = amx_widen(row + 4 * i);
        second[i] = amx_widen(row + 4 * i + 2);
    }
}

/* The instruction adds up with one rounding. So does this: in double the product is exact, and the sum is too, or else its smaller part
 * is too small to change the float that it becomes. */
static inline void amx_dot(int sum, int a, int b)
{
    const struct amx_shapes *s = &amx_unit.shapes;
    amx_must(s->palette && s->rows[sum] && s->rows[sum] == s->rows[a] && s->row_bytes[sum] == s->row_bytes[b] &&
             s->row_bytes[a] / 4 == s->rows[b] && sum != a && sum != b && a != b);
    float y[2][16][16];
    for (int k = 0; k < s->rows[b]; k++)
        amx_widen_pairs(y[0][k], y[1][k], amx_unit.bytes[b][k]);
    for (int m = 0; m < s->rows[sum]; m++) {
        float x[2][16], even[16] = {0}, odd[16] = {0}, c[16];
        amx_widen_pairs(x[0], x[1], amx_unit.bytes[a][m]);
        for (int k = 0; k < s->rows[b]; k++)
            for (int n = 0; n < 16; n++) {
                even[n] = amx_flush((float)((double)x[0][k] * y[0][k][n] + even[n]));
                odd[n] = amx_flush((float)((double)x[1][k] * y[1][k][n] + odd[n]));
            }
        memcpy(c, amx_unit.bytes[sum][m], sizeof c);
        for (int n = 0; n < 16; n++)
            c[n] = amx_flush(amx_flush(c[n]) + amx_flush(even[n] + odd[n]));
        memcpy(amx_unit.bytes[sum][m], c, s->row_bytes[sum]);
    }
}

#define AMX_CONFIGURE(shapes) amx_configure(shapes)
#define AMX_RELEASE() amx_release()
#define AMX_ZERO(tile) amx_zero(tile)
#define AMX_LOAD(tile, from, stride) amx_load(tile, from, stride)
#define AMX_STORE(tile, to, stride) amx_store(tile, to, stride)
#define AMX_DOT(sum, a, b) amx_dot(sum, a, b)

#endif
