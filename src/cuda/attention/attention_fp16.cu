/* attention_fp16.cu: attention in fp16 on any GPU. */
#include "cuda/attention/attention_16bit.cuh"

int attention_forward_fp16(const struct attention_params *p, const struct cuda_call *c)
{
    return WITH_ANY_HEAD_SIZE(p, forward, half_engine<__half>, p, c);
}

int attention_backward_fp16(const struct attention_params *p, const struct cuda_call *c)
{
    return WITH_ANY_HEAD_SIZE(p, backward, half_engine<__half>, p, c);
}

int general_forward_fp16(const struct attention_params *p, const struct cuda_call *c)
{
    return p->D > 64 ? general_forward<half_engine<__half>, 128>(p, c) : general_forward<half_engine<__half>, 64>(p, c);
}

int general_backward_fp16(const struct attention_params *p, const struct cuda_call *c)
{
    return p->D > 64 ? general_backward<half_engine<__half>, 128>(p, c)
                     : general_backward<half_engine<__half>, 64>(p, c);
}

int biased_forward_fp16(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return p->D > 64 ? biased_forward<half_engine<__half>, 128>(p, heads, c)
                     : biased_forward<half_engine<__half>, 64>(p, heads, c);
}

int biased_backward_fp16(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    return p->D > 64 ? biased_backward<half_engine<__half>, 128>(p, heads, c)
                     : biased_backward<half_engine<__half>, 64>(p, heads, c);
}
