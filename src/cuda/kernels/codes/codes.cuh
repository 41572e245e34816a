/* codes.cuh: codes of 8 bits (F8_E4M3) as numbers. */
#ifndef CUDA_CODES_CUH
#define CUDA_CODES_CUH

#include "cuda/kernels/vector.cuh"

#include <cuda_fp8.h>

/* N neighbouring codes, times their row's scale; N is 1, or 8 where p is a multiple of that. */
template <int N> __device__ static inline void load_codes(float (&v)[N], const uint8_t *p, float scale)
{
    if constexpr (N == 1)
        v[0] = __half2float(__half(__nv_cvt_fp8_to_halfraw(*p, __NV_E4M3))) * scale;
    else {
        pack<uint16_t, N / 2> codes = *(const pack<uint16_t, N / 2> *)p;
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            float2 pair = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(codes.v[i / 2], __NV_E4M3)));
            v[i] = pair.x * scale;
            v[i + 1] = pair.y * scale;
        }
    }
}

#endif
