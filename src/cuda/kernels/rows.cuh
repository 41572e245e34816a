/* rows.cuh: how norms lay rows over lanes: W warps a row, PER accesses of N elements a lane. And what their backward kernels share:
 * how rows are dealt out to blocks, how a lane gets its part of one, how a block's sums over its rows are put together. */
#ifndef CUDA_ROWS_CUH
#define CUDA_ROWS_CUH

#include "cuda/kernels/vector.cuh"

enum { LANE = 32 };

/* Sums of x over the W warps of a row, in all of them, which all call it. `at`: W pairs in shared memory, not those of the call
 * before; `barrier` is the row's own, from 1 on (__syncthreads is 0). */
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

/* ---- backward ---- */

enum { NORM_CHUNKS = 264, NORM_GROUPS = 2 };

/* Blocks for N rows, each a chunk of them. */
static inline int64_t norm_chunks(int64_t N)
{
    int64_t n = (N + NORM_GROUPS - 1) / NORM_GROUPS;
    return n < NORM_CHUNKS ? n : NORM_CHUNKS;
}

/* A lane's part of a row as it lies in memory, so that the next row's is on its way while this one is worked on. */
template <class T, int N, int PER> struct row_words {
    struct words<T, N> dy[PER], h[PER], dh[PER];
};

/* The lane's part of row n of matrices (rows,H); dh may be NULL. `lane` counts through the row's warps. */
template <class T, int N, int PER, int W>
__device__ static inline void row_fetch(struct row_words<T, N, PER> *r, const void *dy, const void *h, const void *dh,
                                        int64_t n, int64_t H, int lane)
{
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t column = (int64_t)(k * LANE * W + lane) * N, at = n * H + column;
        if (column >= H)
            continue;
        r->dy[k] = fetch<T, N>((const T *)dy + at);
        r->h[k] = fetch<T, N>((const T *)h + at);
        if (dh)
            r->dh[k] = fetch<T, N>((const T *)dh + at);
    }
}

/* Adds up the sums of the ROWS rows that a block works on at once, in order, and writes them to `to` (H), F32. `folded`: PER * N * W * LANE
 * floats of shared memory. All threads of the block call it. */
template <int N, int PER, int W, int ROWS>
__device__ static __forceinline__ void rows_sum(float *to, float (&sums)[PER][N], float *folded, int64_t H, int row,
                                                int lane)
{
    for (int other = 1; other < ROWS; other++) {
        __syncthreads();
        if (row == other)
#pragma unroll
            for (int k = 0; k < PER; k++)
#pragma unroll
                for (int i = 0; i < N; i++)
                    folded[(k * N + i) * LANE * W + lane] = sums[k][i];
        __syncthreads();
        if (row == 0)
#pragma unroll
            for (int k = 0; k < PER; k++)
#pragma unroll
                for (int i = 0; i < N; i++)
                    sums[k][i] += folded[(k * N + i) * LANE * W + lane];
    }
    if (row == 0)
#pragma unroll
        for (int k = 0; k < PER; k++)
            if ((int64_t)(k * LANE * W + lane) * N < H)
                store<float, N>(to + (k * LANE * W + lane) * N, sums[k]);
}

#endif
