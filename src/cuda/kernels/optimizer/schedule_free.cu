/* Schedule-free AdamW and SGD (op/optimizer/schedule_free.c). Bound by bytes: 28 and 20 a parameter; `ahead` 10 or 12. */
#include "cuda/kernels/optimizer/elements.cuh"

struct schedule_free_head {
    struct element_head e;
    double beta1, beta2, eps; /* beta2, eps: of AdamW */
};

/* What both do with the step u, which is without decay. */
struct schedule_free_move {
    float by, lr, share, stays;

    __device__ explicit schedule_free_move(const struct schedule_free_head &h)
        : by((float)(1 - h.beta1)), lr((float)h.e.step[STEP_LR]), share((float)h.e.step[STEP_AVERAGE]),
          stays((float)(1 - h.e.step[STEP_AVERAGE]))
    {
    }

    __device__ void operator()(float &p, float &d, float u, float weight_decay) const
    {
        float e = fmaf(-lr, fmaf(weight_decay, fmaf(by, d, p), u), d);
        p = fmaf(share, e, p);
        d = stays * e;
    }
};

struct schedule_free_adamw_rule {
    static constexpr int states = 2;
    struct schedule_free_move move;
    float beta2, rest2, correction, eps;

    __device__ explicit schedule_free_adamw_rule(const struct schedule_free_head &h)
        : move(h), beta2((float)h.beta2), rest2((float)(1 - h.beta2)),
          correction((float)(1 / sqrt(1 - pow(h.beta2, h.e.step[STEP_UPDATE])))), eps((float)h.eps)
    {
    }

    __device__ void operator()(float &p, float g, float (&s)[2], float weight_decay) const
    {
        s[1] = fmaf(beta2, s[1], rest2 * g * g);
        move(p, s[0], g / fmaf(sqrtf(s[1]), correction, eps), weight_decay);
    }
};

struct schedule_free_sgd_rule {
    static constexpr int states = 1;
    struct schedule_free_move move;

    __device__ explicit schedule_free_sgd_rule(const struct schedule_free_head &h) : move(h)
    {
    }

    __device__ void operator()(float &p, float g, float (&s)[1], float weight_decay) const
    {
        move(p, s[0], g, weight_decay);
    }
};

extern "C" int cuda_schedule_free_adamw_many(const struct args_schedule_free_adamw *const *a, int n,
                                             const struct cuda_call *c)
{
    struct schedule_free_head head = {element_head_of(a[0]), a[0]->beta1, a[0]->beta2, a[0]->eps};
    return launch_elements<schedule_free_adamw_rule>(
        head, a, n, c, "schedule_free_adamw", [](struct element_state *s, const struct args_schedule_free_adamw *x) {
            s[0] = {x->d.data, NULL, CODES_NONE};
            s[1] = {x->v.data, NULL, CODES_NONE};
        });
}

extern "C" int cuda_schedule_free_adamw(const struct args_schedule_free_adamw *a, const struct cuda_call *c)
{
    return cuda_schedule_free_adamw_many(&a, 1, c);
}

extern "C" int cuda_schedule_free_sgd_many(const struct args_schedule_free_sgd *const *a, int n,
                                           const struct cuda_call *c)
{
    struct schedule_free_head head = {element_head_of(a[0]), a[0]->momentum, 0, 0};
    return launch_elements<schedule_free_sgd_rule>(head, a, n, c, "schedule_free_sgd",
                                                   [](struct element_state *s, const struct args_schedule_free_sgd *x) {
                                                       s[0] = {x->d.data, NULL, CODES_NONE};
                                                   });
}

extern "C" int cuda_schedule_free_sgd(const struct args_schedule_free_sgd *a, const struct cuda_call *c)
{
    return cuda_schedule_free_sgd_many(&a, 1, c);
}

/* ---- where gradients are taken ---- */

enum { THREADS = 256, AT_A_TIME = 4 };

struct ahead_params {
    const void *p, *d;
    void *y;
    int64_t n, room; /* room: with the zeros behind the last row */
    float by;
    uint8_t type;
};

template <class P> __global__ static void __launch_bounds__(THREADS) ahead_kernel(const struct ahead_params a)
{
    int64_t from = (int64_t)blockIdx.x * THREADS * AT_A_TIME + threadIdx.x;
#pragma unroll
    for (int k = 0; k < AT_A_TIME; k++) {
        int64_t i = from + k * THREADS;
        float y = i < a.n ? fmaf(a.by, to_float(((const P *)a.d)[i]), to_float(((const P *)a.p)[i])) : 0;
        if (i < a.room)
            store_as<1>(a.type, a.y, i, {y});
    }
}

extern "C" int cuda_ahead(const struct args_ahead *a, const struct cuda_call *c)
{
    struct ahead_params p = {a->p.data,          a->d.data,    a->y.data,          tensor_elements(&a->p),
                             tensor_room(&a->y), (float)a->by, (uint8_t)a->y.dtype};
    if (p.room > 0)
        WITH_FLOAT_TYPE(
            a->p.dtype, P,
            (ahead_kernel<P>
             <<<(unsigned)((p.room + THREADS * AT_A_TIME - 1) / (THREADS * AT_A_TIME)), THREADS, 0, c->stream>>>(p)));
    return cuda_launched(c, "ahead");
}
