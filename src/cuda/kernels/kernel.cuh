/* kernel.cuh: what the CUDA kernels share. A kernel file (the same name as in op/) holds its __global__ functions and
 * one launcher for each op in it:
 *
 *     extern "C" int cuda_NAME(const struct args_NAME *a, const struct cuda_call *c)
 *
 * Contracts of a launcher are those of backend/backend.h, and:
 * - Data pointers are device memory.
 * - It only enqueues work on c->stream (never synchronises, allocates or copies to the host), so that it can be captured
 *   in a CUDA graph.
 * - Sizes are taken from the shapes on the host, everything else (cu_seqlens, labels, step) is read on the device.
 * - There are no float atomics, and sums are cut by shape only.
 * It ends with `return cuda_launched(c, "NAME")`. */
#ifndef CUDA_KERNEL_CUH
#define CUDA_KERNEL_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern "C" {
#include "base/err.h"
#include "cuda/kernels.h"
#include "graph/op.h"
#include "op/mask.h"
}

/* ---- types ---- */

/* Arithmetic is in float; T is how a value lies in memory. */
template <class T> __device__ static inline float to_float(T x)
{
    return (float)x;
}
template <class T> __device__ static inline T from_float(float x)
{
    return (T)x; /* rounded to nearest even */
}

/* N values of T as one aligned access (16 bytes when N is 16 / sizeof(T)). */
template <class T, int N> struct __align__(sizeof(T) * N) pack
{
    T v[N];
};

template <class T> constexpr int pack_width = 16 / (int)sizeof(T);

/* Calls f<T>(...) for the C++ type of a float dtype. */
#define WITH_FLOAT_TYPE(dtype, T, ...)                                                                                 \
    switch (dtype) {                                                                                                   \
    case DT_BF16: {                                                                                                    \
        using T = __nv_bfloat16;                                                                                       \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    case DT_F16: {                                                                                                     \
        using T = __half;                                                                                              \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    default: {                                                                                                         \
        using T = float;                                                                                               \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    }

/* ---- exponentials by the hardware's approximation ---- */

constexpr float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;

__device__ static inline float exp2_fast(float x) /* 2 ulp; 0 for -inf */
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ static inline float exp_fast(float x) /* the relative error grows with |x| as that of x log2 e does */
{
    return exp2_fast(x * LOG2E);
}

/* ---- sums in a fixed order ---- */

/* All lanes get the sum (a butterfly: the same order in every lane). */
__device__ static inline float warp_sum(float x)
{
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, d);
    return x;
}

/* Of lanes 4 i to 4 i + 3. */
__device__ static inline float quad_sum(float x)
{
    x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}

__device__ static inline float warp_max(float x)
{
    for (int d = 16; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, d));
    return x;
}

/* ---- launching ---- */

static inline int cuda_launched(const struct cuda_call *c, const char *op)
{
    return cuda_check(cudaGetLastError(), op, c->err);
}

#endif
