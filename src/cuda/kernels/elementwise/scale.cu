/* scale: y = x by, elementwise. Bound by bytes: two small tensors once. */
#include "cuda/kernels/elementwise/elementwise.cuh"

struct scale_params {
    const void *x;
    void *y;
    float by;

    template <class T, int N> __device__ void at(int64_t i) const
    {
        float v[N];
        load<T, N>(v, (const T *)x + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] *= by;
        store<T, N>((T *)y + i, v);
    }
};

extern "C" int cuda_scale(const struct args_scale *a, const struct cuda_call *c)
{
    struct scale_params p = {a->x.data, a->y.data, (float)a->by};
    elementwise(p, &a->x, packs_fit(&a->x) && packs_fit(&a->y), c);
    return cuda_launched(c, "scale");
}
