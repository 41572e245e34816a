#include "op/codes/quantize.h"

#include "op/optimizer/codes.h"

#include <math.h>

/* ORDER quant_type. Those of NF4 are in the paper's appendix E. */
const float quant_table[QUANT_COUNT][QUANT_CODES] = {
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f},
    {0.0f, 0.0625f / 12, 8.0f / 12, 1.0f, 4.0f / 12, 6.0f / 12, 2.0f / 12, 3.0f / 12, -0.0f, -0.0625f / 12, -8.0f / 12,
     -1.0f, -4.0f / 12, -6.0f / 12, -2.0f / 12, -3.0f / 12},
};

int64_t quant_nested_floats(int64_t blocks)
{
    return 1 + (blocks + MAP_BLOCK - 1) / MAP_BLOCK;
}

/* The codes of a table in the order of their numbers, and what a number must exceed to be nearer to each than to the one before. */
struct steps {
    uint8_t code[QUANT_CODES];
    float above[QUANT_CODES];
};

static struct steps steps_of(const float *table)
{
    struct steps s;
    for (int i = 0; i < QUANT_CODES; i++) {
        int k = i;
        for (; k > 0 && table[s.code[k - 1]] > table[i]; k--)
            s.code[k] = s.code[k - 1];
        s.code[k] = (uint8_t)i;
    }
    for (int i = 1; i < QUANT_CODES; i++)
        s.above[i] = (table[s.code[i - 1]] + table[s.code[i]]) / 2;
    return s;
}

static float largest(const float *x, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* n <= QUANT_BLOCK elements; gives their largest magnitude. */
static float quantize_block(const struct steps *s, const float *x, int64_t n, uint8_t *codes)
{
    float most = largest(x, n), by = most > 0 ? 1 / most : 0, scaled[QUANT_BLOCK] = {0};
    int place[QUANT_BLOCK] = {0}; /* among the table's numbers, in their order */
    for (int64_t i = 0; i < n; i++)
        scaled[i] = x[i] * by;
    for (int k = 1; k < QUANT_CODES; k++)
        for (int i = 0; i < QUANT_BLOCK; i++)
            place[i] += scaled[i] > s->above[k];
    for (int64_t i = 0; i < n; i += 2)
        codes[i / 2] = (uint8_t)(s->code[place[i]] << 4 | s->code[place[i + 1]]);
    return most;
}

void quantize(enum quant_type type, const float *x, int64_t n, int threads, uint8_t *codes, float *absmax)
{
    const struct steps s = steps_of(quant_table[type]);
#pragma omp parallel for schedule(static) num_threads(threads) if (n > 1 << 16)
    for (int64_t from = 0; from < n; from += QUANT_BLOCK)
        absmax[from / QUANT_BLOCK] =
            quantize_block(&s, x + from, n - from < QUANT_BLOCK ? n - from : QUANT_BLOCK, codes + from / 2);
}

void quantize_absmax_scales(const float *absmax, int64_t n, float *nested)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)absmax[i];
    nested[0] = n > 0 ? (float)(sum / (double)n) : 0;
    for (int64_t from = 0; from < n; from += MAP_BLOCK) {
        float most = 0;
        for (int64_t i = from; i < n && i < from + MAP_BLOCK; i++)
            most = fmaxf(most, fabsf(absmax[i] - nested[0]));
        nested[1 + from / MAP_BLOCK] = most;
    }
}

void quantize_absmax(const float *absmax, int64_t n, const float *nested, int threads, uint8_t *codes)
{
    float map[MAP_CODES];
    for (int i = 0; i < MAP_CODES; i++)
        map[i] = map_signed(i);
#pragma omp parallel for schedule(static) num_threads(threads) if (n > 1 << 12)
    for (int64_t from = 0; from < n; from += MAP_BLOCK) {
        float most = nested[1 + from / MAP_BLOCK], by = most > 0 ? 1 / most : 0;
        for (int64_t i = from; i < n && i < from + MAP_BLOCK; i++)
            codes[i] = (uint8_t)codes_nearest(map, (double)((absmax[i] - nested[0]) * by));
    }
}

void quantize_numbers(enum quant_type type, const uint8_t *codes, const float *absmax, int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = quant_table[type][i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * absmax[i / QUANT_BLOCK];
}

void quantize_absmax_numbers(const uint8_t *codes, const float *nested, int64_t first, int64_t n, float *absmax)
{
    for (int64_t i = 0; i < n; i++)
        absmax[i] = map_signed(codes[i]) * nested[1 + (first + i) / MAP_BLOCK] + nested[0];
}
