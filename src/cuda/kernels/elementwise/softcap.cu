/* softcap: y = cap tanh(x / cap), and back, elementwise. Bound by bytes: every tensor once. */
#include "cuda/kernels/elementwise/elementwise.cuh"

struct softcap_of {
    float cap;

    __device__ float operator()(float x) const
    {
        return cap * tanhf(x / cap);
    }
};

extern "C" int cuda_softcap(const struct args_softcap *a, const struct cuda_call *c)
{
    elementwise_map(softcap_of{(float)a->cap}, &a->x, &a->y, c);
    return cuda_launched(c, "softcap");
}

struct softcap_bwd_params {
    const void *y, *dy;
    void *dx;
    bool add;
    float cap;

    template <class T, int N> __device__ void at(int64_t i) const
    {
        float v[N], d[N];
        load<T, N>(v, (const T *)y + i);
        load<T, N>(d, (const T *)dy + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            float t = v[k] / cap;
            d[k] *= 1 - t * t;
        }
        store_or_add<T, N>((T *)dx + i, d, add);
    }
};

extern "C" int cuda_softcap_bwd(const struct args_softcap_bwd *a, const struct cuda_call *c)
{
    struct softcap_bwd_params p = {a->y.data, a->dy.data, a->dx.data, a->dx.add, (float)a->cap};
    if (p.dx)
        elementwise(p, &a->y, packs_fit(&a->y) && packs_fit(&a->dy) && packs_fit(&a->dx), c);
    return cuda_launched(c, "softcap_bwd");
}
