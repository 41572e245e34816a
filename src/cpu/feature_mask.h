/* feature_mask.h: the dropout mask of a row of features (op/mask.h), vectorised: one vectorised Philox call decides
 * 8 VF_LANES features. */
#ifndef CPU_FEATURE_MASK_H
#define CPU_FEATURE_MASK_H

#include "cpu/simd.h"
#include "graph/op.h"
#include "op/mask.h"

enum { MASK_RUN = 8 * VF_LANES }; /* features decided at once */

struct feature_mask {
    const int32_t *rng, *coords; /* coords NULL: nothing is dropped */
    uint32_t site, threshold;
    float scale; /* of what is kept */
};

SIMD struct feature_mask feature_mask(const struct tensor *rng, const struct tensor *coords, int64_t site, double p)
{
    bool drops = p > 0 && coords->data;
    return (struct feature_mask){.rng = rng->data,
                                 .coords = drops ? coords->data : NULL,
                                 .site = (uint32_t)site << 20,
                                 .threshold = mask_threshold16(p),
                                 .scale = (float)mask_scale16(p)};
}

/* The bits of features [first, first + MASK_RUN) of row n; `first` a multiple of MASK_RUN. */
SIMD void mask_draw(const struct feature_mask *m, int64_t n, int64_t first, uint16_t bits[MASK_RUN])
{
    struct vphilox c = {{vu_set1((uint32_t)m->rng[2]), vu_set1((uint32_t)m->coords[2 * n]),
                         vu_set1((uint32_t)m->coords[2 * n + 1]), (vu)(vi_iota() + (int32_t)(first / 8)) | m->site}};
    uint32_t words[4 * VF_LANES];
    vphilox_store(words, vphilox4x32(c, (uint32_t)m->rng[0], (uint32_t)m->rng[1]));
    for (int i = 0; i < MASK_RUN; i++) /* the low half of a word comes first, whatever the byte order */
        bits[i] = (uint16_t)(words[i / 2] >> 16 * (i % 2));
}

/* x with its mask and scale; `bits` of its VF_LANES features. */
SIMD vf mask_apply(const struct feature_mask *m, const uint16_t *bits, vf x)
{
    vi keep = __builtin_convertvector(vh_load(bits), vi) >= (int32_t)m->threshold;
    return vf_where(keep, x * m->scale);
}

#endif
