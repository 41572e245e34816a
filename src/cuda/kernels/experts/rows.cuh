/* rows.cuh: what kernels share that give each row a warp, and how a row's expert is found. */
#ifndef CUDA_EXPERTS_ROWS_CUH
#define CUDA_EXPERTS_ROWS_CUH

#include "cuda/kernels/vector.cuh"

enum { LANE = 32, WARPS = 8 };

static inline unsigned blocks_for(int64_t rows)
{
    return (unsigned)((rows + WARPS - 1) / WARPS);
}

__device__ static inline int64_t row_of_warp()
{
    return (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
}

/* The expert that has row `place` of rows that are sorted by expert. */
__device__ static inline int expert_of(const int32_t *offsets, int E, int64_t place)
{
    int low = 0, high = E; /* offsets[low] <= place < offsets[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (offsets[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Calls f<N> for packs of 16 bytes where they fit, else for single elements. */
#define WITH_WIDTH(fits, T, N, ...)                                                                                    \
    if (fits) {                                                                                                        \
        constexpr int N = pack_width<T>;                                                                               \
        __VA_ARGS__;                                                                                                   \
    } else {                                                                                                           \
        constexpr int N = 1;                                                                                           \
        __VA_ARGS__;                                                                                                   \
    }

#endif
