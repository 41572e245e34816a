/* attention_sm90.cu: attention with Hopper's wgmma, for 16-bit types; compiled for sm_90a only. The kernels are those
 * of attention_engine.cuh. */
#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_backward.cuh"
#include "cuda/attention/attention_forward.cuh"
#include "cuda/attention/attention_wgmma.cuh"

/* Four or three groups of four warps a multiprocessor, as registers allow: one computes while others multiply. */
template <int DP> struct cuts {
    using forward = cut<4, 3, 4, true>;
    using dq = cut<4, 2, 4>;
    using dkdv = cut<4, 2, 3>;
};

template <> struct cuts<96> {
    using forward = cut<8, 2, 1>;
    using dq = cut<8, 2, 1>;
    using dkdv = cut<8, 2, 1>;
};

template <> struct cuts<128> : cuts<96> {
};

template <class E, int DP> static int forward(const struct attention_params *p, const struct cuda_call *c)
{
    return launch_forward<E, DP, typename cuts<DP>::forward>(p, c);
}

template <class E, int DP> static int backward(const struct attention_params *p, const struct cuda_call *c)
{
    return launch_backward<E, DP, typename cuts<DP>::dq, typename cuts<DP>::dkdv>(p, c);
}

int attention_forward_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c)
{
    if (attention_is_wide(p))
        return attention_forward_wide_sm90(p, dtype, c);
    struct attention_params kept = *p;
    if (!attention_is_short(p, c->sms)) /* then the backward pass does not look at it */
        kept.mask = NULL;
    p = &kept;
    return dtype == DT_BF16 ? WITH_HEAD_SIZE(p, forward, wgmma_engine<__nv_bfloat16>, p, c)
                            : WITH_HEAD_SIZE(p, forward, wgmma_engine<__half>, p, c);
}

int attention_backward_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c)
{
    if (attention_is_wide(p))
        return attention_backward_wide_sm90(p, dtype, c);
    if (attention_is_short(p, c->sms))
        return attention_backward_short_sm90(p, dtype, c);
    return dtype == DT_BF16 ? WITH_HEAD_SIZE(p, backward, wgmma_engine<__nv_bfloat16>, p, c)
                            : WITH_HEAD_SIZE(p, backward, wgmma_engine<__half>, p, c);
}
