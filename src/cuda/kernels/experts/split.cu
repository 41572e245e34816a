/* split_experts and its gradient. Bound by bytes: each element once, a thread each. */
#include "cuda/kernels/vector.cuh"
#include "op/experts/split.h"

enum { THREADS = 256 };

struct split_params {
    int64_t E, M, N;
    bool columns, add;
};

static unsigned blocks_for(const struct split_params *p)
{
    return (unsigned)((p->E * p->M * p->N + THREADS - 1) / THREADS);
}

/* Where element i of the matrices by expert lies in w. */
__device__ static inline int64_t place_of(const struct split_params p, int64_t i)
{
    int64_t row = i / p.N;
    struct split_row at = split_row_of(row / p.M, row % p.M, p.E, p.M, p.N, p.columns);
    return at.first + i % p.N * at.step;
}

template <class T>
__global__ void __launch_bounds__(THREADS) split_kernel(const T *w, T *y, const struct split_params p)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < p.E * p.M * p.N)
        y[i] = w[place_of(p, i)];
}

template <class T, class W>
__global__ void __launch_bounds__(THREADS) split_bwd_kernel(const T *dy, W *dw, const struct split_params p)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < p.E * p.M * p.N)
        store_or_add<W, 1>(dw + place_of(p, i), {to_float(dy[i])}, p.add);
}

extern "C" int cuda_split_experts(const struct args_split_experts *a, const struct cuda_call *c)
{
    struct split_params p = {a->y.shape[0], a->y.shape[1], a->y.shape[2], a->columns != 0, false};
    if (p.E * p.M * p.N > 0)
        WITH_FLOAT_TYPE(a->y.dtype, T, {
            split_kernel<T><<<blocks_for(&p), THREADS, 0, c->stream>>>((const T *)a->w.data, (T *)a->y.data, p);
        })
    return cuda_launched(c, "split_experts");
}

extern "C" int cuda_split_experts_bwd(const struct args_split_experts_bwd *a, const struct cuda_call *c)
{
    struct split_params p = {a->dy.shape[0], a->dy.shape[1], a->dy.shape[2], a->columns != 0, a->dw.add};
    if (p.E * p.M * p.N > 0 && a->dw.data)
        WITH_FLOAT_TYPE(a->dy.dtype, T, {WITH_FLOAT_TYPE(a->dw.dtype, W, {
                            split_bwd_kernel<T, W>
                                <<<blocks_for(&p), THREADS, 0, c->stream>>>((const T *)a->dy.data, (W *)a->dw.data, p);
                        })})
    return cuda_launched(c, "split_experts_bwd");
}
