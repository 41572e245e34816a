/* quantize.h: weights of 4 bits, as bitsandbytes has them (QLoRA: Dettmers et al., arXiv 2305.14314). A tensor is cut into blocks of
 * QUANT_BLOCK consecutive elements, the last one may be shorter. An element is a code of 4 bits, which stands for a number of a
 * table, times the largest magnitude of its block. Two codes are a byte, the first in its upper half.
 *
 * Nested, the largest magnitudes are codes themselves, of 8 bits (op/optimizer/dynamic_map.h, signed): what they are beyond their mean,
 * in blocks of MAP_BLOCK. Beside them are floats: the mean, then the largest magnitude of each such block. */
#ifndef OP_QUANTIZE_H
#define OP_QUANTIZE_H

#include <stdint.h>

/* W(id, word): what the codes stand for. NF4 are quantiles of the normal distribution, FP4 floats with two bits of exponent. ORDER
 * quant_type */
#define QUANT_TYPES(W)                                                                                                 \
    W(QUANT_NF4, "nf4")                                                                                                \
    W(QUANT_FP4, "fp4")
#define QUANT_ID(id, word) id,
enum quant_type { QUANT_TYPES(QUANT_ID) QUANT_COUNT };
#undef QUANT_ID

enum { QUANT_CODES = 16, QUANT_BLOCK = 64 };

extern const float quant_table[QUANT_COUNT][QUANT_CODES]; /* by code */

static inline int64_t quant_blocks(int64_t elements)
{
    return (elements + QUANT_BLOCK - 1) / QUANT_BLOCK;
}

/* Floats beside nested magnitudes of so many blocks. */
int64_t quant_nested_floats(int64_t blocks);

/* Both give the same for any number of threads. n elements, which begin a block: codes gets n / 2 bytes, rounded up, absmax one for each block. What is not finite becomes some code. */
void quantize(enum quant_type type, const float *x, int64_t n, int threads, uint8_t *codes, float *absmax);

/* What the largest magnitudes of n blocks are made of where they are codes: quant_nested_floats(n) numbers. */
void quantize_absmax_scales(const float *absmax, int64_t n, float *nested);
/* The magnitudes as codes of 8 bits, beside such numbers. */
void quantize_absmax(const float *absmax, int64_t n, const float *nested, int threads, uint8_t *codes);

/* What they stand for, as kernels have it (op/codes/dequantize.c): n elements, which begin a block; the magnitudes of n blocks from block
 * `first` on. */
void quantize_numbers(enum quant_type type, const uint8_t *codes, const float *absmax, int64_t n, float *x);
void quantize_absmax_numbers(const uint8_t *codes, const float *nested, int64_t first, int64_t n, float *absmax);

#endif
