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

int general_forward_bf16(const struct attention_params *p, const struct cuda_call *c)
{
    return p->D > 64 ? general_forward<half_engine<__nv_bfloat16>, 128>(p, c)
                     : general_forward<half_engine<__nv_bfloat16>, 64>(p, c);
}

int general_backward_bf16(const struct attention_params *p, const struct cuda_call *c)
{
    return p->D > 64 ? general_backward<half_engine<__nv_bfloat16>, 128>(p, c)
                     : general_backward<half_engine<__nv_bfloat16>, 64>(p, c);
}

int biased_forward_bf16(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return p->D > 64 ? biased_forward<half_engine<__nv_bfloat16>, 128>(p, heads, c)
                     : biased_forward<half_engine<__nv_bfloat16>, 64>(p, heads, c);
}

int biased_backward_bf16(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return p->D > 64 ? biased_backward<half_engine<__nv_bfloat16>, 128>(p, heads, c)
                     : biased_backward<half_engine<__nv_bfloat16>, 64>(p, heads, c);
}
