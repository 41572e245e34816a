/* gate_rows and its gradient. Bound by bytes: each row once. A warp a row. */
#include "cuda/kernels/experts/rows.cuh"

__device__ static inline float sigmoid(float z)
{
    return 1 / (1 + expf(-z));
}

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS) gate_kernel(const T *x, const T *logits, T *y, int64_t rows, int64_t H)
{
    int64_t n = row_of_warp();
    if (n >= rows)
        return;
    float s = sigmoid(to_float(logits[n]));
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float v[N];
        load<T, N>(v, x + n * H + h);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] *= s;
        store<T, N>(y + n * H + h, v);
    }
}

/* dx and dlogits may be NULL. */
template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    gate_bwd_kernel(const T *dy, const T *x, const T *logits, T *dx, bool add_dx, T *dlogits, bool add_dlogits,
                    int64_t rows, int64_t H)
{
    int64_t n = row_of_warp();
    if (n >= rows)
        return;
    float z = to_float(logits[n]), s = sigmoid(z), dot = 0;
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float d[N], v[N];
        load<T, N>(d, dy + n * H + h);
        load<T, N>(v, x + n * H + h);
#pragma unroll
        for (int i = 0; i < N; i++) {
            dot += d[i] * v[i];
            d[i] *= s;
        }
        if (dx)
            store_or_add<T, N>(dx + n * H + h, d, add_dx);
    }
    dot = warp_sum(dot);
    if (dlogits && threadIdx.x % LANE == 0) /* sigmoid(-z) is 1 - s without its lost digits */
        store_or_add<T, 1>(dlogits + n, {s * sigmoid(-z) * dot}, add_dlogits);
}

extern "C" int cuda_gate_rows(const struct args_gate_rows *a, const struct cuda_call *c)
{
    int64_t rows = a->x.shape[0], H = a->x.shape[1];
    if (rows > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {WITH_WIDTH(packs_fit(&a->x) && packs_fit(&a->y), T, N, {
                            gate_kernel<T, N><<<blocks_for(rows), LANE * WARPS, 0, c->stream>>>(
                                (const T *)a->x.data, (const T *)a->logits.data, (T *)a->y.data, rows, H);
                        })})
    return cuda_launched(c, "gate_rows");
}

extern "C" int cuda_gate_rows_bwd(const struct args_gate_rows_bwd *a, const struct cuda_call *c)
{
    int64_t rows = a->x.shape[0], H = a->x.shape[1];
    if (rows > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {WITH_WIDTH(packs_fit(&a->x) && packs_fit(&a->dy) && packs_fit(&a->dx), T, N, {
                            gate_bwd_kernel<T, N><<<blocks_for(rows), LANE * WARPS, 0, c->stream>>>(
                                (const T *)a->dy.data, (const T *)a->x.data, (const T *)a->logits.data, (T *)a->dx.data,
                                a->dx.add, (T *)a->dlogits.data, a->dlogits.add, rows, H);
                        })})
    return cuda_launched(c, "gate_rows_bwd");
}
