/* attention_fp32.cu: attention of floats on any GPU, without matrix instructions. */
#include "cuda/attention/attention_float.cuh"

__device__ static inline float4 load_float4(uint32_t address)
{
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(address));
    return x;
}

__device__ static inline float dot(float4 a, float4 b, float sum)
{
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

struct plain_engine : float_engine {
    /* Four neighbours for each lane, to be loaded together. */
    __device__ static inline int column(int j)
    {
        return j / 2 * 16 + (int)threadIdx.x % 4 * 4 + j % 2 * 2;
    }

    template <int ROWS, int DP> __device__ static inline void scores(float (&s)[8][4], uint32_t a, int row0, uint32_t b)
    {
        int g = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
        uint32_t a_row = row_start(a, row0 + g), b_row[2] = {row_start(b, 2 * c), row_start(b, 2 * c + 1)};
        clear(s);
#pragma unroll 2
        for (int k = 0; k < DP / 4; k++) {
            float4 left0 = load_float4(chunk_at<ROWS>(a_row, k)), left1 = load_float4(chunk_at<ROWS>(a_row, k) + 1024);
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float4 right = load_float4(chunk_at<TILE>(b_row[e], k) + (uint32_t)j * 1024);
                    s[j][e] = dot(left0, right, s[j][e]);
                    s[j][2 + e] = dot(left1, right, s[j][2 + e]);
                }
        }
    }

    template <int DP> __device__ static inline void add_product(float (&x)[DP / 8][4], const fragments &f, uint32_t b)
    {
        uint32_t start = b + threadIdx.x % 4 * 16;
#pragma unroll
        for (int k = 0; k < TILE; k++) {
            int owner = k % 8 / 2; /* of the quad: has column k of the fragments */
            float left0 = __shfl_sync(0xFFFFFFFFu, f.s[k / 8][k % 2], owner, 4);
            float left1 = __shfl_sync(0xFFFFFFFFu, f.s[k / 8][2 + k % 2], owner, 4);
#pragma unroll
            for (int j = 0; j < DP / 8; j += 2) {
                float4 right = load_float4(chunk_at<TILE>(start ^ (uint32_t)(k % 8 * 16), 2 * j) + (uint32_t)k * 128);
                x[j][0] = fmaf(left0, right.x, x[j][0]);
                x[j][1] = fmaf(left0, right.y, x[j][1]);
                x[j + 1][0] = fmaf(left0, right.z, x[j + 1][0]);
                x[j + 1][1] = fmaf(left0, right.w, x[j + 1][1]);
                x[j][2] = fmaf(left1, right.x, x[j][2]);
                x[j][3] = fmaf(left1, right.y, x[j][3]);
                x[j + 1][2] = fmaf(left1, right.z, x[j + 1][2]);
                x[j + 1][3] = fmaf(left1, right.w, x[j + 1][3]);
            }
        }
    }
};

int attention_forward_fp32(const struct attention_params *p, const struct cuda_call *c)
{
    return WITH_HEAD_SIZE(p, forward, plain_engine, p, c);
}

int attention_backward_fp32(const struct attention_params *p, const struct cuda_call *c)
{
    return WITH_HEAD_SIZE(p, backward, plain_engine, p, c);
}

int general_forward_fp32(const struct attention_params *p, const struct cuda_call *c)
{
    return general_forward<plain_engine, 64>(p, c);
}

int general_backward_fp32(const struct attention_params *p, const struct cuda_call *c)
{
    return general_backward<plain_engine, 64>(p, c);
}

int biased_forward_fp32(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return biased_forward<plain_engine, 64>(p, heads, c);
}

int biased_backward_fp32(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return biased_backward<plain_engine, 64>(p, heads, c);
}
