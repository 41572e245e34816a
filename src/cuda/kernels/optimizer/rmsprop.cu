/* RMSprop (op/optimizer/rmsprop.c). Bound by bytes: 20 a parameter, 8 more for each of mean_g and buf; 14 with a state of 8 bits. */
#include "cuda/kernels/optimizer/elements.cuh"

struct rmsprop_head {
    struct element_head e;
    double alpha, eps, momentum;
    bool centered, has_buf;
};

struct rmsprop_rule {
    static constexpr int states = 3; /* v, mean_g, buf */
    float rate, alpha, rest, eps, momentum;
    bool centered, has_buf;

    __device__ explicit rmsprop_rule(const struct rmsprop_head &h)
        : rate((float)-h.e.step[STEP_LR]), alpha((float)h.alpha), rest((float)(1 - h.alpha)), eps((float)h.eps),
          momentum((float)h.momentum), centered(h.centered), has_buf(h.has_buf)
    {
    }

    __device__ void operator()(float &p, float g, float (&s)[3], float weight_decay) const
    {
        g = fmaf(weight_decay, p, g);
        float square = s[0] = fmaf(alpha, s[0], rest * g * g);
        if (centered) {
            s[1] = fmaf(alpha, s[1], rest * g);
            square -= s[1] * s[1];
        }
        float d = g / (sqrtf(square) + eps);
        if (has_buf)
            d = s[2] = fmaf(momentum, s[2], d);
        p = fmaf(rate, d, p);
    }
};

extern "C" int cuda_rmsprop_many(const struct args_rmsprop *const *a, int n, const struct cuda_call *c)
{
    struct rmsprop_head head = {element_head_of(a[0]),     a[0]->alpha,           a[0]->eps, a[0]->momentum,
                                a[0]->mean_g.data != NULL, a[0]->buf.data != NULL};
    return launch_elements<rmsprop_rule>(head, a, n, c, "rmsprop",
                                         [](struct element_state *s, const struct args_rmsprop *x) {
                                             s[0] = {x->v.data, NULL, CODES_NONE};
                                             s[1] = {x->mean_g.data, NULL, CODES_NONE};
                                             s[2] = {x->buf.data, NULL, CODES_NONE};
                                         });
}

extern "C" int cuda_rmsprop(const struct args_rmsprop *a, const struct cuda_call *c)
{
    return cuda_rmsprop_many(&a, 1, c);
}

extern "C" int cuda_rmsprop8bit_many(const struct args_rmsprop8bit *const *a, int n, const struct cuda_call *c)
{
    struct rmsprop_head head = {element_head_of(a[0]), a[0]->alpha, a[0]->eps, 0, false, false};
    return launch_elements<rmsprop_rule>(head, a, n, c, "rmsprop8bit",
                                         [](struct element_state *s, const struct args_rmsprop8bit *x) {
                                             s[0] = {x->v.data, (float *)x->absmax_v.data, CODES_SIGNED};
                                         });
}

extern "C" int cuda_rmsprop8bit(const struct args_rmsprop8bit *a, const struct cuda_call *c)
{
    return cuda_rmsprop8bit_many(&a, 1, c);
}
