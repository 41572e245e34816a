/* mask.h: which elements dropout keeps. A mask is a function of the seed, the optimizer step, the sample's index within
 * that step and the element's place in the sample; never of how a batch is cut, packed or dealt out. So it need not
 * be stored: the backward pass and recomputation make it again, on any backend. (Where a kernel is faster with the bits of
 * attention's, they are kept: pass_keep_mask.)
 *
 * Key of Philox4x32-10: (seed low, seed high). Counter words:
 *     features             (step, sample, position, site << 20 | feature / 8)     8 decisions of 16 bits a call
 *     attention weights    (step, sample, head << 20 | query, site << 20 | key / 16)   16 decisions of 8 bits a call
 * Decision i of a call is the i-th 16-bit half (or byte) of its words, low end first. An element is dropped when its
 * bits are below the threshold, and the kept ones are scaled by the exact inverse of the kept share. With 8 bits the
 * share of attention dropout is a multiple of 1/256 (0.1 becomes 26/256 = 0.1016), as in FlashAttention-2: half the
 * random bits for the largest tensor of the model; features use 16 bits. `site` numbers the dropouts of a model. */
#ifndef OP_MASK_H
#define OP_MASK_H

#include "base/philox.h"

/* Thresholds for probability p; a p above 0 always drops something. */
ON_DEVICE static inline uint32_t mask_threshold16(double p)
{
    uint32_t t = (uint32_t)(p * 65536 + 0.5);
    return p > 0 && t == 0 ? 1 : t > 65535 ? 65535 : t;
}

ON_DEVICE static inline uint32_t mask_threshold8(double p)
{
    uint32_t t = (uint32_t)(p * 256 + 0.5);
    return p > 0 && t == 0 ? 1 : t > 255 ? 255 : t;
}

ON_DEVICE static inline double mask_scale16(double p)
{
    return 65536.0 / (65536 - mask_threshold16(p));
}

ON_DEVICE static inline double mask_scale8(double p)
{
    return 256.0 / (256 - mask_threshold8(p));
}

/* rng: the rng input; coord: (sample, position) of the row. */
ON_DEVICE static inline struct philox mask_feature_bits(const int32_t *rng, int64_t site, const int32_t *coord,
                                                        int64_t feature)
{
    struct philox c = {
        {(uint32_t)rng[2], (uint32_t)coord[0], (uint32_t)coord[1], (uint32_t)site << 20 | (uint32_t)(feature / 8)}};
    return philox4x32(c, (uint32_t)rng[0], (uint32_t)rng[1]);
}

ON_DEVICE static inline int mask_keeps_feature(struct philox bits, int64_t feature, uint32_t threshold)
{
    int i = (int)(feature % 8);
    return (bits.w[i / 2] >> (16 * (i % 2)) & 0xFFFF) >= threshold;
}

/* query and key count from the start of their sequence. */
ON_DEVICE static inline struct philox mask_attention_bits(const int32_t *rng, int64_t site, int32_t sample,
                                                          int64_t head, int64_t query, int64_t key)
{
    struct philox c = {{(uint32_t)rng[2], (uint32_t)sample, (uint32_t)(head << 20 | query),
                        (uint32_t)site << 20 | (uint32_t)(key / 16)}};
    return philox4x32(c, (uint32_t)rng[0], (uint32_t)rng[1]);
}

ON_DEVICE static inline int mask_keeps_key(struct philox bits, int64_t key, uint32_t threshold)
{
    int i = (int)(key % 16);
    return (bits.w[i / 4] >> (8 * (i % 4)) & 0xFF) >= threshold;
}

#endif
