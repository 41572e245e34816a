/* attention_any.cuh: what the engines (attention_engine.cuh) for any GPU from sm_80 on share. One warp makes 16 rows of a
 * product, and has finished it before it goes on. */
#ifndef CUDA_ATTENTION_ANY_CUH
#define CUDA_ATTENTION_ANY_CUH

#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_backward.cuh"
#include "cuda/attention/attention_forward.cuh"

struct engine_in_step {
    static constexpr int ROW_UNIT = 16;
    static constexpr bool KEEPS_MASK = false, LIMITS = true, WINDOWS = false;

    __device__ static inline void arrived(void)
    {
    }
    template <int N, int M> __device__ static inline void wait(float (&)[M][4])
    {
    }
    __device__ static inline int column(int j)
    {
        return 8 * j + (int)threadIdx.x % 4 * 2;
    }
};

template <int N> __device__ static inline void clear(float (&s)[N][4])
{
#pragma unroll
    for (int j = 0; j < N; j++)
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
}

/* How each kernel is cut (`cut`), by type and head size: at most 99 KB of shared memory, what the smaller GPUs have. Floats of large
 * heads take smaller tiles. */
template <class T, int DP> struct cuts {
    using forward = cut<4, 2, DP <= 64 ? 3 : 2>;
    using dq = forward;
    using dkdv = forward;
};

/* One tile of keys and values fills what there is. The sums of dk and dv do not fit in registers. */
template <class T> struct cuts<T, 256> {
    using forward = cut<4, 1, 1>;
    using dq = cut<2, 1, 1>;
    using dkdv = dq;
};

template <int DP> struct cuts<float, DP> {
    using forward = cut<4, DP <= 64 ? 2 : 1, 1>;
    using dq = cut<DP <= 96 ? 4 : 2, DP <= 64 ? 2 : 1, 1>;
    using dkdv = dq;
};

/* Of GENERAL and BIASED scores: biases and sums of slopes need room, too. */
template <class T, int DP> struct general_cuts {
    using forward = typename cuts<T, DP>::forward;
    using backward = cut<4, DP <= 64 && sizeof(T) == 2 ? 2 : 1, DP <= 64 && sizeof(T) == 2 ? 3 : 1>;
};

/* The launchers of engine E, for heads of at most DP elements. */
template <class E, int DP> static int forward(const struct attention_params *p, const struct cuda_call *c)
{
    return launch_forward<E, DP, typename cuts<typename E::type, DP>::forward>(p, c);
}

template <class E, int DP> static int backward(const struct attention_params *p, const struct cuda_call *c)
{
    using C = cuts<typename E::type, DP>;
    return launch_backward<E, DP, typename C::dq, typename C::dkdv>(p, c);
}

template <class E, int DP> static int general_forward(const struct attention_params *p, const struct cuda_call *c)
{
    return launch_general_forward<E, DP, typename general_cuts<typename E::type, DP>::forward>(p, c);
}

template <class E, int DP> static int general_backward(const struct attention_params *p, const struct cuda_call *c)
{
    return launch_general_backward<E, DP, typename general_cuts<typename E::type, DP>::backward>(p, c);
}

template <class E, int DP>
static int biased_forward(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return launch_biased_forward<E, DP, typename general_cuts<typename E::type, DP>::forward>(p, heads, c);
}

template <class E, int DP>
static int biased_backward(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    using C = typename general_cuts<typename E::type, DP>::backward;
    return launch_biased_backward<E, DP, C, C>(p, heads, c);
}

#endif
