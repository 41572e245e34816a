/* bounds.cuh: which rows a row's sequence has. */
#ifndef CUDA_BOUNDS_CUH
#define CUDA_BOUNDS_CUH

#include "cuda/kernels/kernel.cuh"

/* Rows [from, to) are those of sequence b. */
struct bounds {
    int64_t b, from, to;
};

/* The sequence that has row n; no rows, and no b, for one behind all sequences. cu has B + 1 entries. */
__device__ static inline struct bounds bounds_of(const int32_t *cu, int64_t B, int64_t n)
{
    int64_t low = 0, high = B; /* cu[low] <= n < cu[high] */
    if (B == 0 || n >= cu[B])
        return {-1, n, n};
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (cu[middle] <= n)
            low = middle;
        else
            high = middle;
    }
    return {low, cu[low], cu[low + 1]};
}

#endif
