/* epilogue.h: what becomes of the sums of a matrix product: C = act(sum + bias + addend), its slope, or C + sum. */
#ifndef CPU_PRODUCT_EPILOGUE_H
#define CPU_PRODUCT_EPILOGUE_H

#include "cpu/act.h"
#include "cpu/product/product.h"

/* What becomes of VF_LANES sums, row i of C from `column` on, of which `left` are there; and the slope, where it is wanted. */
SIMD vf epilogue_value(const struct product *p, enum act act, bool narrow, const float *sum, int64_t i, int64_t column,
                       int64_t left, vf *slope)
{
    vf v = vf_load(sum);
    if (p->bias)
        v = v + vf_get_upto(p->bias, column, left, false);
    if (p->addend)
        v = v + vf_get_upto(p->addend, i * p->addend_pitch + column, left, narrow);
    if (p->add && !p->goes_on)
        v = v + vf_get_upto(p->c, i * p->c_pitch + column, left, narrow);
    if (act && p->slope)
        return vf_act_and_slope(act, v, slope);
    return act ? vf_act(act, v) : v;
}

/* Row i of C from column j on, `columns` of them, a multiple of 2 VF_LANES, and all there. */
SIMD void epilogue_whole_row(const struct product *p, enum act act, bool narrow, const float *sum, int columns,
                             int64_t i, int64_t j)
{
    for (int h = 0; h < columns; h += 2 * VF_LANES) {
        int64_t column = j + h, at = i * p->c_pitch + column;
        vf s0 = {0}, s1 = {0}, v0 = epilogue_value(p, act, narrow, sum + h, i, column, VF_LANES, &s0),
           v1 = epilogue_value(p, act, narrow, sum + h + VF_LANES, i, column + VF_LANES, VF_LANES, &s1);
        if (act && p->slope)
            vf_put_two(p->slope, i * p->N + column, s0, s1, narrow);
        vf_put_two(p->c, at, v0, v1, narrow);
    }
}

/* The same of as many columns as C has. */
SIMD void epilogue_last_row(const struct product *p, enum act act, bool narrow, const float *sum, int64_t i, int64_t j)
{
    for (int64_t column = j; column < p->N; column += VF_LANES, sum += VF_LANES) {
        int64_t at = i * p->c_pitch + column, left = p->N - column;
        vf slope = {0}, v = epilogue_value(p, act, narrow, sum, i, column, left, &slope);
        if (act && p->slope)
            vf_put_upto(p->slope, i * p->N + column, slope, left, narrow);
        vf_put_upto(p->c, at, v, left, narrow);
    }
}

SIMD void epilogue_rows(const struct product *p, enum act act, bool narrow, bool whole, const float *sum, int columns,
                        int64_t i, int64_t rows, int64_t j)
{
    for (int64_t r = 0; r < rows; r++)
        if (whole)
            epilogue_whole_row(p, act, narrow, sum + r * columns, columns, i + r, j);
        else
            epilogue_last_row(p, act, narrow, sum + r * columns, i + r, j);
}

/* Asks for what `epilogue` of the tile will write: with many columns in C each row is in another page and, where their
 * number is a power of two, all are in a few sets of the first-level cache, so that every store would wait. With the
 * matrix unit only where few rows are multiplied and no slope is wanted: more lines would leave no room in those sets for
 * the operands. */
SIMD void epilogue_prefetch(const struct product *p, int columns, int64_t i, int64_t rows, int64_t j)
{
    rows = rows < p->M - i ? rows : p->M - i;
    int64_t bytes = p->out == DT_BF16 ? 2 : 4, last = (columns - 1) * bytes;
    for (int64_t r = 0; r < rows; r++) {
        const char *to = (const char *)p->c + ((i + r) * p->c_pitch + j) * bytes;
        __builtin_prefetch(to, 1, 2);
        __builtin_prefetch(to + last, 1, 2);
        if (p->slope) {
            to = (const char *)p->slope + ((i + r) * p->N + j) * bytes;
            __builtin_prefetch(to, 1, 2);
            __builtin_prefetch(to + last, 1, 2);
        }
    }
}

/* What the sums of the tile (rows, columns) at row i, column j of C begin with, where the product goes on. */
SIMD void epilogue_begin(const struct product *p, float *sum, int columns, int64_t i, int64_t rows, int64_t j)
{
    const float *c = p->c;
    for (int64_t r = 0; r < rows; r++)
        for (int h = 0; h < columns; h += VF_LANES) {
            int64_t left = i + r < p->M ? p->N - j - h : 0;
            vf_store(sum + r * columns + h,
                     left > 0 ? vf_get_upto(c, (i + r) * p->c_pitch + j + h, left, false) : vf_set1(0));
        }
}

/* The tile (rows, columns) of sums whose first is row i, column j of C; what is beyond C is left out. */
static void epilogue(const struct product *p, const float *sum, int columns, int64_t i, int64_t rows, int64_t j)
{
    bool whole = j + columns <= p->N, narrow = p->out == DT_BF16;
    rows = rows < p->M - i ? rows : p->M - i;
    switch (p->act) {
#define ACT_ROW(name)                                                                                                  \
    case ACT_##name:                                                                                                   \
        if (whole && narrow)                                                                                           \
            epilogue_rows(p, ACT_##name, true, true, sum, columns, i, rows, j);                                        \
        else if (whole)                                                                                                \
            epilogue_rows(p, ACT_##name, false, true, sum, columns, i, rows, j);                                       \
        else                                                                                                           \
            epilogue_rows(p, ACT_##name, narrow, false, sum, columns, i, rows, j);                                     \
        break;
        ACTS(ACT_ROW)
#undef ACT_ROW
    default:
        break;
    }
}

#endif
