/* dequantize: weights in codes as numbers; F32 and BF16. Of 4 bits each byte's two numbers are looked up at once; those of 8 bits are in
 * fp8.c. Bound by the bytes of y. */
#include "cpu/codes/fp8.h"
#include "op/codes/quantize.h"
#include "op/optimizer/dynamic_map.h"

enum { BLOCKS = 256 }; /* that a thread takes at a time */

/* What each byte stands for. */
struct pairs {
    float of[256][2];
};

static void make_pairs(struct pairs *p, const float *table)
{
    for (int i = 0; i < 256; i++) {
        p->of[i][0] = table[i >> 4];
        p->of[i][1] = table[i & 15];
    }
}

static float largest_of(const struct args_dequantize *a, const float *map, int64_t block)
{
    const float *nested = a->nested.data;
    if (!nested)
        return ((const float *)a->absmax.data)[block];
    float beyond = map[((const uint8_t *)a->absmax.data)[block]] * nested[1 + block / MAP_BLOCK];
    return beyond + nested[0];
}

static void decode_block(const struct args_dequantize *a, const struct pairs *p, float most, int64_t from, int64_t n)
{
    const uint8_t *codes = (const uint8_t *)a->w.data + from / 2;
    float x[QUANT_BLOCK];
    for (int64_t i = 0; i < (n + 1) / 2; i++)
        memcpy(x + 2 * i, p->of[codes[i]], sizeof p->of[0]);
    for (int64_t i = 0; i < n; i += VF_LANES)
        vf_put_upto(a->y.data, from + i, vf_get_upto(x, i, n - i, false) * most, n - i, a->y.dtype == DT_BF16);
}

static void decode_blocks(const struct args_dequantize *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->w), blocks = quant_blocks(n);
    struct pairs p;
    float map[MAP_CODES];
    make_pairs(&p, quant_table[a->table]);
    for (int i = 0; i < MAP_CODES; i++)
        map[i] = map_signed(i);
#pragma omp parallel for schedule(static) num_threads(blocks <= BLOCKS ? 1 : c->threads)
    for (int64_t first = 0; first < blocks; first += BLOCKS)
        for (int64_t k = first; k < first + BLOCKS && k < blocks; k++) {
            int64_t from = k * QUANT_BLOCK, count = n - from < QUANT_BLOCK ? n - from : QUANT_BLOCK;
            decode_block(a, &p, largest_of(a, map, k), from, count);
        }
}

void ISA(cpu_dequantize)(const struct args_dequantize *a, const struct call *c)
{
    if (a->w.dtype == DT_F8_E4M3)
        ISA(fp8_widen)(&a->w, &a->absmax, a->y.data, a->y.dtype, c->threads);
    else
        decode_blocks(a, c);
}
