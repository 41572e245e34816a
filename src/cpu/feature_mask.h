/* feature_mask.h: the dropout mask of a row of features (op/mask.h), vectorised: one vectorised Philox call decides
 * 8 VF_LANES features. */
#ifndef CPU_FEATURE_MASK_H
#define CPU_FEATURE_MASK_H

#include "cpu/simd/simd_philox.h"
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

/* The 16 bits of each of the features [first, first + MASK_RUN) of row n, in order in memory (processors are
 * little-endian); `first` a multiple of MASK_RUN. */
SIMD void mask_draw(const struct feature_mask *m, int64_t n, int64_t first, uint32_t bits[MASK_RUN / 2])
{
    struct vphilox c = {{vu_set1((uint32_t)m->rng[2]), vu_set1((uint32_t)m->coords[2 * n]),
                         vu_set1((uint32_t)m->coords[2 * n + 1]), (vu)(vi_iota() + (int32_t)(first / 8)) | m->site}};
    vphilox_store(bits, vphilox4x32(c, (uint32_t)m->rng[0], (uint32_t)m->rng[1]));
}

/* x, features [first + i, first + i + VF_LANES), with its mask and scale. */
SIMD vf mask_apply(const struct feature_mask *m, const uint32_t *bits, int64_t i, vf x)
{
    vi keep = (vi)vu_from_vh(vh_load((const uint16_t *)bits + i)) >= (int32_t)m->threshold;
    return vf_where(keep, x * m->scale);
}

#endif
