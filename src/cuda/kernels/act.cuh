/* act.cuh: activation functions and their derivatives (op/act.c) in float, for a kernel's elements, and the launcher of
 * an activation behind a matrix product. T is the type that a result will be rounded to: where that has 16 bits,
 * what is far below its rounding is saved, since in linear_sm90.cu gelu and its slope take a seventh of the product's time. What is
 * added to a product is spelled out (fmaf, __fmul_rn), so that the compiler has no choice. */
#ifndef CUDA_ACT_CUH
#define CUDA_ACT_CUH

#include "cuda/kernels/kernel.cuh"

__device__ static inline float inverse_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / (1 + 2^-x) */
template <class T> __device__ static inline float sigmoid2(float x)
{
    return inverse_fast(1 + (sizeof(T) == 4 ? exp2f(-x) : exp2_fast(-x)));
}

/* Of the standard normal distribution: the density, and what lies below x. Beyond |x| lies density t P(t), t = 1 / (1 + c |x|);
 * relative errors of P: 4e-8 for F32, and 9e-5 for 16 bits (|x| < 6). */
template <class T> __device__ static inline float normal(float x, float *density)
{
    const float LOG2_DENSITY = -1.32574807f; /* at 0 */
    float square = __fmul_rn(x, x), t, p;
    if constexpr (sizeof(T) == 4) {
        t = inverse_fast(fmaf(0.282842712f, fabsf(x), 1));
        p = fmaf(-0.248063401f, t, 0.876884605f);
        p = fmaf(p, t, -0.445619253f);
        p = fmaf(p, t, 0.571436173f);
        p = fmaf(p, t, 0.208981265f);
        p = fmaf(p, t, 0.289694672f);
        *density = 0.398942280f * expf(-0.5f * square);
    } else {
        t = inverse_fast(fmaf(0.47f, fabsf(x), 1));
        p = fmaf(-0.305486827f, t, 0.708303367f);
        p = fmaf(p, t, 0.370087146f);
        p = fmaf(p, t, 0.480398972f);
        *density = exp2_fast(fmaf(-0.5f * LOG2E, square, LOG2_DENSITY));
    }
    float beyond = __fmul_rn(__fmul_rn(p, t), *density);
    return x > 0 ? 1 - beyond : beyond;
}

/* act(x), and act'(x). What both need is made once where both are asked for. */
template <int A, class T> __device__ static inline float act_and_slope(float x, float *slope)
{
    if constexpr (A == ACT_gelu) {
        float density, below = normal<T>(x, &density);
        *slope = fmaf(x, density, below);
        return __fmul_rn(x, below);
    } else if constexpr (A == ACT_gelu_tanh) { /* (1 + tanh(v/2)) / 2 is the sigmoid of v = a (x + b x^3) */
        const float a = 1.59576912f, b = 0.044715f;
        float square = __fmul_rn(x, x), s = sigmoid2<T>(__fmul_rn(x, fmaf(a * b * LOG2E, square, a * LOG2E)));
        float y = __fmul_rn(x, s);
        *slope = fmaf(fmaf(-y, s, y), fmaf(3 * a * b, square, a), s);
        return y;
    } else if constexpr (A == ACT_relu) {
        *slope = x > 0;
        return x < 0 ? 0 : x;
    } else if constexpr (A == ACT_relu2) {
        float y = x < 0 ? 0 : x;
        *slope = __fmul_rn(2, y);
        return __fmul_rn(y, y);
    } else if constexpr (A == ACT_tanh) {
        float t = tanhf(x);
        *slope = fmaf(-t, t, 1);
        return t;
    } else if constexpr (A == ACT_silu) {
        float s = sigmoid2<T>(LOG2E * x), y = __fmul_rn(x, s);
        *slope = fmaf(y, 1 - s, s);
        return y;
    } else {
        *slope = 1;
        return x;
    }
}

/* Calls f for the activation as a constant. */
#define WITH_ACT(which, A, ...)                                                                                        \
    switch ((enum act)(which)) {                                                                                       \
    case ACT_gelu: {                                                                                                   \
        constexpr int A = ACT_gelu;                                                                                    \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    case ACT_gelu_tanh: {                                                                                              \
        constexpr int A = ACT_gelu_tanh;                                                                               \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    case ACT_relu: {                                                                                                   \
        constexpr int A = ACT_relu;                                                                                    \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    case ACT_relu2: {                                                                                                  \
        constexpr int A = ACT_relu2;                                                                                   \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    case ACT_tanh: {                                                                                                   \
        constexpr int A = ACT_tanh;                                                                                    \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    case ACT_silu: {                                                                                                   \
        constexpr int A = ACT_silu;                                                                                    \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    default: {                                                                                                         \
        constexpr int A = ACT_none;                                                                                    \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }                                                                                                                  \
    }

/* What follows a matrix product that left u (N,O) in y, whose rows are `pitch` elements apart: y = act(u), and slope = act'(u),
 * which is dense, where it is not NULL. Returns nothing:
 * the caller's cuda_launched finds a failed launch. */
struct act_params {
    void *y, *slope;
    int64_t N, O, pitch;
    enum dtype dtype;
    enum act act;
};
void cuda_act(const struct act_params *p, const struct cuda_call *c);

#endif
