/* attention_bf16.cu: attention in bf16 on any GPU, a unit of its own because a compiler takes minutes for all types. */
#include "cuda/attention/attention_16bit.cuh"

int attention_forward_bf16(const struct attention_params *p, const struct cuda_call *c)
{
    return WITH_ANY_HEAD_SIZE(p, forward, half_engine<__nv_bfloat16>, p, c);
}

int attention_backward_bf16(const struct attention_params *p, const struct cuda_call *c)
{
    return WITH_ANY_HEAD_SIZE(p, backward, half_engine<__nv_bfloat16>, p, c);
}
