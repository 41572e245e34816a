/* softcap: y = cap tanh(x / cap), and back, elementwise. Bound by bytes: every tensor once. */
#include "cuda/kernels/vector.cuh"

enum { THREADS = 256, MAX_BLOCKS = 65535 };

template <class T, int N>
__global__ void __launch_bounds__(THREADS) softcap_kernel(const T *x, T *y, float cap, int64_t n)
{
    int64_t stride = (int64_t)gridDim.x * THREADS * N;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N; i < n; i += stride) {
        float v[N];
        load<T, N>(v, x + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = cap * tanhf(v[k] / cap);
        store<T, N>(y + i, v);
    }
}

template <class T, int N>
__global__ void __launch_bounds__(THREADS)
    softcap_bwd_kernel(const T *y, const T *dy, T *dx, bool add, float cap, int64_t n)
{
    int64_t stride = (int64_t)gridDim.x * THREADS * N;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N; i < n; i += stride) {
        float v[N], d[N];
        load<T, N>(v, y + i);
        load<T, N>(d, dy + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            float t = v[k] / cap;
            d[k] *= 1 - t * t;
        }
        store_or_add<T, N>(dx + i, d, add);
    }
}

/* Blocks for n elements, N a thread. */
static unsigned blocks(int64_t n, int N)
{
    int64_t all = (n + THREADS * N - 1) / (THREADS * N);
    return (unsigned)(all < MAX_BLOCKS ? all : MAX_BLOCKS);
}

template <class T, int N> static void softcap_launch(const struct args_softcap *a, const struct cuda_call *c)
{
    int64_t n = tensor_elements(&a->x);
    softcap_kernel<T, N>
        <<<blocks(n, N), THREADS, 0, c->stream>>>((const T *)a->x.data, (T *)a->y.data, (float)a->cap, n);
}

extern "C" int cuda_softcap(const struct args_softcap *a, const struct cuda_call *c)
{
    if (tensor_elements(&a->x) > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {
            if (packs_fit(&a->x) && packs_fit(&a->y))
                softcap_launch<T, pack_width<T>>(a, c);
            else
                softcap_launch<T, 1>(a, c);
        })
    return cuda_launched(c, "softcap");
}

template <class T, int N> static void softcap_bwd_launch(const struct args_softcap_bwd *a, const struct cuda_call *c)
{
    int64_t n = tensor_elements(&a->y);
    softcap_bwd_kernel<T, N><<<blocks(n, N), THREADS, 0, c->stream>>>((const T *)a->y.data, (const T *)a->dy.data,
                                                                      (T *)a->dx.data, a->dx.add, (float)a->cap, n);
}

extern "C" int cuda_softcap_bwd(const struct args_softcap_bwd *a, const struct cuda_call *c)
{
    if (a->dx.data && tensor_elements(&a->y) > 0)
        WITH_FLOAT_TYPE(a->y.dtype, T, {
            if (packs_fit(&a->y) && packs_fit(&a->dy) && packs_fit(&a->dx))
                softcap_bwd_launch<T, pack_width<T>>(a, c);
            else
                softcap_bwd_launch<T, 1>(a, c);
        })
    return cuda_launched(c, "softcap_bwd");
}
