/* Adagrad (op/optimizer/adagrad.c). Bound by bytes: 20 a parameter. */
#include "cuda/kernels/optimizer/elements.cuh"

struct adagrad_head {
    struct element_head e;
    double lr_decay, eps;
};

struct adagrad_rule {
    static constexpr int states = 1;
    float rate, eps;

    __device__ explicit adagrad_rule(const struct adagrad_head &h)
        : rate((float)(-h.e.step[STEP_LR] / (1 + (h.e.step[STEP_UPDATE] - 1) * h.lr_decay))), eps((float)h.eps)
    {
    }

    __device__ void operator()(float &p, float g, float (&s)[1], float weight_decay) const
    {
        g = fmaf(weight_decay, p, g);
        s[0] = fmaf(g, g, s[0]);
        p = fmaf(rate, g / (sqrtf(s[0]) + eps), p);
    }
};

extern "C" int cuda_adagrad_many(const struct args_adagrad *const *a, int n, const struct cuda_call *c)
{
    struct adagrad_head head = {element_head_of(a[0]), a[0]->lr_decay, a[0]->eps};
    return launch_elements<adagrad_rule>(head, a, n, c, "adagrad",
                                         [](struct element_state *s, const struct args_adagrad *x) {
                                             s[0] = {x->sum.data, NULL, CODES_NONE};
                                         });
}

extern "C" int cuda_adagrad(const struct args_adagrad *a, const struct cuda_call *c)
{
    return cuda_adagrad_many(&a, 1, c);
}
