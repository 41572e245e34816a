/* attention_tf32.cu: attention of floats on any GPU, its products made of tf32 factors: mma.m16n8k8. */
#include "cuda/attention/attention_float.cuh"

__device__ static inline float load_float(uint32_t address)
{
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address));
    return x;
}

__device__ static inline uint32_t to_tf32(float x)
{
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

__device__ static inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct tf32_engine : float_engine {
    template <int ROWS, int DP> __device__ static inline void scores(float (&s)[8][4], uint32_t a, int row0, uint32_t b)
    {
        int g = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
        uint32_t a_row = row_start(a, row0 + g) + 4 * (uint32_t)c, b_row = row_start(b, g) + 4 * (uint32_t)c;
        clear(s);
#pragma unroll
        for (int k = 0; k < DP / 8; k++) {
            uint32_t left[4], b0 = chunk_at<TILE>(b_row, 2 * k), b1 = chunk_at<TILE>(b_row, 2 * k + 1);
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                left[i] = to_tf32(load_float(chunk_at<ROWS>(a_row, 2 * k + (int)i / 2) + i % 2 * 1024));
#pragma unroll
            for (uint32_t j = 0; j < 8; j++)
                mma_tf32(s[j], left, to_tf32(load_float(b0 + j * 1024)), to_tf32(load_float(b1 + j * 1024)));
        }
    }

    /* Column c of a product of depth 8 is taken to be row 2c of b, column c + 4 row 2c + 1: so the lane has it. */
    template <int DP> __device__ static inline void add_product(float (&x)[DP / 8][4], const fragments &f, uint32_t b)
    {
        int g = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
        uint32_t row0 = (row_start(b, 2 * c) ^ (uint32_t)(g / 4 * 16)) + (uint32_t)(g % 4 * 4);
        uint32_t row1 = (row_start(b, 2 * c + 1) ^ (uint32_t)(g / 4 * 16)) + (uint32_t)(g % 4 * 4);
#pragma unroll
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t left[4] = {to_tf32(f.s[k][0]), to_tf32(f.s[k][2]), to_tf32(f.s[k][1]), to_tf32(f.s[k][3])};
#pragma unroll
            for (int j = 0; j < DP / 8; j++)
                mma_tf32(x[j], left, to_tf32(load_float(chunk_at<TILE>(row0, 2 * j) + k * 1024)),
                         to_tf32(load_float(chunk_at<TILE>(row1, 2 * j) + k * 1024)));
        }
    }
};

int attention_forward_tf32(const struct attention_params *p, const struct cuda_call *c)
{
    return WITH_HEAD_SIZE(p, forward, tf32_engine, p, c);
}

int attention_backward_tf32(const struct attention_params *p, const struct cuda_call *c)
{
    return WITH_HEAD_SIZE(p, backward, tf32_engine, p, c);
}

int general_forward_tf32(const struct attention_params *p, const struct cuda_call *c)
{
    return general_forward<tf32_engine, 64>(p, c);
}

int general_backward_tf32(const struct attention_params *p, const struct cuda_call *c)
{
    return general_backward<tf32_engine, 64>(p, c);
}

int biased_forward_tf32(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return biased_forward<tf32_engine, 64>(p, heads, c);
}

int biased_backward_tf32(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return biased_backward<tf32_engine, 64>(p, heads, c);
}
