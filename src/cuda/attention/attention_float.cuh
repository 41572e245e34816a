/* attention_float.cuh: what attention's engines for float share. */
#ifndef CUDA_ATTENTION_FLOAT_CUH
#define CUDA_ATTENTION_FLOAT_CUH

#include "cuda/attention/attention_any.cuh"

/* Their left factors are the scores as they are. */
struct float_engine : engine_in_step {
    using type = float;
    struct fragments {
        float s[8][4];
    };

    __device__ static inline void make(fragments &f, const float (&s)[8][4])
    {
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                f.s[j][k] = s[j][k];
    }
    __device__ static inline void make_masked(fragments &f, const float (&s)[8][4], const uint32_t (&flags)[2][4])
    {
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                f.s[j][k] = mask_float(s[j][k], flags[k / 2][j / 2], j % 2 * 2 + k % 2);
    }
};

#endif
