/* attention_half.cuh: the left factors of 16-bit products in registers. They are the same for mma.m16n8k16 and for
 * wgmma: the results of one product, in pairs, are the left factor of the next. */
#ifndef CUDA_ATTENTION_HALF_CUH
#define CUDA_ATTENTION_HALF_CUH

#include "cuda/attention/attention_mask.cuh"
#include "cuda/kernels/matrices.cuh"
#include "cuda/kernels/vector.cuh"

/* pack_pair with 0 for negative values. */
__device__ static inline uint32_t pack_positive(float low, float high, __nv_bfloat16)
{
    uint32_t x;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}

__device__ static inline uint32_t pack_positive(float low, float high, __half)
{
    uint32_t x;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}

/* 16 rows, 64 columns: r[k] are columns 16k to 16k + 15. */
struct half_fragments {
    uint32_t r[4][4];
};

template <class T> __device__ static inline void half_make(struct half_fragments &f, const float (&s)[8][4])
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        f.r[j / 2][j % 2 * 2] = pack_pair(s[j][0], s[j][1], T());
        f.r[j / 2][j % 2 * 2 + 1] = pack_pair(s[j][2], s[j][3], T());
    }
}

template <class T> __device__ static inline void half_make_positive(struct half_fragments &f, const float (&s)[8][4])
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        f.r[j / 2][j % 2 * 2] = pack_positive(s[j][0], s[j][1], T());
        f.r[j / 2][j % 2 * 2 + 1] = pack_positive(s[j][2], s[j][3], T());
    }
}

/* With 0 where a flag is down (attention_engine.cuh, flags_of_keys). */
template <class T>
__device__ static inline void half_make_masked(struct half_fragments &f, const float (&s)[8][4],
                                               const uint32_t (&flags)[2][4])
{
    half_make<T>(f, s);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            f.r[j / 2][j % 2 * 2 + h] = mask_pair(f.r[j / 2][j % 2 * 2 + h], flags[h][j / 2], j % 2 * 2);
}

#endif
