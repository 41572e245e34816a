/* rounding.h: stochastic rounding to bf16. A weight that is stored in bf16, and its states, are rounded up with the
 * probability of what the nearest lower number leaves over, so that they are right on average. Steps below half a unit
 * in the last place are then not lost, and a moving average with a decay of 0.999 does decay (arXiv 2010.06192,
 * 2502.20566).
 *
 *     bf16(x) = the bits of the float x plus u, cut after 16 bits; u = 16 random bits
 *
 * u is a function of the seed, the number of the update, the tensor and the element, and of nothing else: not of threads,
 * backends, the plan, or of how a batch is cut; a run that is resumed goes on with the same.
 *
 * Key of Philox4x32-10: (seed low, seed high ^ ROUNDING_PURPOSE), which keeps it apart from dropout. Counter words:
 *     (update, tensor, block, part << 24 | high bits of the block)      block = element / 8: 8 numbers of 16 bits a call
 * Number i of a call is the i-th 16-bit half of its words, low end first. `tensor` is the update's attribute `noise`, by
 * the weight's name; `part` tells the weight from its states.
 *
 * This is an attribute of the updates and no op of its own: an op would need the new weight and its states in F32
 * somewhere between, 12 bytes an element of the largest tensor. The sum above is one of integers, which no compiler turns
 * into something else. */
#ifndef OP_ROUNDING_H
#define OP_ROUNDING_H

#include "base/philox.h"
#include "graph/op.h"

/* Which of a weight's tensors. A second state beside these is one more word here. */
enum rounding_part { ROUND_WEIGHT, ROUND_STATE1, ROUND_STATE2, ROUND_STATE3 };
enum { ROUNDING_BLOCK = 8 };
#define ROUNDING_PURPOSE 0x726F756Eu

struct rounding {
    uint32_t key[2], update, tensor;
    int64_t first; /* of a shard: the number of its first element */
};

/* step: the input of that name. first: of the weight that is updated (struct tensor); chunks of shards are whole blocks. */
ON_DEVICE static inline struct rounding rounding_of(const double *step, int64_t noise, int64_t first)
{
    struct rounding r = {{(uint32_t)step[STEP_SEED_LOW], (uint32_t)step[STEP_SEED_HIGH] ^ ROUNDING_PURPOSE},
                         (uint32_t)(uint64_t)step[STEP_UPDATE],
                         (uint32_t)noise,
                         first};
    return r;
}

/* The counter of a block of the tensor or shard. */
ON_DEVICE static inline struct philox rounding_counter(struct rounding r, enum rounding_part part, int64_t block)
{
    block += r.first / ROUNDING_BLOCK;
    struct philox c = {{r.update, r.tensor, (uint32_t)block, (uint32_t)part << 24 | (uint32_t)((uint64_t)block >> 32)}};
    return c;
}

/* The numbers of the block that element i is in. */
ON_DEVICE static inline struct philox rounding_bits(struct rounding r, enum rounding_part part, int64_t i)
{
    return philox4x32(rounding_counter(r, part, i / ROUNDING_BLOCK), r.key[0], r.key[1]);
}

/* That of element i. */
ON_DEVICE static inline uint32_t rounding_number(struct philox bits, int64_t i)
{
    int k = (int)(i % ROUNDING_BLOCK);
    return bits.w[k / 2] >> (16 * (k % 2)) & 0xFFFF;
}

/* The bf16 of the float with these bits. Infinities stay; NaN stays NaN. */
ON_DEVICE static inline uint16_t rounding_to_bf16(uint32_t float_bits, uint32_t number)
{
    bool nan = (float_bits & 0x7FFFFFFF) > 0x7F800000;
    return (uint16_t)((nan ? float_bits | 0x400000 : float_bits + number) >> 16);
}

#ifndef __CUDACC__
/* For the reference kernels, whose tensors are F64: x as it is stored. noise 0: as it is. */
double rounding_store(const double *step, int64_t noise, enum rounding_part part, int64_t i, double x);
#endif

#endif
