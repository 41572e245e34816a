/* panels.h: the operands of a matrix product (matmul.c) in the order in which it reads them.
 *
 * Rows of A, and columns of B, lie in panels of MR and NR, or of AMX_ROWS and AMX_COLUMNS. In a panel a step along k is
 * one 32-bit word per row: a float, or two bf16 that follow each other where the processor multiplies pairs of them; else
 * bf16 is widened here. A panel is (steps, width) words. Two differ: A for AMX is (steps / AMX_WORDS, width, AMX_WORDS),
 * tile after tile; both operands of arm64's BFMMLA are (steps / QUAD, width, QUAD). Panels are filled up with 0 beyond
 * the operand's rows and beyond K.
 *
 * Bound by the latency of memory: the processor does not see what comes next, since reads jump from row to row. */
#ifndef CPU_PRODUCT_PANELS_H
#define CPU_PRODUCT_PANELS_H

#include "cpu/simd/amx.h"
#include "cpu/simd/bfmmla.h"

enum {
#if defined __AVX512F__
    MR = 12,
#elif defined __AVX2__
    MR = 6,
#elif defined __ARM_NEON
    MR = 12,
#else
    MR = 4,
#endif
    NR = 2 * VF_LANES,
    STEPS_AHEAD = 16, /* that packing prefetches */
#if defined __AVX2__
    X86_VECTORS = 1, /* any address is broadcast at no cost */
#else
    X86_VECTORS = 0,
#endif
};

/* What a word of a panel holds; WORDS_TILES are pairs for AMX, WORDS_QUADS pairs for BFMMLA. */
enum words { WORDS_F32, WORDS_WIDENED, WORDS_PAIRS, WORDS_TILES, WORDS_QUADS };

SIMD bool words_are_pairs(enum words words)
{
    return words == WORDS_PAIRS || words == WORDS_TILES || words == WORDS_QUADS;
}

/* An operand in memory. */
struct source {
    const void *base;
    bool by_k;       /* (rows, K), else (K, rows) */
    int64_t pitch;   /* elements from a row of it, as it lies, to the next */
    int64_t rows, K; /* rows of A, columns of B */
};

/* Rows become columns: log2(VF_LANES) rounds of merging the first half of the vectors with the second. */
SIMD void transpose(vu t[VF_LANES])
{
    for (int width = 1; width < VF_LANES; width *= 2) {
        vu next[VF_LANES];
        for (int i = 0; i < VF_LANES / 2; i++) {
            next[2 * i] = VU_ZIP_LOW(t[i], t[i + VF_LANES / 2]);
            next[2 * i + 1] = VU_ZIP_HIGH(t[i], t[i + VF_LANES / 2]);
        }
        memcpy(t, next, sizeof next);
    }
}

/* VF_LANES words from step s on of a row whose values lie one after another; 0 beyond K. */
SIMD vu words_along(const char *row, int64_t s, int64_t K, enum words words)
{
    if (words_are_pairs(words)) {
        int64_t left = K - 2 * s;
        if (left >= 2 * VF_LANES)
            return vu_load((const uint32_t *)(const void *)(row + 4 * s));
        vu v = {0};
        if (left > 0)
            memcpy(&v, row + 4 * s, 2 * (size_t)left);
        return v;
    }
    return s < K ? (vu)vf_get_upto(row, s, K - s, words == WORDS_WIDENED) : (vu){0};
}

/* VF_LANES words of step s from values that lie a row per k: columns `at` on, `left` of them there (0 or less: none).
 */
SIMD vu words_across(const char *base, int64_t stride, int64_t s, int64_t K, int64_t at, int64_t left, enum words words)
{
    if (left <= 0)
        return (vu){0};
    if (words_are_pairs(words)) {
        const uint16_t *even = (const uint16_t *)(const void *)base + 2 * s * stride + at, *odd = even + stride;
        int n = left < VF_LANES ? (int)left : VF_LANES;
        vh zero = {0};
        if (n == VF_LANES)
            return vu_pair(2 * s < K ? vh_load(even) : zero, 2 * s + 1 < K ? vh_load(odd) : zero);
        return vu_pair(2 * s < K ? vh_load_n(even, n) : zero, 2 * s + 1 < K ? vh_load_n(odd, n) : zero);
    }
    return (vu)vf_get_upto(base, s * stride + at, left, words == WORDS_WIDENED);
}

/* One step of a panel; of a vector wider than the panel only what belongs to it. */
SIMD void put_words(uint32_t *to, vu v, int width)
{
    if (width < VF_LANES)
        vf_store_n((float *)to, (vf)v, width);
    else
        vu_store(to, v);
}

/* Steps [s0, s0 + steps) of `panels` panels from row `first` on, one panel behind the other. */
SIMD void pack_panels(uint32_t *to, int width, int64_t panels, const struct source *o, bool by_k, int64_t first,
                      int64_t s0, int64_t steps, enum words words)
{
    const char *base = o->base;
    bool pairs = words_are_pairs(words);
    int64_t bytes = words == WORDS_F32 ? 4 : 2, rows = o->rows, K = o->K, pitch = o->pitch;
    if (!by_k) { /* step by step across all panels: reads run along the source's rows */
        for (int64_t s = 0; s < steps; s++)
            for (int64_t q = 0; q < panels; q++)
                for (int g = 0; g < width; g += VF_LANES) {
                    int64_t at = first + q * width + g;
                    if (at < rows) {
                        const char *ahead = base + ((s0 + s + STEPS_AHEAD) * (pairs ? 2 : 1) * pitch + at) * bytes;
                        __builtin_prefetch(ahead, 0, 2);
                        if (pairs)
                            __builtin_prefetch(ahead + pitch * bytes, 0, 2);
                    }
                    put_words(to + (q * steps + s) * width + g,
                              words_across(base, pitch, s0 + s, K, at, rows - at, words), width);
                }
        return;
    }
    for (int64_t q = 0; q < panels; q++, first += width, to += steps * width)
        for (int64_t s = 0; s < steps; s += VF_LANES) {
            int64_t n = steps - s < VF_LANES ? steps - s : VF_LANES;
            for (int g = 0; g < width; g += VF_LANES) {
                vu t[VF_LANES];
                for (int r = g; r < g + VF_LANES; r++) {
                    bool there = r < width && first + r < rows;
                    const char *row = base + (first + r) * pitch * bytes;
                    if (there) /* the same of the next panel */
                        __builtin_prefetch(row + width * pitch * bytes + 4 * (s0 + s), 0, 2);
                    t[r - g] = there ? words_along(row, s0 + s, K, words) : (vu){0};
                }
                transpose(t);
                for (int64_t i = 0; i < n; i++)
                    put_words(to + (s + i) * width + g, t[i], width);
            }
        }
}

/* AMX_WORDS steps from s on of the panel that begins with row `first`, as tiles. */
SIMD void pack_tile(uint32_t *to, const struct source *o, bool by_k, int64_t first, int64_t s)
{
    const char *base = o->base;
    for (int g = 0; g < AMX_WORDS; g += VF_LANES)
        for (int r = 0; r < AMX_ROWS; r += VF_LANES) {
            vu t[VF_LANES];
            for (int i = 0; i < VF_LANES; i++) {
                int64_t row = first + r + i, step = s + g + i;
                if (by_k) {
                    t[i] = row < o->rows ? words_along(base + row * o->pitch * 2, s + g, o->K, WORDS_TILES) : (vu){0};
                } else {
                    __builtin_prefetch(base + (2 * (step + AMX_WORDS) * o->pitch + first + r) * 2, 0, 2);
                    __builtin_prefetch(base + ((2 * (step + AMX_WORDS) + 1) * o->pitch + first + r) * 2, 0, 2);
                    t[i] = words_across(base, o->pitch, step, o->K, first + r, o->rows - first - r, WORDS_TILES);
                }
            }
            if (!by_k)
                transpose(t);
            for (int i = 0; i < VF_LANES; i++)
                vu_store(to + (r + i) * AMX_WORDS + g, t[i]);
        }
}

/* Steps [s0, s0 + steps) of A for the matrix unit, a multiple of AMX_WORDS: panels from row `first` on. Reads run along
 * the source's rows. */
SIMD void pack_tiles(uint32_t *to, int64_t panels, const struct source *o, bool by_k, int64_t first, int64_t s0,
                     int64_t steps)
{
    if (by_k)
        for (int64_t q = 0; q < panels; q++)
            for (int64_t s = 0; s < steps; s += AMX_WORDS)
                pack_tile(to + (q * steps + s) * AMX_ROWS, o, true, first + q * AMX_ROWS, s0 + s);
    else
        for (int64_t s = 0; s < steps; s += AMX_WORDS)
            for (int64_t q = 0; q < panels; q++)
                pack_tile(to + (q * steps + s) * AMX_ROWS, o, false, first + q * AMX_ROWS, s0 + s);
}

/* QUAD words from step s on of a row whose values lie one after another; 0 beyond K. */
SIMD void put_quad(uint32_t *to, const char *row, int64_t s, int64_t K)
{
    int64_t left = K - 2 * s;
    if (left < 2 * QUAD)
        memset(to, 0, 4 * QUAD);
    if (left > 0)
        memcpy(to, row + 4 * s, left < 2 * QUAD ? 2 * (size_t)left : 4 * QUAD);
}

/* Steps [s0, s0 + steps) of `panels` panels for BFMMLA, a multiple of QUAD, from row `first` on. */
SIMD void pack_quads(uint32_t *to, int width, int64_t panels, const struct source *o, bool by_k, int64_t first,
                     int64_t s0, int64_t steps)
{
    const char *base = o->base;
    int64_t rows = o->rows, K = o->K, pitch = o->pitch;
    for (int64_t q = 0; q < panels; q++, first += width)
        for (int64_t s = s0; s < s0 + steps; s += QUAD, to += QUAD * width)
            for (int g = 0; g < width; g += VF_LANES) {
                int64_t at = first + g;
                for (int r = 0; by_k && r < VF_LANES; r++) /* a row that is not there: one without elements */
                    put_quad(to + (g + r) * QUAD, base + (at + r) * pitch * 2, s, at + r < rows ? K : 0);
                if (by_k)
                    continue;
                vu even = words_across(base, pitch, s, K, at, rows - at, WORDS_QUADS),
                   odd = words_across(base, pitch, s + 1, K, at, rows - at, WORDS_QUADS);
                vu_store(to + g * QUAD, VU_ZIP_LOW(even, odd));
                vu_store(to + g * QUAD + VF_LANES, VU_ZIP_HIGH(even, odd));
            }
}

#endif
