/* attention_16bit.cuh: attention's engine for 16-bit types on any GPU: mma.m16n8k16. */
#ifndef CUDA_ATTENTION_16BIT_CUH
#define CUDA_ATTENTION_16BIT_CUH

#include "cuda/attention/attention_any.cuh"
#include "cuda/attention/attention_half.cuh"

#define MMA_16(NAME, TYPE)                                                                                             \
    __device__ static inline void mma_16(float(&d)[4], const uint32_t(&a)[4], uint32_t b0, uint32_t b1, TYPE)          \
    {                                                                                                                  \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME                                            \
                     ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "                                                       \
                     "{%8, %9}, {%0, %1, %2, %3};"                                                                     \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                  \
    }
MMA_16("bf16", __nv_bfloat16)
MMA_16("f16", __half)

template <class T> struct half_engine : engine_in_step {
    using type = T;
    using fragments = struct half_fragments;

    /* s = rows row0... of tile a times the rows of tile b. */
    template <int ROWS, int DP> __device__ static inline void scores(float (&s)[8][4], uint32_t a, int row0, uint32_t b)
    {
        int lane = (int)threadIdx.x % 32;
        uint32_t a_row = row_start(a, row0 + lane % 16) ^ (uint32_t)(lane / 16 * 16);
        uint32_t b_row = row_start(b, lane / 16 * 8 + lane % 8) ^ (uint32_t)(lane / 8 % 2 * 16);
        clear(s);
#pragma unroll
        for (int k = 0; k < DP / 16; k++) {
            uint32_t left[4];
            load_matrices(left, chunk_at<ROWS>(a_row, 2 * k));
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                uint32_t right[4];
                load_matrices(right, chunk_at<TILE>(b_row, 2 * k) + (uint32_t)j * 1024);
                mma_16(s[j], left, right[0], right[1], T());
                mma_16(s[j + 1], left, right[2], right[3], T());
            }
        }
    }

    template <int DP> __device__ static inline void add_product(float (&x)[DP / 8][4], const fragments &f, uint32_t b)
    {
        int lane = (int)threadIdx.x % 32;
        uint32_t row = row_start(b, lane % 16) ^ (uint32_t)(lane / 16 * 16);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < DP / 8; j += 2) {
                uint32_t right[4];
                load_matrices_transposed(right, chunk_at<TILE>(row, j) + (uint32_t)k * 2048);
                mma_16(x[j], f.r[k], right[0], right[1], T());
                mma_16(x[j + 1], f.r[k], right[2], right[3], T());
            }
    }

    __device__ static inline void make(fragments &f, const float (&s)[8][4])
    {
        half_make<T>(f, s);
    }
    __device__ static inline void make_masked(fragments &f, const float (&s)[8][4], const uint32_t (&flags)[2][4])
    {
        half_make_masked<T>(f, s, flags);
    }
};

#endif
