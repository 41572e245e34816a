/* AdEMAMix (op/optimizer/ademamix.c). Bound by bytes: 36 a parameter, 18 with states of 8 bits. */
#include "cuda/kernels/optimizer/elements.cuh"

extern "C" {
#include "op/optimizer/ademamix.h"
}

struct ademamix_head {
    struct element_head e;
    double beta1, beta2, beta3, alpha, t_alpha, t_beta3, eps;
};

struct ademamix_rule {
    static constexpr int states = 3; /* m, slow, v */
    float beta1, rest1, beta2, rest2, beta3, rest3, lr, first, slow, scale, eps;

    __device__ explicit ademamix_rule(const struct ademamix_head &h)
    {
        double t = h.e.step[STEP_UPDATE], b3 = ademamix_beta3(h.beta1, h.beta3, h.t_beta3, t);
        beta1 = (float)h.beta1, rest1 = (float)(1 - h.beta1);
        beta2 = (float)h.beta2, rest2 = (float)(1 - h.beta2);
        beta3 = (float)b3, rest3 = (float)(1 - b3);
        lr = (float)h.e.step[STEP_LR];
        first = (float)(h.e.step[STEP_LR] / (1 - pow(h.beta1, t)));
        slow = (float)(h.e.step[STEP_LR] * ademamix_alpha(h.alpha, h.t_alpha, t));
        scale = (float)(1 / sqrt(1 - pow(h.beta2, t)));
        eps = (float)h.eps;
    }

    __device__ void operator()(float &p, float g, float (&s)[3], float weight_decay) const
    {
        s[0] = fmaf(beta1, s[0], rest1 * g);
        s[1] = fmaf(beta3, s[1], rest3 * g);
        s[2] = fmaf(beta2, s[2], rest2 * g * g);
        p = fmaf(-lr * weight_decay, p, p) - fmaf(first, s[0], slow * s[1]) / fmaf(sqrtf(s[2]), scale, eps);
    }
};

template <class Args> static inline struct ademamix_head head_of(const Args *a)
{
    return {element_head_of(a), a->beta1, a->beta2, a->beta3, a->alpha, a->t_alpha, a->t_beta3, a->eps};
}

extern "C" int cuda_ademamix_many(const struct args_ademamix *const *a, int n, const struct cuda_call *c)
{
    return launch_elements<ademamix_rule>(head_of(a[0]), a, n, c, "ademamix",
                                          [](struct element_state *s, const struct args_ademamix *x) {
                                              s[0] = {x->m.data, NULL, CODES_NONE};
                                              s[1] = {x->slow.data, NULL, CODES_NONE};
                                              s[2] = {x->v.data, NULL, CODES_NONE};
                                          });
}

extern "C" int cuda_ademamix(const struct args_ademamix *a, const struct cuda_call *c)
{
    return cuda_ademamix_many(&a, 1, c);
}

extern "C" int cuda_ademamix8bit_many(const struct args_ademamix8bit *const *a, int n, const struct cuda_call *c)
{
    return launch_elements<ademamix_rule>(head_of(a[0]), a, n, c, "ademamix8bit",
                                          [](struct element_state *s, const struct args_ademamix8bit *x) {
                                              s[0] = {x->m.data, (float *)x->absmax_m.data, CODES_SIGNED};
                                              s[1] = {x->slow.data, (float *)x->absmax_slow.data, CODES_SIGNED};
                                              s[2] = {x->v.data, (float *)x->absmax_v.data, CODES_UNSIGNED};
                                          });
}

extern "C" int cuda_ademamix8bit(const struct args_ademamix8bit *a, const struct cuda_call *c)
{
    return cuda_ademamix8bit_many(&a, 1, c);
}
