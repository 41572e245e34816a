/* add: y = a + b, and back, elementwise. Bound by bytes: every tensor once. */
#include "cuda/kernels/vector.cuh"

enum { THREADS = 256, MAX_BLOCKS = 65535 };

template <class T, int N> __global__ void __launch_bounds__(THREADS) add_kernel(const T *a, const T *b, T *y, int64_t n)
{
    int64_t stride = (int64_t)gridDim.x * THREADS * N;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N; i < n; i += stride) {
        float v[N], w[N];
        load<T, N>(v, a + i);
        load<T, N>(w, b + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] += w[k];
        store<T, N>(y + i, v);
    }
}

/* da, db: NULL where that gradient is not wanted. */
template <class T, int N>
__global__ void __launch_bounds__(THREADS) add_bwd_kernel(const T *dy, T *da, bool add_a, T *db, bool add_b, int64_t n)
{
    int64_t stride = (int64_t)gridDim.x * THREADS * N;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N; i < n; i += stride) {
        float v[N];
        load<T, N>(v, dy + i);
        if (da)
            store_or_add<T, N>(da + i, v, add_a);
        if (db)
            store_or_add<T, N>(db + i, v, add_b);
    }
}

/* Blocks for n elements, N a thread. */
static unsigned blocks(int64_t n, int N)
{
    int64_t all = (n + THREADS * N - 1) / (THREADS * N);
    return (unsigned)(all < MAX_BLOCKS ? all : MAX_BLOCKS);
}

template <class T, int N> static void add_launch(const struct args_add *a, const struct cuda_call *c)
{
    int64_t n = tensor_elements(&a->y);
    add_kernel<T, N>
        <<<blocks(n, N), THREADS, 0, c->stream>>>((const T *)a->a.data, (const T *)a->b.data, (T *)a->y.data, n);
}

extern "C" int cuda_add(const struct args_add *a, const struct cuda_call *c)
{
    if (tensor_elements(&a->y) > 0)
        WITH_FLOAT_TYPE(a->y.dtype, T, {
            if (packs_fit(&a->a) && packs_fit(&a->b) && packs_fit(&a->y))
                add_launch<T, pack_width<T>>(a, c);
            else
                add_launch<T, 1>(a, c);
        })
    return cuda_launched(c, "add");
}

template <class T, int N> static void add_bwd_launch(const struct args_add_bwd *a, const struct cuda_call *c)
{
    int64_t n = tensor_elements(&a->dy);
    add_bwd_kernel<T, N><<<blocks(n, N), THREADS, 0, c->stream>>>((const T *)a->dy.data, (T *)a->da.data, a->da.add,
                                                                  (T *)a->db.data, a->db.add, n);
}

static bool fits(const struct tensor *t)
{
    return !t->data || packs_fit(t);
}

extern "C" int cuda_add_bwd(const struct args_add_bwd *a, const struct cuda_call *c)
{
    if (tensor_elements(&a->dy) > 0)
        WITH_FLOAT_TYPE(a->dy.dtype, T, {
            if (packs_fit(&a->dy) && fits(&a->da) && fits(&a->db))
                add_bwd_launch<T, pack_width<T>>(a, c);
            else
                add_bwd_launch<T, 1>(a, c);
        })
    return cuda_launched(c, "add_bwd");
}
