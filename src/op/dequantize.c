/* Weights of 4 bits as numbers (op/quantize.h), w (…) in codes, with m blocks of QUANT_BLOCK elements:
 *     y[i] = table[w[i]] a[i / QUANT_BLOCK]                                absmax (m):  a = absmax
 *     nested (1 + m / MAP_BLOCK): a[j] = map[absmax[j]] nested[1 + j / MAP_BLOCK] + nested[0], where absmax are codes
 * Each step is rounded to F32, as bitsandbytes has it; y to nearest even. */
#include "graph/graph.h"
#include "op/optimizer/dynamic_map.h"
#include "op/quantize.h"

void shape_dequantize(struct graph *g, struct op_dequantize *n)
{
    const struct dims none = {0};
    const struct value w = *graph_value(g, n->w), *a = graph_value(g, n->absmax), *m = graph_value(g, n->nested);
    int64_t blocks = quant_blocks(value_elements(&w, none));
    bool fits = value_is_coded(&w) && a->ndim == 1 && dim_equal(a->shape[0], DIM(blocks)) &&
                (a->dtype == DT_U8) == (n->nested != 0) &&
                (!n->nested || (m->ndim == 1 && dim_equal(m->shape[0], DIM(quant_nested_floats(blocks)))));
    if (shape_require(
            g, fits && n->table >= 0 && n->table < QUANT_COUNT, "dequantize",
            "w must be in codes of 4 bits, absmax have one number for every 64 of them, in codes of 8 bits where "
            "there is nested"))
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

void ref_dequantize(const struct args_dequantize *a, const struct call *c)
{
    (void)c;
    const uint8_t *codes = a->w.data;
    const float *table = quant_table[a->table];
    for (int64_t i = 0; i < tensor_elements(&a->w); i++) {
        float number = table[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4];
        ((double *)a->y.data)[i] = (double)(number * largest_of(a, i / QUANT_BLOCK));
    }
}
