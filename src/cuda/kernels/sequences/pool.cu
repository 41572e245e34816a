/* The mean of each sequence's rows, summed in their order; and back. Bound by bytes: x is read, or dx written, once. */
#include "cuda/kernels/vector.cuh"

enum { THREADS = 128, SPLITS = 16 };

/* A block has one sequence and a strip of columns. */
template <class T>
__global__ void __launch_bounds__(THREADS) pool_kernel(const T *x, const int32_t *cu, T *y, int64_t H)
{
    int64_t b = blockIdx.x, h = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    int64_t from = cu[b], to = cu[b + 1];
    float sum[1] = {0};
    if (h >= H)
        return;
    for (int64_t n = from; n < to; n++) {
        float v[1];
        load<T, 1>(v, x + n * H + h);
        sum[0] += v[0];
    }
    sum[0] /= (float)(to - from);
    store<T, 1>(y + b * H + h, sum);
}

static unsigned strips(int64_t H)
{
    return (unsigned)((H + THREADS - 1) / THREADS);
}

extern "C" int cuda_pool(const struct args_pool *a, const struct cuda_call *c)
{
    int64_t B = a->y.shape[0], H = a->x.shape[1];
    const int32_t *cu = (const int32_t *)a->cu.data;
    dim3 grid((unsigned)B, strips(H));
    if (B > 0 && H > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T,
                        pool_kernel<T><<<grid, THREADS, 0, c->stream>>>((const T *)a->x.data, cu, (T *)a->y.data, H))
    return cuda_launched(c, "pool");
}

/* A block has every SPLITS-th row of a sequence and a strip of columns; those of number B have the rows behind all sequences. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    pool_bwd_kernel(const T *dy, const int32_t *cu, T *dx, bool add, int64_t rows, int64_t B, int64_t H)
{
    int64_t b = blockIdx.x, h = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    int64_t from = cu[b], to = b < B ? cu[b + 1] : rows;
    float v[1] = {0};
    if (h >= H || (b == B && add))
        return;
    if (b < B) {
        load<T, 1>(v, dy + b * H + h);
        v[0] *= 1 / (float)(to - from);
    }
    for (int64_t n = from + blockIdx.z; n < to; n += SPLITS)
        store_or_add<T, 1>(dx + n * H + h, v, add);
}

extern "C" int cuda_pool_bwd(const struct args_pool_bwd *a, const struct cuda_call *c)
{
    int64_t B = a->dy.shape[0], H = a->dy.shape[1], rows = a->dx.shape[0];
    const int32_t *cu = (const int32_t *)a->cu.data;
    dim3 grid((unsigned)(B + 1), strips(H), SPLITS);
    if (rows > 0 && H > 0 && a->dx.data)
        WITH_FLOAT_TYPE(a->dy.dtype, T,
                        pool_bwd_kernel<T><<<grid, THREADS, 0, c->stream>>>((const T *)a->dy.data, cu, (T *)a->dx.data,
                                                                            a->dx.add, rows, B, H))
    return cuda_launched(c, "pool_bwd");
}
