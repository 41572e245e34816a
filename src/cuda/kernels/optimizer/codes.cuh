/* codes.cuh: states of 8 bits on a GPU: from codes to numbers and back (op/optimizer/dynamic_map.h). */
#ifndef CUDA_CODES_CUH
#define CUDA_CODES_CUH

#include "cuda/kernels/kernel.cuh"

extern "C" {
#include "op/optimizer/dynamic_map.h"
}

/* What the threads of a block share, in shared memory; by whether the codes are signed. */
struct code_tables {
    __align__(16) struct map_binade find[2][MAP_BINADES];
    float map[2][MAP_CODES];
};

/* By all threads of a block, which then wait for one another. */
__device__ static inline void code_tables_init(struct code_tables &t)
{
    for (int i = (int)threadIdx.x; i < MAP_CODES; i += (int)blockDim.x) {
        t.map[true][i] = map_signed(i);
        t.map[false][i] = map_unsigned(i);
    }
    for (int i = (int)threadIdx.x; i < 2 * 32; i += (int)blockDim.x) /* a warp for each map */
        if (i % 32 < MAP_BINADES)
            map_binade_init(&t.find[i / 32][i % 32], i % 32, i / 32 ? MAP_SIGNED_LAST : MAP_UNSIGNED_LAST);
}

__device__ static inline float code_value(const struct code_tables &t, bool is_signed, uint32_t code)
{
    return t.map[is_signed][code];
}

/* The number of the magnitude nearest to x >= 0, by the binade that x is in. */
__device__ static inline int nearest_magnitude(const struct map_binade *f, float x)
{
    int k = min(max((int)(__float_as_uint(x) >> 23) - (127 - 24), 0), MAP_BINADES - 1);
    uint4 w = *(const uint4 *)&f[k];
    bool high = x >= __uint_as_float(w.x);
    float scale = __uint_as_float(high ? w.z : w.y);
    int cells = high ? w.w >> 16 : w.w & 0xFFFF;
    int j = (int)fmaf(x, scale, (float)cells * (-1 / 9.0f));
    return cells + max(min(j, cells - 1), 0);
}

/* The code nearest to x, |x| <= 1. Below 0 it is not that of 0, and there is none of -1. */
__device__ static inline uint32_t nearest_code(const struct code_tables &t, bool is_signed, float x)
{
    int n = nearest_magnitude(t.find[is_signed], fabsf(x));
    if (!is_signed)
        return (uint32_t)(n - 1);
    return (uint32_t)(x < 0 ? MAP_SIGNED_ZERO - min(max(n, 1), 127) : MAP_SIGNED_ZERO + n);
}

#endif
