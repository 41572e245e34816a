/* activation: y = act(x), and its slope where somebody reads that. Bound by bytes: every tensor once. */
#include "cuda/kernels/act.cuh"
#include "cuda/kernels/elementwise/elementwise.cuh"

template <int A> struct activation_params {
    const void *x;
    void *y, *slope;

    template <class T, int N> __device__ void at(int64_t i) const
    {
        float v[N], s[N];
        load<T, N>(v, (const T *)x + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = act_and_slope<A, T>(v[k], &s[k]);
        store<T, N>((T *)y + i, v);
        if (slope)
            store<T, N>((T *)slope + i, s);
    }
};

extern "C" int cuda_activation(const struct args_activation *a, const struct cuda_call *c)
{
    bool packed = packs_fit(&a->x) && packs_fit(&a->y) && packs_fit(&a->slope);
    WITH_ACT(a->act, A, {
        struct activation_params<A> p = {
            a->x.data, a->y.data, a->slope.data
        };
        elementwise(p, &a->x, packed, c);
    })
    return cuda_launched(c, "activation");
}
