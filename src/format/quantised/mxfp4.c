/* Weights of experts in MXFP4 (Open Compute Project, Microscaling Formats 1.0), as gpt-oss has them, as numbers. Of a weight NAME (E,I,O) a
 * folder has:
 *     NAME_blocks  U8 (E,O,I/32,16)  codes, two to a byte, the first in its lower half: a sign and one of eight numbers
 *     NAME_scales  U8 (E,O,I/32)     the exponent of a block's 32 codes, and 127
 * The numbers are those of transformers, which fit into BF16. They lie across the codes, so those of an expert are kept while it is read. */
#include "format/quantised/quantised.h"

#include <math.h>
#include <string.h>

#define BLOCKS "_blocks"

enum { BLOCK = 32, BLOCK_BYTES = BLOCK / 2, CODES = 16, EXPONENTS = 256 };

/* What each code stands for with each exponent. */
struct numbers {
    float of[EXPONENTS][CODES];
};

struct weight {
    struct model_tensor blocks, scales;
    int64_t expert; /* whose codes are kept, while the cache is this weight's */
    const struct numbers *numbers;
};

static void make_numbers(struct numbers *n)
{
    static const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int e = 0; e < EXPONENTS; e++)
        for (int code = 0; code < CODES; code++) {
            float x = ldexpf(magnitudes[code & 7], e - 127);
            n->of[e][code] = code & 8 ? -x : x;
        }
}

static int64_t bytes_of_expert(const struct model_tensor *t)
{
    return t->tensor->bytes / t->tensor->shape[0];
}

/* The expert's codes, and behind them its exponents. */
static int keep(struct quant_cache *cache, struct weight *w, int64_t expert, struct snug_err *err)
{
    int64_t codes = bytes_of_expert(&w->blocks), scales = bytes_of_expert(&w->scales);
    if (cache->of == (const void *)w && w->expert == expert)
        return SNUG_OK;
    quant_cache_clear(cache);
    if (!(cache->codes = mem_alloc((size_t)(codes + scales))))
        return err_no_memory(err, (unsigned long long)(codes + scales));
    TRY(st_read_part(w->blocks.file, w->blocks.tensor, expert * codes, cache->codes, (size_t)codes, err));
    TRY(st_read_part(w->scales.file, w->scales.tensor, expert * scales, cache->codes + codes, (size_t)scales, err));
    cache->of = (const void *)w;
    w->expert = expert;
    return SNUG_OK;
}

/* Columns [o, o + n) of row i of the kept expert. */
static void put_row(const struct quant_cache *cache, const struct weight *w, int64_t i, int64_t o, int64_t n, float *to)
{
    int64_t blocks = w->scales.tensor->shape[2], block = o * blocks + i / BLOCK;
    const uint8_t *codes = cache->codes + i % BLOCK / 2, *exponents = cache->codes + bytes_of_expert(&w->blocks);
    int shift = i % 2 ? 4 : 0;
    for (int64_t k = 0; k < n; k++, block += blocks)
        to[k] = w->numbers->of[exponents[block]][codes[block * BLOCK_BYTES] >> shift & 15];
}

static int read_numbers(struct quant_cache *cache, const void *of, int64_t first, int64_t n, float *to,
                        struct snug_err *err)
{
    struct weight *w = (struct weight *)of;
    int64_t O = w->blocks.tensor->shape[1], I = w->blocks.tensor->shape[2] * BLOCK;
    for (int64_t at = first, end = first + n, count; at < end; at += count) {
        int64_t row = at / O, column = at % O;
        count = end - at < O - column ? end - at : O - column;
        TRY(keep(cache, w, row / I, err));
        put_row(cache, w, row % I, column, count, to + (at - first));
    }
    return SNUG_OK;
}

static bool parts_fit(const struct st_tensor *blocks, const struct st_tensor *scales)
{
    bool fit = blocks->dtype == DT_U8 && scales->dtype == DT_U8 && blocks->ndim == 4 && scales->ndim == 3 &&
               blocks->shape[3] == BLOCK_BYTES && blocks->bytes > 0;
    for (int i = 0; i < 3 && fit; i++)
        fit = blocks->shape[i] == scales->shape[i];
    return fit;
}

static int add_weight(struct quant_finding *f, const struct model_tensor *blocks, const struct numbers *numbers,
                      struct snug_err *err)
{
    const struct st_tensor *b = blocks->tensor;
    const char *end = quant_end(b->name, BLOCKS), *name = quant_name(f, b->name, end, "");
    struct weight *w = arena_alloc(f->arena, sizeof *w);
    if (!name || !w)
        return err_no_memory(err, sizeof *w);
    w->numbers = numbers;
    TRY(quant_take(f, name, BLOCKS, &w->blocks, err));
    TRY(quant_take(f, name, "_scales", &w->scales, err));
    if (!parts_fit(b, w->scales.tensor))
        return quant_bad_part(f, &w->blocks, err);
    struct st_tensor weight = {.name = name, .ndim = 3, .shape = {b->shape[0], b->shape[2] * BLOCK, b->shape[1]}};
    return quant_add(f, weight, read_numbers, w, err);
}

int mxfp4_find(struct quant_finding *f, struct snug_err *err)
{
    struct numbers *numbers = arena_alloc(f->arena, sizeof *numbers);
    if (!numbers)
        return err_no_memory(err, sizeof *numbers);
    make_numbers(numbers);
    for (size_t i = 0; i < f->d->n_tensors; i++)
        if (quant_end(f->d->tensors[i].tensor->name, BLOCKS))
            TRY(add_weight(f, &f->d->tensors[i], numbers, err));
    return SNUG_OK;
}
