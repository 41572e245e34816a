/* One row of every sequence. Bound by bytes: forward B rows; backward the whole of dx is written. */
#include "cuda/kernels/sequences/bounds.cuh"
#include "cuda/kernels/vector.cuh"

enum { LANE = 32, WARPS = 8 };

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    gather_kernel(const T *x, const int32_t *cu, T *y, bool last, int64_t B, int64_t H)
{
    int64_t b = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
    if (b >= B)
        return;
    int64_t n = last ? cu[b + 1] - 1 : cu[b];
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float v[N];
        load<T, N>(v, x + n * H + h);
        store<T, N>(y + b * H + h, v);
    }
}

extern "C" int cuda_gather(const struct args_gather *a, const struct cuda_call *c)
{
    int64_t B = a->y.shape[0], H = a->x.shape[1];
    const int32_t *cu = (const int32_t *)a->cu.data;
    unsigned blocks = (unsigned)((B + WARPS - 1) / WARPS);
    if (B > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {
            if (packs_fit(&a->x) && packs_fit(&a->y))
                gather_kernel<T, pack_width<T>>
                    <<<blocks, LANE * WARPS, 0, c->stream>>>((const T *)a->x.data, cu, (T *)a->y.data, a->last, B, H);
            else
                gather_kernel<T, 1>
                    <<<blocks, LANE * WARPS, 0, c->stream>>>((const T *)a->x.data, cu, (T *)a->y.data, a->last, B, H);
        })
    return cuda_launched(c, "gather");
}

/* The sequence whose gathered row is n, or -1. Sequences are never empty, so cu rises strictly. */
__device__ static inline int64_t sequence_of(const int32_t *cu, int64_t B, int64_t n, bool last)
{
    struct bounds s = bounds_of(cu, B, n);
    return n == (last ? s.to - 1 : s.from) ? s.b : -1;
}

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    gather_bwd_kernel(const T *dy, const int32_t *cu, T *dx, bool add, bool last, int64_t rows, int64_t B, int64_t H)
{
    int64_t n = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
    if (n >= rows)
        return;
    int64_t b = sequence_of(cu, B, n, last);
    if (add && b < 0)
        return;
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float v[N] = {0};
        if (b >= 0)
            load<T, N>(v, dy + b * H + h);
        store_or_add<T, N>(dx + n * H + h, v, add);
    }
}

extern "C" int cuda_gather_bwd(const struct args_gather_bwd *a, const struct cuda_call *c)
{
    int64_t B = a->dy.shape[0], H = a->dy.shape[1], rows = a->dx.shape[0];
    const int32_t *cu = (const int32_t *)a->cu.data;
    unsigned blocks = (unsigned)((rows + WARPS - 1) / WARPS);
    if (rows > 0 && a->dx.data)
        WITH_FLOAT_TYPE(a->dy.dtype, T, {
            if (packs_fit(&a->dy) && packs_fit(&a->dx))
                gather_bwd_kernel<T, pack_width<T>><<<blocks, LANE * WARPS, 0, c->stream>>>(
                    (const T *)a->dy.data, cu, (T *)a->dx.data, a->dx.add, a->last, rows, B, H);
            else
                gather_bwd_kernel<T, 1><<<blocks, LANE * WARPS, 0, c->stream>>>(
                    (const T *)a->dy.data, cu, (T *)a->dx.data, a->dx.add, a->last, rows, B, H);
        })
    return cuda_launched(c, "gather_bwd");
}
