/* elementwise.cuh: kernels that do the same to every element of tensors of one shape. Such a kernel is a struct P of pointers and
 * numbers with
 *
 *     template <class T, int N> __device__ void at(int64_t i) const      the elements from i to i + N - 1
 *
 * T is the tensors' type; N is pack_width<T>, or 1 where not all of the tensors can be read in packs. */
#ifndef CUDA_ELEMENTWISE_CUH
#define CUDA_ELEMENTWISE_CUH

#include "cuda/kernels/vector.cuh"

enum { ELEMENT_THREADS = 256, ELEMENT_BLOCKS = 65535 };

template <class T, int N, class P>
__global__ void __launch_bounds__(ELEMENT_THREADS) elementwise_kernel(const P p, int64_t n)
{
    int64_t stride = (int64_t)gridDim.x * ELEMENT_THREADS * N;
    for (int64_t i = ((int64_t)blockIdx.x * ELEMENT_THREADS + threadIdx.x) * N; i < n; i += stride)
        p.template at<T, N>(i);
}

template <class T, int N, class P> static void elementwise_launch(const P &p, int64_t n, const struct cuda_call *c)
{
    int64_t blocks = (n + ELEMENT_THREADS * N - 1) / (ELEMENT_THREADS * N);
    elementwise_kernel<T, N, P>
        <<<(unsigned)(blocks < ELEMENT_BLOCKS ? blocks : ELEMENT_BLOCKS), ELEMENT_THREADS, 0, c->stream>>>(p, n);
}

/* p for all elements of `shape`, whose dtype the other tensors have too. `packed`: packs_fit each of them. An output may be an input:
 * a thread reads its elements before it writes them. The caller's cuda_launched finds a failed launch. */
template <class P>
static void elementwise(const P &p, const struct tensor *shape, bool packed, const struct cuda_call *c)
{
    int64_t n = tensor_elements(shape);
    if (n > 0)
        WITH_FLOAT_TYPE(shape->dtype, T, {
            if (packed)
                elementwise_launch<T, pack_width<T>>(p, n, c);
            else
                elementwise_launch<T, 1>(p, n, c);
        })
}

/* y = f(x), where F is a struct of numbers with `__device__ float operator()(float x) const`. */
template <class F> struct mapped {
    const void *x;
    void *y;
    F f;

    template <class T, int N> __device__ void at(int64_t i) const
    {
        float v[N];
        load<T, N>(v, (const T *)x + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = f(v[k]);
        store<T, N>((T *)y + i, v);
    }
};

template <class F>
static void elementwise_map(const F &f, const struct tensor *x, const struct tensor *y, const struct cuda_call *c)
{
    elementwise(mapped<F>{x->data, y->data, f}, x, packs_fit(x) && packs_fit(y), c);
}

#endif
