/* scale: y = x by, elementwise. Bound by bytes: two small tensors once. */
#include "cuda/kernels/vector.cuh"

enum { THREADS = 256, MAX_BLOCKS = 65535 };

template <class T, int N> __global__ void __launch_bounds__(THREADS) scale_kernel(const T *x, T *y, float by, int64_t n)
{
    int64_t stride = (int64_t)gridDim.x * THREADS * N;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N; i < n; i += stride) {
        float v[N];
        load<T, N>(v, x + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] *= by;
        store<T, N>(y + i, v);
    }
}

template <class T, int N> static void scale_launch(const struct args_scale *a, const struct cuda_call *c)
{
    int64_t n = tensor_elements(&a->x), blocks = (n + THREADS * N - 1) / (THREADS * N);
    scale_kernel<T, N><<<(unsigned)(blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS), THREADS, 0, c->stream>>>(
        (const T *)a->x.data, (T *)a->y.data, (float)a->by, n);
}

extern "C" int cuda_scale(const struct args_scale *a, const struct cuda_call *c)
{
    if (tensor_elements(&a->x) > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {
            if (packs_fit(&a->x) && packs_fit(&a->y))
                scale_launch<T, pack_width<T>>(a, c);
            else
                scale_launch<T, 1>(a, c);
        })
    return cuda_launched(c, "scale");
}
