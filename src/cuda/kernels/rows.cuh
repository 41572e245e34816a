/* rows.cuh: how norms lay rows over lanes: W warps a row, PER accesses of N elements a lane. */
#ifndef CUDA_ROWS_CUH
#define CUDA_ROWS_CUH

#include "cuda/kernels/kernel.cuh"

enum { LANE = 32 };

/* Sums of x over the W warps of a row, in all of them. `at`: two floats a warp of shared memory, not those of the call
 * before; `barrier` is the row's own. */
template <int W> __device__ static inline float2 row_sum(float2 x, float2 *at, int barrier)
{
    x = make_float2(warp_sum(x.x), warp_sum(x.y));
    if constexpr (W > 1) {
        int warp = threadIdx.x / LANE % W;
        if (threadIdx.x % LANE == 0)
            at[warp] = x;
        asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(W * LANE) : "memory");
        x = at[0];
        for (int i = 1; i < W; i++)
            x = make_float2(x.x + at[i].x, x.y + at[i].y);
    }
    return x;
}

#endif
