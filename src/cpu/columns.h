/* columns.h: sums over the rows of a matrix, where a kernel passes over the rows anyway. Rows are cut into at most
 * CHUNKS chunks by shape; each is summed in order by one thread into a row of floats of its own (padded to whole
 * vectors), and the chunks are added in order. */
#ifndef CPU_COLUMNS_H
#define CPU_COLUMNS_H

#include "cpu/kernels.h"

enum { CHUNKS = 64, CHUNK_ROWS = 8 };

static inline int64_t row_floats(int64_t H)
{
    return (H + 15) / 16 * 16;
}

/* How many chunks N rows are cut into; chunk i is the rows [i N / chunks, (i + 1) N / chunks). */
static inline int64_t row_chunks(int64_t N)
{
    int64_t n = (N + CHUNK_ROWS - 1) / CHUNK_ROWS;
    return n < CHUNKS ? n : CHUNKS;
}

/* sums[h …] += v */
SIMD void column_add(float *sums, int64_t h, vf v)
{
    vf_store(sums + h, vf_load(sums + h) + v);
}

/* What a norm multiplies by: gamma, or with one = 1 that of 1 + gamma. */
SIMD vf norm_factors(const struct tensor *gamma, int64_t h, int64_t left, float one)
{
    return vf_get_upto(gamma->data, h, left, false) + one;
}

/* to[h] (+)= the sum over chunks of partial[chunk * stride + h]. */
static inline void columns_finish(const struct tensor *to, const float *partial, int64_t chunks, int64_t stride,
                                  int64_t H)
{
    for (int64_t h = 0; to->data && h < H; h += VF_LANES) {
        vf sum = to->add ? vf_get_upto(to->data, h, H - h, false) : vf_set1(0);
        for (int64_t i = 0; i < chunks; i++)
            sum += vf_load(partial + i * stride + h);
        vf_put_upto(to->data, h, sum, H - h, false);
    }
}

#endif
