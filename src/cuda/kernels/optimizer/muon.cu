/* The ops of Muon beside its products (op/optimizer/muon.c), elementwise. Bound by bytes; `linear` has the flops. */
#include "cuda/kernels/elementwise/elementwise.cuh"
#include "cuda/kernels/optimizer/stored.cuh"

/* ---- the momentum, and the weight ---- */

enum { THREADS = 256 };

static unsigned blocks_of(int64_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

struct momentum_params {
    const double *step;
    const float *coef;
    const void *g;
    void *buf, *u;
    int64_t n;
    float momentum, rest;
    uint32_t noise;
    uint8_t g_type, u_type;
};

template <class P> __global__ static void __launch_bounds__(THREADS) momentum_kernel(const struct momentum_params a)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float coef = a.coef ? *a.coef : 1, g = 0;
    P *buf = (P *)a.buf;
    if (i >= a.n)
        return;
    if (coef < 0) {
        store_as<1>(a.u_type, a.u, i, {0.0f});
        return;
    }
    WITH_FLOAT_TYPE(a.g_type, G, g = to_float(((const G *)a.g)[i]) * coef * a.rest);
    float m = fmaf(a.momentum, to_float(buf[i]), g);
    store_stored<1>(buf, i, {m}, rounding_of(a.step, a.noise, 0), ROUND_STATE1);
    store_as<1>(a.u_type, a.u, i, {fmaf(a.momentum, to_float(buf[i]), g)});
}

extern "C" int cuda_muon_momentum(const struct args_muon_momentum *a, const struct cuda_call *c)
{
    struct momentum_params p = {(const double *)a->step.data,
                                (const float *)a->coef.data,
                                a->g.data,
                                a->buf.data,
                                a->u.data,
                                tensor_elements(&a->buf),
                                (float)a->momentum,
                                (float)(1 - a->momentum),
                                (uint32_t)a->noise,
                                (uint8_t)a->g.dtype,
                                (uint8_t)a->u.dtype};
    if (p.n > 0)
        WITH_STORED_TYPE(a->buf.dtype == DT_BF16, P,
                         (momentum_kernel<P><<<blocks_of(p.n), THREADS, 0, c->stream>>>(p)));
    return cuda_launched(c, "muon_momentum");
}

struct muon_params {
    const double *step;
    const float *coef;
    const void *o;
    void *p, *copy;
    int64_t n;
    double factor, weight_decay;
    uint32_t noise;
    uint8_t o_type, copy_type;
};

template <class P> __global__ static void __launch_bounds__(THREADS) muon_kernel(const struct muon_params a)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float rate = (float)(a.step[STEP_LR] * a.factor), decay = (float)(-a.step[STEP_LR] * a.weight_decay), o = 0;
    if (i >= a.n || (a.coef && *a.coef < 0))
        return;
    float p = to_float(((const P *)a.p)[i]);
    WITH_FLOAT_TYPE(a.o_type, O, o = to_float(((const O *)a.o)[i]));
    p = fmaf(-rate, o, fmaf(decay, p, p));
    store_stored<1>((P *)a.p, i, {p}, rounding_of(a.step, a.noise, 0), ROUND_WEIGHT);
    store_as<1>(a.copy_type, a.copy, i, {p});
}

extern "C" int cuda_muon(const struct args_muon *a, const struct cuda_call *c)
{
    struct muon_params p = {(const double *)a->step.data,
                            (const float *)a->coef.data,
                            a->o.data,
                            a->p.data,
                            a->copy.data,
                            tensor_elements(&a->p),
                            a->factor,
                            a->weight_decay,
                            (uint32_t)a->noise,
                            (uint8_t)a->o.dtype,
                            (uint8_t)a->copy.dtype};
    if (p.n > 0)
        WITH_STORED_TYPE(a->p.dtype == DT_BF16, P, (muon_kernel<P><<<blocks_of(p.n), THREADS, 0, c->stream>>>(p)));
    return cuda_launched(c, "muon");
}

/* ---- between them ---- */

struct unit_params {
    const void *x;
    const double *partials;
    void *y;
    int64_t n_partials;
    double eps;

    template <class T, int N> __device__ void at(int64_t i) const
    {
        double squares = 0;
        float v[N];
        for (int64_t k = 0; k < n_partials; k++)
            squares += partials[k];
        float by = (float)(1 / fmax(sqrt(squares), eps));
        load<T, N>(v, (const T *)x + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] *= by;
        store<T, N>((T *)y + i, v);
    }
};

extern "C" int cuda_unit(const struct args_unit *a, const struct cuda_call *c)
{
    struct unit_params p = {a->x.data, (const double *)a->partials.data, a->y.data, tensor_elements(&a->partials),
                            a->eps};
    elementwise(p, &a->y, packs_fit(&a->x) && packs_fit(&a->y), c);
    return cuda_launched(c, "unit");
}

struct blend_params {
    const void *x, *z;
    void *y;
    float s, t;

    template <class T, int N> __device__ void at(int64_t i) const
    {
        float v[N], w[N];
        load<T, N>(v, (const T *)x + i);
        load<T, N>(w, (const T *)z + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = fmaf(s, v[k], t * w[k]);
        store<T, N>((T *)y + i, v);
    }
};

extern "C" int cuda_blend(const struct args_blend *a, const struct cuda_call *c)
{
    struct blend_params p = {a->x.data, a->z.data, a->y.data, (float)a->s, (float)a->t};
    elementwise(p, &a->y, packs_fit(&a->x) && packs_fit(&a->z) && packs_fit(&a->y), c);
    return cuda_launched(c, "blend");
}
