/* The neighbours of each row side by side, and back. A thread has one column of a row. Bound by bytes: `width` times the rows, which are
 * written, or read, once. Order of the sums: k by k. */
#include "cuda/kernels/sequences/bounds.cuh"
#include "cuda/kernels/vector.cuh"

enum { THREADS = 128 };

template <class T>
__global__ void __launch_bounds__(THREADS)
    neighbours_kernel(const T *x, const int32_t *cu, T *y, int64_t B, int64_t H, int64_t width)
{
    int64_t n = blockIdx.x, h = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    struct bounds s = bounds_of(cu, B, n);
    if (h >= H)
        return;
    for (int64_t k = 0; k < width; k++) {
        int64_t m = n + k - width / 2;
        float v[1] = {0};
        if (m >= s.from && m < s.to)
            load<T, 1>(v, x + m * H + h);
        store<T, 1>(y + (n * H + h) * width + k, v);
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    neighbours_bwd_kernel(const T *dy, const int32_t *cu, T *dx, bool add, int64_t B, int64_t H, int64_t width)
{
    int64_t n = blockIdx.x, h = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    struct bounds s = bounds_of(cu, B, n);
    float sum[1] = {0};
    if (h >= H)
        return;
    for (int64_t k = 0; k < width; k++) {
        int64_t m = n - k + width / 2;
        float v[1];
        if (m < s.from || m >= s.to)
            continue;
        load<T, 1>(v, dy + (m * H + h) * width + k);
        sum[0] += v[0];
    }
    store_or_add<T, 1>(dx + n * H + h, sum, add);
}

static dim3 grid_of(int64_t rows, int64_t H)
{
    return dim3((unsigned)rows, (unsigned)((H + THREADS - 1) / THREADS));
}

extern "C" int cuda_neighbours(const struct args_neighbours *a, const struct cuda_call *c)
{
    int64_t rows = a->x.shape[0], H = a->x.shape[1], B = a->cu.shape[0] - 1;
    const int32_t *cu = (const int32_t *)a->cu.data;
    if (rows > 0 && H > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T,
                        neighbours_kernel<T><<<grid_of(rows, H), THREADS, 0, c->stream>>>(
                            (const T *)a->x.data, cu, (T *)a->y.data, B, H, a->width))
    return cuda_launched(c, "neighbours");
}

extern "C" int cuda_neighbours_bwd(const struct args_neighbours_bwd *a, const struct cuda_call *c)
{
    int64_t rows = a->dx.shape[0], H = a->dx.shape[1], B = a->cu.shape[0] - 1;
    const int32_t *cu = (const int32_t *)a->cu.data;
    if (rows > 0 && H > 0 && a->dx.data)
        WITH_FLOAT_TYPE(a->dy.dtype, T,
                        neighbours_bwd_kernel<T><<<grid_of(rows, H), THREADS, 0, c->stream>>>(
                            (const T *)a->dy.data, cu, (T *)a->dx.data, a->dx.add, B, H, a->width))
    return cuda_launched(c, "neighbours_bwd");
}
