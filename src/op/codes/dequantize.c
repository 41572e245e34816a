/* Weights in codes as numbers, w (…).
 * Of 4 bits (op/codes/quantize.h), with m blocks of QUANT_BLOCK elements:
 *     y[i] = table[w[i]] a[i / QUANT_BLOCK]                                absmax (m):  a = absmax
 *     nested (1 + m / MAP_BLOCK): a[j] = map[absmax[j]] nested[1 + j / MAP_BLOCK] + nested[0], where absmax are codes
 * Each step is rounded to F32, as bitsandbytes has it; y to nearest even.
 * Of 8 bits (op/codes/fp8.h), with m rows of k elements: y[i] = w[i] absmax[i / k], which F32 has exactly. */
#include "graph/graph.h"
#include "op/codes/quantize.h"
#include "op/optimizer/dynamic_map.h"

void shape_dequantize(struct graph *g, struct op_dequantize *n)
{
    const struct dims none = {0};
    const struct value w = *graph_value(g, n->w), *a = graph_value(g, n->absmax), *m = graph_value(g, n->nested);
    bool rows = w.dtype == DT_F8_E4M3;
    int64_t blocks = rows ? value_rows(&w) : quant_blocks(value_elements(&w, none));
    bool fits = value_is_coded(&w) && a->ndim == 1 && dim_equal(a->shape[0], DIM(blocks)) &&
                (a->dtype == DT_U8) == (n->nested != 0) &&
                (!n->nested || (!rows && m->ndim == 1 && dim_equal(m->shape[0], DIM(quant_nested_floats(blocks)))));
    if (shape_require(
            g, fits && n->table >= 0 && n->table < QUANT_COUNT, "dequantize",
            "w must be in codes of 4 bits, absmax have one number for every 64 of them, in codes of 8 bits where "
            "there is nested; or w in codes of 8 bits, absmax one number for each of its rows"))
        n->y = shape_out(g, w.ndim, w.shape);
}

double flops_dequantize(const struct args_dequantize *a)
{
    return (double)tensor_elements(&a->w);
}

static float largest_of(const struct args_dequantize *a, int64_t block)
{
    const double *absmax = a->absmax.data, *nested = a->nested.data;
    if (!nested)
        return (float)absmax[block];
    float beyond = map_signed(((const uint8_t *)a->absmax.data)[block]) * (float)nested[1 + block / MAP_BLOCK];
    return beyond + (float)nested[0];
}

static void numbers_of_4_bits(const struct args_dequantize *a)
{
    const uint8_t *codes = a->w.data;
    const float *table = quant_table[a->table];
    for (int64_t i = 0; i < tensor_elements(&a->w); i++) {
        float number = table[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4];
        ((double *)a->y.data)[i] = (double)(number * largest_of(a, i / QUANT_BLOCK));
    }
}

static void numbers_of_8_bits(const struct args_dequantize *a)
{
    const uint8_t *codes = a->w.data;
    int64_t width = a->w.shape[a->w.ndim - 1];
    for (int64_t i = 0; i < tensor_elements(&a->w); i++)
        ((double *)a->y.data)[i] = (double)e4m3_to_float(codes[i]) * ((double *)a->absmax.data)[i / width];
}

void ref_dequantize(const struct args_dequantize *a, const struct call *c)
{
    (void)c;
    if (a->w.dtype == DT_F8_E4M3)
        numbers_of_8_bits(a);
    else
        numbers_of_4_bits(a);
}
