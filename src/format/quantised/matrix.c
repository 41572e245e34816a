/* Matrices of codes, as numbers. All scales of a weight are brought into one order, (scale_rows, scale_columns), when its first part is
 * read. Codes of rows that lie one after another are read as they are wanted; where those of a row are all over the tensor it is kept until
 * another weight is read. */
#include "format/quantised/quantised.h"

#include <stdlib.h>
#include <string.h>

enum { SPARE = 8 }; /* bytes behind codes, which are read in pairs */

bool quant_is_scale(const struct model_tensor *t)
{
    enum dtype dtype = t->tensor->dtype;
    return dtype == DT_F32 || dtype == DT_F16 || dtype == DT_BF16;
}

bool quant_is(const struct model_tensor *t, enum dtype dtype, int64_t rows, int64_t columns)
{
    const struct st_tensor *s = t->tensor;
    return s->dtype == dtype && s->ndim == 2 && s->shape[0] == rows && s->shape[1] == columns;
}

/* ---- bytes ---- */

static float number_of_byte(enum dtype dtype, int byte)
{
    switch (dtype) {
    case DT_I8:
        return (float)(int8_t)byte;
    case DT_F8_E5M2:
        return fp16_to_float((uint16_t)(byte << 8));
    default:
        return e4m3_to_float((uint8_t)byte);
    }
}

const struct quant_layout quant_bytes = {.bytes = true};

/* ---- codes of a few bits ---- */

static int32_t code_at(const uint8_t *codes, int64_t bit, int bits)
{
    int32_t two = codes[bit / 8] | codes[bit / 8 + 1] << 8;
    return two >> bit % 8 & ((1 << bits) - 1);
}

void quant_unpack_bits(const uint8_t *codes, int bits, int64_t first, int64_t n, float *to)
{
    int64_t i = 0;
    for (const uint8_t *two = codes + first / 2; bits == 4 && first % 2 == 0 && i + 1 < n; i += 2, two++) {
        to[i] = (float)(*two & 15);
        to[i + 1] = (float)(*two >> 4);
    }
    for (; i < n; i++)
        to[i] = (float)code_at(codes, (first + i) * bits, bits);
}

/* ---- what is kept ---- */

void quant_cache_clear(struct quant_cache *cache)
{
    mem_free(cache->scales);
    mem_free(cache->zeros);
    mem_free(cache->groups);
    mem_free(cache->codes);
    *cache = (struct quant_cache){0};
}

/* A list of numbers as (scale_rows, scale_columns), from the order in which the file has them. */
static float *in_order(const struct quant_matrix *m, const float *from)
{
    int64_t rows = m->scale_rows, columns = m->scale_columns;
    float *to = mem_realloc(NULL, (size_t)(rows * columns) * sizeof *to);
    for (int64_t r = 0; to && r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[r * columns + c] = m->layout->across ? from[c * rows + r] : from[r * columns + c];
    return to;
}

static int load_scales(struct quant_cache *cache, const struct quant_matrix *m, struct snug_err *err)
{
    int64_t n = m->scale_rows * m->scale_columns;
    size_t bytes = (size_t)n * sizeof(float);
    void *stored;
    TRY(quant_read_elements(&m->scales, 0, n, &stored, err));
    float *numbers = mem_realloc(NULL, bytes);
    if (numbers)
        dtype_convert(numbers, DT_F32, stored, m->scales.tensor->dtype, n);
    cache->scales = numbers ? in_order(m, numbers) : NULL;
    mem_free(numbers);
    mem_free(stored);
    return cache->scales ? SNUG_OK : err_no_memory(err, bytes);
}

static int load_zeros(struct quant_cache *cache, const struct quant_matrix *m, struct snug_err *err)
{
    int64_t n = m->scale_rows * m->scale_columns, words = st_elements(m->zeros.tensor);
    size_t bytes = (size_t)n * sizeof(float);
    void *stored;
    TRY(quant_read_elements(&m->zeros, 0, words, &stored, err));
    float *numbers = mem_realloc(NULL, bytes);
    if (numbers && m->layout->unpack_zeros) {
        for (int64_t i = 0; i < words; i++)
            ((uint32_t *)stored)[i] += m->zeros_more;
        m->layout->unpack_zeros(m, stored, numbers);
    } else if (numbers) {
        for (int64_t i = 0; i < n; i++)
            numbers[i] = (float)((int8_t *)stored)[i];
    }
    cache->zeros = numbers ? in_order(m, numbers) : NULL;
    mem_free(numbers);
    mem_free(stored);
    return cache->zeros ? SNUG_OK : err_no_memory(err, bytes);
}

static int load_groups(struct quant_cache *cache, const struct quant_matrix *m, struct snug_err *err)
{
    void *stored;
    TRY(quant_read_elements(&m->columns_group, 0, m->columns, &stored, err));
    cache->groups = stored;
    for (int64_t i = 0; i < m->columns; i++)
        if (cache->groups[i] < 0 || cache->groups[i] >= m->scale_columns)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: %.120s: element %lld is %d; expected a group from 0 to %lld; get the model again",
                           m->columns_group.file->path, m->columns_group.tensor->name, (long long)i, cache->groups[i],
                           (long long)m->scale_columns - 1);
    return SNUG_OK;
}

/* The bytes of a tensor with some room behind them. */
static int read_codes(const struct quant_matrix *m, int64_t offset, int64_t bytes, uint8_t **out, struct snug_err *err)
{
    if (!(*out = mem_realloc(NULL, (size_t)bytes + SPARE)))
        return err_no_memory(err, (size_t)bytes + SPARE);
    memset(*out + bytes, 0, SPARE);
    return st_read_part(m->codes.file, m->codes.tensor, offset, *out, (size_t)bytes, err);
}

static int load(struct quant_cache *cache, const struct quant_matrix *m, struct snug_err *err)
{
    quant_cache_clear(cache);
    int code = load_scales(cache, m, err);
    if (!code && m->zeros.tensor)
        code = load_zeros(cache, m, err);
    if (!code && m->columns_group.tensor)
        code = load_groups(cache, m, err);
    if (!code && m->layout->whole)
        code = read_codes(m, 0, m->codes.tensor->bytes, &cache->codes, err);
    for (int i = 0; m->layout->bytes && i < QUANT_TABLE; i++)
        cache->table[i] = number_of_byte(m->codes.tensor->dtype, i);
    if (code)
        quant_cache_clear(cache);
    else
        cache->of = m;
    return code;
}

/* ---- numbers ---- */

/* n codes of a row from `column` on become numbers. */
static void scale_row(const struct quant_cache *cache, const struct quant_matrix *m, int64_t row, int64_t column,
                      int64_t n, float *x)
{
    const float *scales = cache->scales + row / m->block_rows * m->scale_columns;
    const float *zeros = cache->zeros ? cache->zeros + row / m->block_rows * m->scale_columns : NULL;
    if (cache->groups) {
        for (int64_t i = 0; i < n; i++) {
            int32_t g = cache->groups[column + i];
            x[i] = (x[i] - (zeros ? zeros[g] : m->zero)) * scales[g];
        }
        return;
    }
    for (int64_t at = 0, next; at < n; at = next) {
        int64_t g = (column + at) / m->block_columns, end = (g + 1) * m->block_columns - column;
        float scale = scales[g], zero = zeros ? zeros[g] : m->zero;
        next = end < n ? end : n;
        for (int64_t i = at; i < next; i++)
            x[i] = (x[i] - zero) * scale;
    }
}

/* A part of `rows` rows, no larger than a tile. */
static void decode_tile(const struct quant_cache *cache, const struct quant_matrix *m, const uint8_t *codes,
                        int64_t row, int64_t rows, int64_t column, int64_t n, float *to)
{
    if (!m->layout->bytes)
        m->layout->unpack(m, codes, row, rows, column, n, to);
    for (int64_t r = 0; r < rows; r++) {
        float *x = to + r * m->columns;
        for (int64_t i = 0; m->layout->bytes && i < n; i++)
            x[i] = cache->table[codes[r * m->columns + column + i]];
        scale_row(cache, m, row + r, column, n, x);
    }
}

/* Columns [column, column + n) of `rows` rows from `row` on; codes: of the first of them, or of all. Rows of `to` are as long as the
 * matrix's. */
static void decode(const struct quant_cache *cache, const struct quant_matrix *m, const uint8_t *codes, int64_t row,
                   int64_t rows, int64_t column, int64_t n, float *to)
{
    int64_t row_bytes = m->layout->whole ? 0 : m->codes.tensor->bytes / m->rows;
    for (int64_t r = 0; r < rows; r += QUANT_TILE_ROWS)
        for (int64_t c = 0; c < n; c += QUANT_TILE_COLUMNS) {
            int64_t tall = rows - r < QUANT_TILE_ROWS ? rows - r : QUANT_TILE_ROWS;
            int64_t wide = n - c < QUANT_TILE_COLUMNS ? n - c : QUANT_TILE_COLUMNS;
            decode_tile(cache, m, codes + r * row_bytes, row + r, tall, column + c, wide, to + r * m->columns + c);
        }
}

/* The rows, or the part of one, are codes of their own or in the tensor that is kept. */
static int read_rows(struct quant_cache *cache, const struct quant_matrix *m, int64_t row, int64_t rows, int64_t column,
                     int64_t n, float *to, struct snug_err *err)
{
    if (m->layout->whole) {
        decode(cache, m, cache->codes, row, rows, column, n, to);
        return SNUG_OK;
    }
    int64_t row_bytes = m->codes.tensor->bytes / m->rows;
    uint8_t *codes;
    int code = read_codes(m, row * row_bytes, rows * row_bytes, &codes, err);
    if (!code)
        decode(cache, m, codes, row, rows, column, n, to);
    mem_free(codes);
    return code;
}

int quant_read_matrix(struct quant_cache *cache, const void *of, int64_t first, int64_t n, float *to,
                      struct snug_err *err)
{
    const struct quant_matrix *m = of;
    if (cache->of != m)
        TRY(load(cache, m, err));
    while (n) {
        int64_t row = first / m->columns, column = first % m->columns, rest = m->columns - column;
        int64_t rows = column || n < m->columns ? 1 : n / m->columns;
        int64_t k = rows > 1 || rest < n ? rest : n;
        TRY(read_rows(cache, m, row, rows, column, k, to, err));
        first += rows * k;
        n -= rows * k;
        to += rows * k;
    }
    if (first == m->rows * m->columns)
        quant_cache_clear(cache); /* a weight is read from its beginning to its end */
    return SNUG_OK;
}

int quant_add_matrix(struct quant_finding *f, const char *name, int ndim, const int64_t *shape,
                     const struct quant_matrix *m, struct snug_err *err)
{
    struct quant_matrix *own = arena_alloc(f->arena, sizeof *own);
    struct st_tensor weight = {.name = name, .ndim = ndim, .at = m->codes.tensor->at};
    if (!own)
        return err_no_memory(err, sizeof *own);
    *own = *m;
    memcpy(weight.shape, shape, (size_t)ndim * sizeof *shape);
    return quant_add(f, weight, quant_read_matrix, own, err);
}
