/* expert_bias and its gradient (op/experts/bias.c). Bound by bytes: each row once. The gradient: a block has a warp's width of an
 * expert's columns, its warps take the expert's rows by turns, and are added up in order. */
#include "cuda/kernels/experts/rows.cuh"

/* A warp a row. */
template <class T>
__global__ void __launch_bounds__(LANE *WARPS)
    expert_bias_kernel(const T *x, const float *b, const int32_t *offsets, T *y, int64_t N, int64_t O, int E)
{
    int64_t n = row_of_warp();
    if (n >= N)
        return;
    b += expert_of(offsets, E, n) * O;
    for (int64_t o = threadIdx.x % LANE; o < O; o += LANE)
        y[n * O + o] = from_float<T>(to_float(x[n * O + o]) + b[o]);
}

template <class T, class D>
__global__ void __launch_bounds__(LANE *WARPS)
    expert_bias_bwd_kernel(const T *dy, const int32_t *offsets, D *db, bool add, int64_t O)
{
    __shared__ float parts[WARPS][LANE];
    int warp = (int)threadIdx.x / LANE, lane = (int)threadIdx.x % LANE, e = (int)blockIdx.y;
    int64_t o = (int64_t)blockIdx.x * LANE + lane;
    float sum = 0;
    for (int64_t n = offsets[e] + warp; o < O && n < offsets[e + 1]; n += WARPS)
        sum += to_float(dy[n * O + o]);
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || o >= O)
        return;
    for (int w = 1; w < WARPS; w++)
        sum += parts[w][lane];
    D *to = db + e * O + o;
    *to = from_float<D>(add ? to_float(*to) + sum : sum);
}

extern "C" int cuda_expert_bias(const struct args_expert_bias *a, const struct cuda_call *c)
{
    int64_t N = a->x.shape[0];
    if (N > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {
            expert_bias_kernel<T><<<blocks_for(N), LANE * WARPS, 0, c->stream>>>(
                (const T *)a->x.data, (const float *)a->b.data, (const int32_t *)a->offsets.data, (T *)a->y.data, N,
                a->x.shape[1], (int)a->b.shape[0]);
        })
    return cuda_launched(c, "expert_bias");
}

template <class T, class D> static void expert_bias_bwd(const struct args_expert_bias_bwd *a, const struct cuda_call *c)
{
    int64_t O = a->dy.shape[1];
    dim3 grid((unsigned)((O + LANE - 1) / LANE), (unsigned)(a->offsets.shape[0] - 1));
    expert_bias_bwd_kernel<T, D><<<grid, LANE * WARPS, 0, c->stream>>>(
        (const T *)a->dy.data, (const int32_t *)a->offsets.data, (D *)a->db.data, a->db.add, O);
}

extern "C" int cuda_expert_bias_bwd(const struct args_expert_bias_bwd *a, const struct cuda_call *c)
{
    if (a->db.data)
        WITH_FLOAT_TYPE(a->dy.dtype, T, {
            if (a->db.dtype == DT_F32)
                expert_bias_bwd<T, float>(a, c);
            else
                expert_bias_bwd<T, T>(a, c);
        })
    return cuda_launched(c, "expert_bias_bwd");
}
