/* tile.h: small matrix products between blocks that lie in the cache, for attention.
 *
 * Everything is counted in units of 32 bits: a float, or (`pair`) two bf16 that are neighbours along the dimension that
 * a product sums over, for the processor's dot product of bf16 pairs. So one code serves both: C (M,N) float = A (M,K)
 * B (K,N) with A row by row in units, B in units with N fastest. Sums run over k in order.
 *
 * Blocks are padded to multiples of 16, of pairs for the matrix unit of 32 (tile_pad): rows of A and C and columns of B
 * and C with any content. The matrix unit also sums over whole steps of AMX_WORDS units: what of A and B lies between K
 * and there is 0. */
#ifndef CPU_PRODUCT_TILE_H
#define CPU_PRODUCT_TILE_H

#include "cpu/simd/amx.h"

/* bf16 tensors are computed on as pairs where the processor has the instruction, else widened to float when packed. */
enum { TILE_PAIRS = AMX || BF16_PAIRS };

enum tile_start {
    TILE_ZERO,  /* C = A B */
    TILE_ADD,   /* C += A B */
    TILE_SCALE, /* C = C diag(scale) + A B, scale (N) */
};

SIMD int64_t tile_pad(bool pair, int64_t n)
{
    int64_t to = AMX && pair ? 32 : 16;
    return (n + to - 1) / to * to;
}

/* A block of C of M rows and W vectors, held in registers. Bound by multiply-adds: M W of them per M + W loads. */
#define TILE_KERNEL(M, W)                                                                                              \
    SIMD void tile_##M##x##W(bool pair, enum tile_start start, int64_t K, const uint32_t *a, int64_t lda,              \
                             const uint32_t *b, float *c, int64_t ld, const float *scale)                              \
    {                                                                                                                  \
        vf sum[M][W];                                                                                                  \
        UNROLL for (int i = 0; i < M; i++)                                                                             \
        {                                                                                                              \
            UNROLL for (int j = 0; j < W; j++)                                                                         \
            {                                                                                                          \
                sum[i][j] = start == TILE_ZERO ? vf_set1(0) : vf_load(c + i * ld + j * VF_LANES);                      \
                if (start == TILE_SCALE)                                                                               \
                    sum[i][j] *= vf_load(scale + j * VF_LANES);                                                        \
            }                                                                                                          \
        }                                                                                                              \
        for (int64_t k = 0; k < K; k++) {                                                                              \
            vu row[W];                                                                                                 \
            UNROLL for (int j = 0; j < W; j++) row[j] = vu_load(b + k * ld + j * VF_LANES);                            \
            UNROLL for (int i = 0; i < M; i++)                                                                         \
            {                                                                                                          \
                vu x = vu_set1(a[i * lda + k]);                                                                        \
                UNROLL for (int j = 0; j < W; j++) sum[i][j] =                                                         \
                    pair ? vf_dot_pairs(sum[i][j], x, row[j]) : vf_fma((vf)x, (vf)row[j], sum[i][j]);                  \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int i = 0; i < M; i++)                                                                             \
        {                                                                                                              \
            UNROLL for (int j = 0; j < W; j++) vf_store(c + i * ld + j * VF_LANES, sum[i][j]);                         \
        }                                                                                                              \
    }

#if defined __AVX512F__ /* 32 registers: 16 sums in each shape */
TILE_KERNEL(4, 4)
TILE_KERNEL(8, 2)
TILE_KERNEL(16, 1)
#elif defined __ARM_NEON /* 32 too; tile_pad makes N a multiple of 4 vectors */
TILE_KERNEL(4, 4)
#else                    /* 16 registers: 8 sums */
TILE_KERNEL(4, 2)
#endif

#define TILE_STRIP(m, w)                                                                                               \
    for (; n + w * VF_LANES <= N; n += w * VF_LANES)                                                                   \
        for (int64_t i = 0; i < M; i += m)                                                                             \
    tile_##m##x##w(pair, start, K, a + i * lda, lda, b + n, c + i * ld + n, ld, start == TILE_SCALE ? scale + n : NULL)

/* C (M,N) from A (M,K) with rows `lda` units apart and B (K,N); rows of B and of C are `ld` apart. */
SIMD void tile_loops(bool pair, enum tile_start start, int64_t M, int64_t N, int64_t K, const uint32_t *a, int64_t lda,
                     const uint32_t *b, float *c, int64_t ld, const float *scale)
{
    int64_t n = 0;
#if defined __AVX512F__
    TILE_STRIP(4, 4);
    TILE_STRIP(8, 2);
    TILE_STRIP(16, 1);
#elif defined __ARM_NEON
    TILE_STRIP(4, 4);
#else
    TILE_STRIP(4, 2);
#endif
}

/* The same on the matrix unit; between amx_begin and amx_end. */
SIMD void tile_unit(enum tile_start start, int64_t M, int64_t N, int64_t K, const uint32_t *a, int64_t lda,
                    const uint32_t *b, float *c, int64_t ld, const float *scale)
{
    int64_t steps = (K + AMX_WORDS - 1) / AMX_WORDS;
    for (int64_t i = 0; i < M; i += AMX_ROWS)
        for (int64_t n = 0; n < N; n += AMX_COLUMNS) {
            float *block = c + i * ld + n;
            for (int64_t r = 0; r < AMX_ROWS && start == TILE_SCALE; r++)
                for (int64_t j = 0; j < AMX_COLUMNS; j += VF_LANES)
                    vf_store(block + r * ld + j, vf_load(block + r * ld + j) * vf_load(scale + n + j));
            amx_block(block, 4 * ld, start != TILE_ZERO, true,
                      (struct amx_operand){
                          .at = a + i * lda, .stride = 4 * lda, .second = 4 * 16 * lda, .step = 4 * AMX_WORDS},
                      (struct amx_operand){.at = b + n, .stride = 4 * ld, .second = 4 * 16, .step = 4 * AMX_WORDS * ld},
                      steps, (struct amx_beside){0});
        }
}

/* What follows is not inlined: it is large, and its loops are long. */
#define TILE_OUT_OF_LINE static __attribute__((noinline, unused)) void

TILE_OUT_OF_LINE tile_product(bool pair, enum tile_start start, int64_t M, int64_t N, int64_t K, const uint32_t *a,
                              int64_t lda, const uint32_t *b, float *c, int64_t ld, const float *scale)
{
    if (AMX && pair)
        tile_unit(start, M, N, K, a, lda, b, c, ld, scale);
    else if (pair)
        tile_loops(true, start, M, N, K, a, lda, b, c, ld, scale);
    else
        tile_loops(false, start, M, N, K, a, lda, b, c, ld, scale);
}

/* ---- packing: n rows of D elements, `stride` elements apart, of a BF16 (`bf16`) or F32 tensor, from element `at` on
 * ---- */

enum { ROWS_AHEAD = 16 };

/* Rows lie far apart: the processor does not see what comes next. */
SIMD void tile_prefetch(bool bf16, const void *from, int64_t i)
{
    __builtin_prefetch((const char *)from + (bf16 ? 2 : 4) * i, 0, 3);
}

/* (tile_pad(n), D) rows of units, `ld` units apart (at least tile_pad(D) elements): what A is when a product sums over
 * D. Padding is 0. */
SIMD void tile_pack_rows_as(bool pair, bool bf16, uint32_t *to, int64_t ld, const void *from, int64_t at,
                            int64_t stride, int64_t n, int64_t D)
{
    for (int64_t r = 0; r < tile_pad(pair, n); r++, to += ld)
        for (int64_t d = 0; d < tile_pad(pair, D); d += VF_LANES) {
            int64_t left = r < n ? D - d : 0, i = at + r * stride + d;
            tile_prefetch(bf16, from, i + ROWS_AHEAD * stride);
            if (pair)
                vh_store((uint16_t *)to + d, left >= VF_LANES ? vh_load((const uint16_t *)from + i)
                                             : left > 0       ? vh_load_n((const uint16_t *)from + i, (int)left)
                                                              : (vh){0});
            else
                vf_store((float *)to + d, left > 0 ? vf_get_upto(from, i, left, bf16) : vf_set1(0));
        }
}

/* The rows as B when a product sums over them: (rows, tile_pad(D)) units, a unit holding an element of rows 2k and 2k+1
 * (`pair`) or of row k. Padded with 0 to tile_pad(n) rows. */
SIMD void tile_pack_sum_rows_as(bool pair, bool bf16, uint32_t *to, const void *from, int64_t at, int64_t stride,
                                int64_t n, int64_t D)
{
    if (!pair) {
        tile_pack_rows_as(false, bf16, to, tile_pad(pair, D), from, at, stride, n, D);
        return;
    }
    const uint16_t *x = (const uint16_t *)from + at;
    for (int64_t r = 0; r < tile_pad(pair, n); r += 2, to += tile_pad(pair, D))
        for (int64_t d = 0; d < tile_pad(pair, D); d += VF_LANES) {
            int64_t left = D - d < VF_LANES ? D - d : VF_LANES, i = r * stride + d;
            tile_prefetch(true, x, i + ROWS_AHEAD * stride);
            tile_prefetch(true, x, i + (ROWS_AHEAD + 1) * stride);
            vh even = r < n && left > 0 ? vh_load_n(x + i, (int)left) : (vh){0};
            vh odd = r + 1 < n && left > 0 ? vh_load_n(x + i + stride, (int)left) : (vh){0};
            vu_store(to + d, vu_pair(even, odd));
        }
}

TILE_OUT_OF_LINE tile_pack_rows(bool pair, bool bf16, uint32_t *to, int64_t ld, const void *from, int64_t at,
                                int64_t stride, int64_t n, int64_t D)
{
    if (pair)
        tile_pack_rows_as(true, true, to, ld, from, at, stride, n, D);
    else if (bf16)
        tile_pack_rows_as(false, true, to, ld, from, at, stride, n, D);
    else
        tile_pack_rows_as(false, false, to, ld, from, at, stride, n, D);
}

TILE_OUT_OF_LINE tile_pack_sum_rows(bool pair, bool bf16, uint32_t *to, const void *from, int64_t at, int64_t stride,
                                    int64_t n, int64_t D)
{
    if (pair)
        tile_pack_sum_rows_as(true, true, to, from, at, stride, n, D);
    else if (bf16)
        tile_pack_sum_rows_as(false, true, to, from, at, stride, n, D);
    else
        tile_pack_sum_rows_as(false, false, to, from, at, stride, n, D);
}

typedef uint32_t vq __attribute__((vector_size(16)));

/* to (C,R) = from (R,C) transposed, units; R and C multiples of 4. */
TILE_OUT_OF_LINE tile_transpose(uint32_t *to, int64_t to_ld, const uint32_t *from, int64_t from_ld, int64_t R,
                                int64_t C)
{
    for (int64_t r = 0; r < R; r += 4)
        for (int64_t c = 0; c < C; c += 4) {
            vq x[4];
            for (int i = 0; i < 4; i++)
                memcpy(&x[i], from + (r + i) * from_ld + c, sizeof x[i]);
            vq a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5), b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
            vq d = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5), e = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
            vq y[4] = {__builtin_shufflevector(a, d, 0, 1, 4, 5), __builtin_shufflevector(a, d, 2, 3, 6, 7),
                       __builtin_shufflevector(b, e, 0, 1, 4, 5), __builtin_shufflevector(b, e, 2, 3, 6, 7)};
            for (int i = 0; i < 4; i++)
                memcpy(to + (c + i) * to_ld + r, &y[i], sizeof y[i]);
        }
}

#endif
