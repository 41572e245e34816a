/* Op bias (op/bias.c), a bias of columns; experts have another. Bound by bytes: each row once. */
#include "cuda/kernels/experts/rows.cuh"

/* A warp a row. */
template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS) bias_kernel(const T *x, const float *b, T *y, int64_t rows, int64_t O)
{
    int64_t n = row_of_warp();
    if (n >= rows)
        return;
    for (int64_t o = threadIdx.x % LANE * N; o < O; o += LANE * N) {
        float v[N], add[N];
        load<T, N>(v, x + n * O + o);
        load<float, N>(add, b + o);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] += add[i];
        store<T, N>(y + n * O + o, v);
    }
}

extern "C" int cuda_bias(const struct args_bias *a, const struct cuda_call *c)
{
    int64_t rows = a->x.shape[0];
    bool packed = packs_fit(&a->x) && packs_fit(&a->b) && packs_fit(&a->y);
    if (rows > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, WITH_WIDTH(packed, T, N, {
                            bias_kernel<T, N><<<blocks_for(rows), LANE * WARPS, 0, c->stream>>>(
                                (const T *)a->x.data, (const float *)a->b.data, (T *)a->y.data, rows, a->x.shape[1]);
                        }))
    return cuda_launched(c, "bias");
}
