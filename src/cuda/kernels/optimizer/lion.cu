/* Lion (op/optimizer/lion.c). Bound by bytes: 20 a parameter, 14 with a state of 8 bits. */
#include "cuda/kernels/optimizer/elements.cuh"

struct lion_head {
    struct element_head e;
    double beta1, beta2;
};

struct lion_rule {
    static constexpr int states = 1;
    float beta1, rest1, beta2, rest2, lr;

    __device__ explicit lion_rule(const struct lion_head &h)
        : beta1((float)h.beta1), rest1((float)(1 - h.beta1)), beta2((float)h.beta2), rest2((float)(1 - h.beta2)),
          lr((float)h.e.step[STEP_LR])
    {
    }

    __device__ void operator()(float &p, float g, float (&s)[1], float weight_decay) const
    {
        float mixed = fmaf(beta1, s[0], rest1 * g);
        p = fmaf(-lr * weight_decay, p, p) - (mixed > 0 ? lr : 0) + (mixed < 0 ? lr : 0);
        s[0] = fmaf(beta2, s[0], rest2 * g);
    }
};

extern "C" int cuda_lion_many(const struct args_lion *const *a, int n, const struct cuda_call *c)
{
    struct lion_head head = {element_head_of(a[0]), a[0]->beta1, a[0]->beta2};
    return launch_elements<lion_rule>(head, a, n, c, "lion", [](struct element_state *s, const struct args_lion *x) {
        s[0] = {x->m.data, NULL, CODES_NONE};
    });
}

extern "C" int cuda_lion(const struct args_lion *a, const struct cuda_call *c)
{
    return cuda_lion_many(&a, 1, c);
}

extern "C" int cuda_lion8bit_many(const struct args_lion8bit *const *a, int n, const struct cuda_call *c)
{
    struct lion_head head = {element_head_of(a[0]), a[0]->beta1, a[0]->beta2};
    return launch_elements<lion_rule>(head, a, n, c, "lion8bit",
                                      [](struct element_state *s, const struct args_lion8bit *x) {
                                          s[0] = {x->m.data, (float *)x->absmax_m.data, CODES_SIGNED};
                                      });
}

extern "C" int cuda_lion8bit(const struct args_lion8bit *a, const struct cuda_call *c)
{
    return cuda_lion8bit_many(&a, 1, c);
}
