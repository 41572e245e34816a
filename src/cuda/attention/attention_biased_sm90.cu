/* attention_biased_sm90.cu: attention_disentangled's scores with Hopper's wgmma, for 16-bit types; compiled for sm_90a only. */
#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_backward.cuh"
#include "cuda/attention/attention_forward.cuh"
#include "cuda/attention/attention_wgmma.cuh"

/* As attention_sm90.cu, with fewer blocks a multiprocessor: biases want registers, too. */
template <class T> static int forward(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return launch_biased_forward<wgmma_engine<T>, 64, cut<4, 3, 3, true>>(p, heads, c);
}

template <class T> static int backward(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return launch_biased_backward<wgmma_engine<T>, 64, cut<4, 2, 3>, cut<4, 2, 2>>(p, heads, c);
}

int biased_forward_sm90(const struct attention_params *p, int heads, enum dtype dtype, const struct cuda_call *c)
{
    return dtype == DT_BF16 ? forward<__nv_bfloat16>(p, heads, c) : forward<__half>(p, heads, c);
}

int biased_backward_sm90(const struct attention_params *p, int heads, enum dtype dtype, const struct cuda_call *c)
{
    return dtype == DT_BF16 ? backward<__nv_bfloat16>(p, heads, c) : backward<__half>(p, heads, c);
}
