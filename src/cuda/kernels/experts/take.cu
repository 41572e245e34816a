/* take, combine and their gradients. Bound by bytes: each row once. A warp a row. */
#include "cuda/kernels/experts/rows.cuh"

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    take_kernel(const T *x, const int32_t *places, T *y, int64_t rows, int64_t H, int64_t k)
{
    int64_t i = row_of_warp();
    if (i >= rows)
        return;
    const T *from = x + i / k * H;
    T *to = y + places[i] * H;
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float v[N];
        load<T, N>(v, from + h);
        store<T, N>(to + h, v);
    }
}

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    take_bwd_kernel(const T *dy, const int32_t *places, T *dx, bool add, int64_t rows, int64_t H, int64_t k)
{
    int64_t n = row_of_warp();
    if (n >= rows)
        return;
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float sum[N] = {0};
        for (int64_t j = 0; j < k; j++) {
            float v[N];
            load<T, N>(v, dy + places[n * k + j] * H + h);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += v[i];
        }
        store_or_add<T, N>(dx + n * H + h, sum, add);
    }
}

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    combine_kernel(const T *x, const T *gates, const int32_t *places, T *y, int64_t rows, int64_t H, int64_t k)
{
    int64_t n = row_of_warp();
    if (n >= rows)
        return;
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float sum[N] = {0};
        for (int64_t j = 0; j < k; j++) {
            float v[N], gate = to_float(gates[n * k + j]);
            load<T, N>(v, x + places[n * k + j] * H + h);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += gate * v[i];
        }
        store<T, N>(y + n * H + h, sum);
    }
}

/* A warp for each row of an expert; dx and dgates may be NULL. */
template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    combine_bwd_kernel(const T *dy, const T *x, const T *gates, const int32_t *places, T *dx, bool add_dx, T *dgates,
                       bool add_dgates, int64_t rows, int64_t H, int64_t k)
{
    int64_t i = row_of_warp();
    if (i >= rows)
        return;
    int64_t from = i / k * H, row = places[i] * H;
    float gate = to_float(gates[i]), dot = 0;
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float d[N], v[N];
        load<T, N>(d, dy + from + h);
        load<T, N>(v, x + row + h);
#pragma unroll
        for (int l = 0; l < N; l++) {
            dot += d[l] * v[l];
            d[l] *= gate;
        }
        if (dx)
            store_or_add<T, N>(dx + row + h, d, add_dx);
    }
    dot = warp_sum(dot);
    if (dgates && threadIdx.x % LANE == 0)
        store_or_add<T, 1>(dgates + i, {dot}, add_dgates);
}

extern "C" int cuda_take(const struct args_take *a, const struct cuda_call *c)
{
    int64_t rows = a->places.shape[0], H = a->x.shape[1];
    if (rows > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {WITH_WIDTH(packs_fit(&a->x) && packs_fit(&a->y), T, N, {
                            take_kernel<T, N><<<blocks_for(rows), LANE * WARPS, 0, c->stream>>>(
                                (const T *)a->x.data, (const int32_t *)a->places.data, (T *)a->y.data, rows, H, a->k);
                        })})
    return cuda_launched(c, "take");
}

extern "C" int cuda_take_bwd(const struct args_take_bwd *a, const struct cuda_call *c)
{
    int64_t rows = a->dx.shape[0], H = a->dy.shape[1];
    if (rows > 0 && a->dx.data)
        WITH_FLOAT_TYPE(a->dy.dtype, T, {WITH_WIDTH(packs_fit(&a->dy) && packs_fit(&a->dx), T, N, {
                            take_bwd_kernel<T, N><<<blocks_for(rows), LANE * WARPS, 0, c->stream>>>(
                                (const T *)a->dy.data, (const int32_t *)a->places.data, (T *)a->dx.data, a->dx.add,
                                rows, H, a->k);
                        })})
    return cuda_launched(c, "take_bwd");
}

extern "C" int cuda_combine(const struct args_combine *a, const struct cuda_call *c)
{
    int64_t rows = a->y.shape[0], H = a->x.shape[1], k = a->gates.shape[1];
    if (rows > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {WITH_WIDTH(packs_fit(&a->x) && packs_fit(&a->y), T, N, {
                            combine_kernel<T, N><<<blocks_for(rows), LANE * WARPS, 0, c->stream>>>(
                                (const T *)a->x.data, (const T *)a->gates.data, (const int32_t *)a->places.data,
                                (T *)a->y.data, rows, H, k);
                        })})
    return cuda_launched(c, "combine");
}

extern "C" int cuda_combine_bwd(const struct args_combine_bwd *a, const struct cuda_call *c)
{
    int64_t rows = a->places.shape[0], H = a->x.shape[1], k = a->gates.shape[1];
    if (rows > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {WITH_WIDTH(packs_fit(&a->x) && packs_fit(&a->dy) && packs_fit(&a->dx), T, N, {
                            combine_bwd_kernel<T, N><<<blocks_for(rows), LANE * WARPS, 0, c->stream>>>(
                                (const T *)a->dy.data, (const T *)a->x.data, (const T *)a->gates.data,
                                (const int32_t *)a->places.data, (T *)a->dx.data, a->dx.add, (T *)a->dgates.data,
                                a->dgates.add, rows, H, k);
                        })})
    return cuda_launched(c, "combine_bwd");
}
