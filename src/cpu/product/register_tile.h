/* register_tile.h: a tile of a matrix product (matmul.c), summed over k in registers.
 *
 * MR rows by NR columns in vector registers: per step NR values of B are loaded and MR values of A broadcast. For bf16
 * also in blocks of 2 by 2 by arm64's matrix instruction (bfmmla.h), or AMX_ROWS by AMX_COLUMNS in the tiles of AMX (amx.h).
 * Each takes packed rows of A. Those of x86 also take rows that lie along k in memory, and few rows times columns of B that lie so. An
 * element's sum has the same order, and so the same bits, in all three. */
#ifndef CPU_PRODUCT_REGISTER_TILE_H
#define CPU_PRODUCT_REGISTER_TILE_H

#include "cpu/product/panels.h"

/* Where a row has its word of step s: `row` bytes behind that of the row before, `step` behind that of the step before. */
struct rows {
    const char *at;
    int64_t row, step;
};

/* sum (n,NR) = n rows times b (steps,NR), or added to it. Rows are addressed by threes: from one pointer by once and twice `row`. */
SIMD void vector_rows(float *sum, int n, struct rows a, const uint32_t *b, int64_t steps, bool add, bool pairs)
{
    enum { THREES = (MR + 2) / 3 };
    const char *three[THREES];
    vf t[MR][2];
    UNROLL for (int i = 0; i < THREES; i++) three[i] = a.at + 3 * i * a.row;
    UNROLL for (int r = 0; r < n; r++)
    {
        t[r][0] = add ? vf_load(sum + r * NR) : vf_set1(0);
        t[r][1] = add ? vf_load(sum + r * NR + VF_LANES) : vf_set1(0);
    }
    for (int64_t s = 0; s < steps; s++) {
        vu b0 = vu_load(b + s * NR), b1 = vu_load(b + s * NR + VF_LANES);
        UNROLL for (int r = 0; r < n; r++)
        {
            uint32_t word;
            memcpy(&word, three[r / 3] + r % 3 * a.row + s * a.step, sizeof word);
            vu ar = vu_set1(word);
            t[r][0] = pairs ? vf_dot_pairs(t[r][0], ar, b0) : vf_fma((vf)ar, (vf)b0, t[r][0]);
            t[r][1] = pairs ? vf_dot_pairs(t[r][1], ar, b1) : vf_fma((vf)ar, (vf)b1, t[r][1]);
        }
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        vf_store(sum + r * NR, t[r][0]);
        vf_store(sum + r * NR + VF_LANES, t[r][1]);
    }
}

/* Packed rows, a (steps,MR): n or some more, up to MR. Thirds of a tile, so that the last one of few rows does not cost as a whole. */
SIMD void vector_tile(float *sum, int64_t n, const uint32_t *a, const uint32_t *b, int64_t steps, bool add, bool pairs)
{
    enum { THIRD = (MR + 2) / 3 };
    struct rows rows = {(const char *)a, 4, 4 * MR};
    if (n > 2 * THIRD)
        vector_rows(sum, MR, rows, b, steps, add, pairs);
    else if (n > THIRD)
        vector_rows(sum, 2 * THIRD, rows, b, steps, add, pairs);
    else
        vector_rows(sum, THIRD, rows, b, steps, add, pairs);
}

/* MR rows that lie along k, `pitch` bytes apart. */
SIMD void vector_lying(float *sum, const char *a, int64_t pitch, const uint32_t *b, int64_t steps, bool add, bool pairs)
{
    vector_rows(sum, MR, (struct rows){a, pitch, 4}, b, steps, add, pairs);
}

static void tile_f32(float *sum, int64_t rows, const uint32_t *a, const uint32_t *b, int64_t steps, bool add)
{
    vector_tile(sum, rows, a, b, steps, add, false);
}

static void lying_f32(float *sum, const char *a, int64_t pitch, const uint32_t *b, int64_t steps, bool add)
{
    vector_lying(sum, a, pitch, b, steps, add, false);
}

static __attribute__((unused)) void lying_pairs(float *sum, const char *a, int64_t pitch, const uint32_t *b,
                                                int64_t steps, bool add)
{
    vector_lying(sum, a, pitch, b, steps, add, true);
}

static __attribute__((unused)) void tile_pairs(float *sum, int64_t rows, const uint32_t *a, const uint32_t *b,
                                               int64_t steps, bool add)
{
    vector_tile(sum, rows, a, b, steps, add, true);
}

/* The same with quads: a (steps / QUAD, MR, QUAD), b (steps / QUAD, NR, QUAD), blocks of 2 x 2 in registers. */
static __attribute__((unused)) void tile_quads(float *sum, const uint32_t *a, const uint32_t *b, int64_t steps,
                                               bool add)
{
    vf t[MR / 2][NR / 2];
    UNROLL for (int r = 0; r < MR / 2; r++) UNROLL for (int c = 0; c < NR / 2; c += 2)
    {
        t[r][c] = add ? vf_load(sum + 2 * r * NR + 2 * c) : vf_set1(0);
        t[r][c + 1] = add ? vf_load(sum + (2 * r + 1) * NR + 2 * c) : vf_set1(0);
        swap_blocks(&t[r][c], &t[r][c + 1]);
    }
    for (int64_t s = 0; s < steps; s += QUAD)
        UNROLL for (int r = 0; r < MR / 2; r++)
        {
            vu rows = vu_load(a + s * MR + r * VF_LANES);
            UNROLL for (int c = 0; c < NR / 2; c++) t[r][c] =
                vf_bfmmla(t[r][c], rows, vu_load(b + s * NR + c * VF_LANES));
        }
    UNROLL for (int r = 0; r < MR / 2; r++) UNROLL for (int c = 0; c < NR / 2; c += 2)
    {
        swap_blocks(&t[r][c], &t[r][c + 1]);
        vf_store(sum + 2 * r * NR + 2 * c, t[r][c]);
        vf_store(sum + (2 * r + 1) * NR + 2 * c, t[r][c + 1]);
    }
}

/* VF_LANES columns of sum (VF_LANES,NR) = x times as many rows of B that lie along k, `pitch` bytes apart. x (steps,VF_LANES) has up to
 * so many rows of A. The operands have changed places: nothing of B is packed. */
SIMD void vector_across(float *sum, const uint32_t *x, const char *b, int64_t pitch, int64_t steps, bool pairs)
{
    enum { THREES = (VF_LANES + 2) / 3, LINE = 16 };
    const char *row[THREES];
    vu t[VF_LANES];
    UNROLL for (int i = 0; i < THREES; i++) row[i] = b + 3 * i * pitch;
    UNROLL for (int r = 0; r < VF_LANES; r++) t[r] = (vu){0};
    for (int64_t s = 0; s < steps; s++) {
        if (s % LINE == 0)
            UNROLL for (int r = 0; r < VF_LANES; r++) /* what comes next */
                __builtin_prefetch(row[r / 3] + (r % 3 + VF_LANES) * pitch + 4 * s, 0, 2);
        vu x_s = vu_load(x + s * VF_LANES);
        UNROLL for (int r = 0; r < VF_LANES; r++)
        {
            uint32_t word;
            memcpy(&word, row[r / 3] + r % 3 * pitch + 4 * s, sizeof word);
            vf sum_r = (vf)t[r];
            t[r] = (vu)(pairs ? vf_dot_pairs(sum_r, x_s, vu_set1(word)) : vf_fma((vf)x_s, (vf)vu_set1(word), sum_r));
        }
    }
    transpose(t);
    UNROLL for (int r = 0; r < VF_LANES; r++) vf_store(sum + r * NR, (vf)t[r]);
}

/* The same of a panel of B, rows of which are columns of sum. */
static void across_f32(float *sum, const uint32_t *x, const char *b, int64_t pitch, int64_t steps)
{
    for (int h = 0; h < NR; h += VF_LANES)
        vector_across(sum + h, x, b + h * pitch, pitch, steps, false);
}

static __attribute__((unused)) void across_pairs(float *sum, const uint32_t *x, const char *b, int64_t pitch,
                                                 int64_t steps)
{
    for (int h = 0; h < NR; h += VF_LANES)
        vector_across(sum + h, x, b + h * pitch, pitch, steps, true);
}

/* to (C,R) = from (R,C) transposed; R and C are multiples of VF_LANES, and rows so many floats apart. */
SIMD void transpose_floats(float *to, int64_t to_pitch, const float *from, int64_t from_pitch, int R, int C)
{
    for (int i = 0; i < R; i += VF_LANES)
        for (int j = 0; j < C; j += VF_LANES) {
            vu t[VF_LANES];
            for (int r = 0; r < VF_LANES; r++)
                t[r] = (vu)vf_load(from + (i + r) * from_pitch + j);
            transpose(t);
            for (int r = 0; r < VF_LANES; r++)
                vf_store(to + (j + r) * to_pitch + i, (vf)t[r]);
        }
}

static __attribute__((unused)) void across_unit(float *sum, const uint32_t *x, const char *b, int64_t pitch,
                                                int64_t steps)
{
    float t[AMX_COLUMNS * AMX_ACROSS];
    amx_column(t, (struct amx_operand){.at = b, .stride = pitch, .second = 16 * pitch, .step = 4 * AMX_WORDS},
               (struct amx_operand){.at = x, .stride = 4 * AMX_ACROSS, .step = 4 * AMX_WORDS * AMX_ACROSS},
               steps / AMX_WORDS);
    transpose_floats(sum, AMX_COLUMNS, t, AMX_ACROSS, AMX_COLUMNS, AMX_ACROSS);
}

static __attribute__((unused)) void tile_unit(float *sum, int64_t rows, const uint32_t *a, const uint32_t *b,
                                              int64_t steps, bool add, struct amx_beside beside)
{
    enum { A_TILE = 4 * 16 * AMX_WORDS, ROW = 4 * AMX_COLUMNS };
    amx_block(sum, ROW, add, rows > 16,
              (struct amx_operand){.at = a, .stride = 4 * AMX_WORDS, .second = A_TILE, .step = 2 * A_TILE},
              (struct amx_operand){.at = b, .stride = ROW, .second = ROW / 2, .step = AMX_WORDS * ROW},
              steps / AMX_WORDS, beside);
}

static __attribute__((unused)) void lying_unit(float *sum, const char *a, int64_t pitch, const uint32_t *b,
                                               int64_t steps, bool add, struct amx_beside beside)
{
    enum { ROW = 4 * AMX_COLUMNS };
    amx_block(sum, ROW, add, true,
              (struct amx_operand){.at = a, .stride = pitch, .second = 16 * pitch, .step = 4 * AMX_WORDS},
              (struct amx_operand){.at = b, .stride = ROW, .second = ROW / 2, .step = AMX_WORDS * ROW},
              steps / AMX_WORDS, beside);
}

/* A tile of which `rows` rows are there. beside: for the matrix unit. */
static void tile(enum words words, float *sum, int64_t rows, const uint32_t *a, const uint32_t *b, int64_t steps,
                 bool add, struct amx_beside beside)
{
    if (AMX && words == WORDS_TILES)
        tile_unit(sum, rows, a, b, steps, add, beside);
    else if (BFMMLA && words == WORDS_QUADS)
        tile_quads(sum, a, b, steps, add);
    else if (BF16_PAIRS && words == WORDS_PAIRS)
        tile_pairs(sum, rows, a, b, steps, add);
    else
        tile_f32(sum, rows, a, b, steps, add);
}

/* Of whole tiles whose rows of A lie along k, `pitch` bytes apart. */
static void tile_lying(enum words words, float *sum, const char *a, int64_t pitch, const uint32_t *b, int64_t steps,
                       bool add, struct amx_beside beside)
{
    if (AMX && words == WORDS_TILES)
        lying_unit(sum, a, pitch, b, steps, add, beside);
    else if (BF16_PAIRS && words == WORDS_PAIRS)
        lying_pairs(sum, a, pitch, b, steps, add);
    else
        lying_f32(sum, a, pitch, b, steps, add);
}

/* Of the few rows in x times a panel of B that lies along k, `pitch` bytes from row to row. */
static void tile_across(enum words words, float *sum, const uint32_t *x, const char *b, int64_t pitch, int64_t steps)
{
    if (AMX && words == WORDS_TILES)
        across_unit(sum, x, b, pitch, steps);
    else if (BF16_PAIRS && words == WORDS_PAIRS)
        across_pairs(sum, x, b, pitch, steps);
    else
        across_f32(sum, x, b, pitch, steps);
}

#endif
