/* feature_mask.cuh: dropout of features (op/mask.h) for a kernel's rows. One Philox call decides over 8 features; where
 * a lane holds only 4 of them (F32), it is made twice. */
#ifndef CUDA_FEATURE_MASK_CUH
#define CUDA_FEATURE_MASK_CUH

#include "cuda/kernels/kernel.cuh"

struct feature_mask {
    const int32_t *rng;    /* (4): seed, step */
    const int32_t *coords; /* (rows,2): sample and position; NULL: nothing is dropped */
    int64_t site;          /* of the dropout */
    uint32_t threshold;    /* in 65536ths: what share is dropped */
    float scale;           /* of what is kept */
};

/* Of a node's slots and attributes; coords may be absent where p is 0. */
static inline struct feature_mask feature_mask(const struct tensor *rng, const struct tensor *coords, int64_t site,
                                               double p)
{
    struct feature_mask m = {(const int32_t *)rng->data, (const int32_t *)coords->data, site, mask_threshold16(p),
                             (float)mask_scale16(p)};
    if (p <= 0)
        m.coords = NULL;
    return m;
}

/* What the decisions over a row depend on. */
struct row_mask {
    int32_t rng[3], coord[2];
};

/* For a lane's first row; mask_set_row for that one and each that follows. Without dropout neither reads anything. */
__device__ static inline struct row_mask mask_start(const struct feature_mask &m)
{
    struct row_mask r = {{0}, {0}};
    for (int i = 0; m.coords && i < 3; i++)
        r.rng[i] = __ldg(m.rng + i);
    return r;
}

__device__ static inline void mask_set_row(const struct feature_mask &m, struct row_mask *r, int64_t n)
{
    for (int i = 0; m.coords && i < 2; i++)
        r->coord[i] = __ldg(m.coords + 2 * n + i);
}

/* v times the mask of a row, features [feature, feature + N); feature is a multiple of N. With a p of 0 that
 * is v itself. */
template <int N>
__device__ static inline void mask_apply(const struct feature_mask &m, const struct row_mask &row, int64_t feature,
                                         float (&v)[N])
{
    static_assert(N == 8 || N == 4 || N == 1, "a part of a call's 8 decisions");
    struct philox bits = mask_feature_bits(row.rng, m.site, row.coord, feature);
    uint32_t w[4] = {bits.w[0], bits.w[1], bits.w[2], bits.w[3]};
    if (N < 8 && (feature & 4))
        w[0] = w[2], w[1] = w[3];
    if constexpr (N == 1) {
        w[0] = feature & 2 ? w[1] : w[0];
        w[0] = feature & 1 ? w[0] >> 16 : w[0];
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = (w[i / 2] >> (16 * (i % 2)) & 0xFFFF) >= m.threshold ? v[i] * m.scale : 0;
}

#endif
