/* disentangled.cuh: what the kernels of disentangled attention share. */
#ifndef CUDA_KERNELS_DISENTANGLED_CUH
#define CUDA_KERNELS_DISENTANGLED_CUH

#include "cuda/kernels/sequences/bounds.cuh"

/* A row's sequence: length 0 where the row is behind the last one. */
struct sequence {
    int64_t first, length;
};

__device__ static inline struct sequence sequence_of(const int32_t *cu, int64_t B, int64_t row)
{
    struct bounds s = bounds_of(cu, B, row);
    return {s.from, s.to - s.from};
}

/* The least distance whose row is `row` or behind it; `longest` where none is. rows: of distance 0, for distances below `longest`. They
 * never decrease with the distance. */
__device__ static inline int64_t first_distance(const int32_t *rows, int64_t longest, int64_t row)
{
    int64_t low = 1 - longest, high = longest;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
