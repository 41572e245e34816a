/* act.cuh: activation functions and their derivatives (op/act.c) in float, for a kernel's elements, and the launcher of
 * bias and activation behind a matrix product. T is the type that a result will be rounded to: where that has 16 bits,
 * exp is the hardware's approximation. What is added to a product is spelled out (fmaf, __fmul_rn), so that the
 * compiler has no choice. */
#ifndef CUDA_ACT_CUH
#define CUDA_ACT_CUH

#include "cuda/kernel.cuh"

/* e^x; the relative error grows with |x| as that of x log2 e does. */
__device__ static inline float fast_exp(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}

__device__ static inline float fast_inverse(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

template <class T> __device__ static inline float exp_for(float x)
{
    if constexpr (sizeof(T) == 4)
        return expf(x);
    else
        return fast_exp(x);
}

template <class T> __device__ static inline float sigmoid(float x)
{
    return fast_inverse(1 + exp_for<T>(-x));
}

/* Of the standard normal distribution: *e is e^(-x^2/2), 2.5 times its density, and *tail * *e what lies beyond |x|.
 * erfc(z) = t P(t) e^(-z^2) with t = 1/(1 + 0.4 z), P of degree 5 fitted to 4e-8; here are its halves. */
template <class T> __device__ static inline void normal(float x, float *tail, float *e)
{
    float t = fast_inverse(fmaf(0.282842712f, fabsf(x), 1)), p = -0.098962979f;
    p = fmaf(p, t, 0.349826344f);
    p = fmaf(p, t, -0.177776361f);
    p = fmaf(p, t, 0.22797005f);
    p = fmaf(p, t, 0.0833714625f);
    p = fmaf(p, t, 0.115571453f);
    *tail = __fmul_rn(p, t);
    *e = exp_for<T>(-0.5f * x * x);
}

template <int A, class T = __half> __device__ static inline float act_value(float x)
{
    if constexpr (A == ACT_gelu) {
        float tail, e;
        normal<T>(x, &tail, &e);
        return fmaf(-fabsf(x), __fmul_rn(tail, e), fmaxf(x, 0));
    } else if constexpr (A == ACT_gelu_tanh) /* (1 + tanh(v/2)) / 2 is the sigmoid of v */
        return x * sigmoid<T>(1.59576912f * x * fmaf(0.044715f * x, x, 1));
    else if constexpr (A == ACT_relu)
        return x < 0 ? 0 : x;
    else if constexpr (A == ACT_tanh)
        return tanhf(x);
    else if constexpr (A == ACT_silu)
        return x * sigmoid<T>(x);
    else
        return x;
}

template <int A, class T = __half> __device__ static inline float act_slope(float x)
{
    if constexpr (A == ACT_gelu) {
        float tail, e;
        normal<T>(x, &tail, &e);
        float beyond = __fmul_rn(fmaf(-0.398942280f, fabsf(x), tail), e);
        return x > 0 ? 1 - beyond : beyond;
    } else if constexpr (A == ACT_gelu_tanh) {
        float s = sigmoid<T>(1.59576912f * x * fmaf(0.044715f * x, x, 1));
        return fmaf(x * s * (1 - s), 1.59576912f * fmaf(3 * 0.044715f * x, x, 1), s);
    } else if constexpr (A == ACT_relu)
        return x > 0;
    else if constexpr (A == ACT_tanh) {
        float t = tanhf(x);
        return fmaf(-t, t, 1);
    } else if constexpr (A == ACT_silu) {
        float s = sigmoid<T>(x);
        return s * fmaf(x, 1 - s, 1);
    } else
        return 1;
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

/* What follows a matrix product that left x (N,O): u = x + b, y = act(u). x, u and y have one dtype and may be the same
 * memory; b (O) F32 or NULL (already in x); u or y NULL where it is not wanted. Returns nothing: the caller's
 * cuda_launched finds a failed launch. */
struct bias_act {
    const void *x;
    const float *b;
    void *u, *y;
    int64_t N, O;
    enum dtype dtype;
    enum act act;
};
void cuda_bias_act(const struct bias_act *p, const struct cuda_call *c);

#endif
