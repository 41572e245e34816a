/* Attention's sinks: what a forward kernel that knows of none has written becomes what it is with them, and their gradient.
 *     o *= 1 / (1 + exp(sink - lse)) ;  lse += log(1 + exp(sink - lse))
 * Bound by the bytes of o: read and written once more, beside an attention whose kernels stay one for all. The gradient sums a head's
 * rows in one block: by warps in turn, a warp's lanes in a butterfly, the warps in order. */
#include "cuda/attention/attention_sinks.cuh"

enum { LANE = 32, WARPS = 8 };

/* A warp for a row and a head. */
template <class T>
__global__ void __launch_bounds__(LANE *WARPS)
    sinks_kernel(T *o, float *lse, const float *sinks, const int32_t *cu, int B, int64_t T_rows, int heads, int D)
{
    int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE, row = task / heads;
    int head = (int)(task % heads), lane = (int)threadIdx.x % LANE;
    if (row >= T_rows || row >= cu[B])
        return;
    float *at = lse + head * T_rows + row, old = *at, sink = sinks[head], top = fmaxf(old, sink);
    float of_keys = expf(old - top), total = of_keys + expf(sink - top), factor = of_keys / total;
    __syncwarp(); /* all lanes have read lse */
    if (lane == 0)
        *at = top + logf(total);
    T *to = o + task * D;
    for (int d = lane; d < D; d += LANE)
        to[d] = from_float<T>(to_float(to[d]) * factor);
}

void attention_add_sinks(const struct args_attention *a, const struct cuda_call *c)
{
    int64_t T_rows = a->o.shape[0], tasks = T_rows * a->heads;
    unsigned blocks = (unsigned)((tasks + WARPS - 1) / WARPS);
    if (tasks > 0)
        WITH_FLOAT_TYPE(a->o.dtype, T, {
            sinks_kernel<T><<<blocks, LANE * WARPS, 0, c->stream>>>(
                (T *)a->o.data, (float *)a->lse.data, (const float *)a->sinks.data, (const int32_t *)a->cu.data,
                (int)a->cu.shape[0] - 1, T_rows, (int)a->heads, (int)(a->o.shape[1] / a->heads));
        })
}

/* A block a head. */
template <class T, class D>
__global__ void __launch_bounds__(LANE *WARPS)
    sinks_bwd_kernel(const T *o, const T *dout, const float *lse, const float *sinks, const int32_t *cu, int B,
                     int64_t T_rows, int heads, int size, D *dsinks, bool add)
{
    __shared__ float parts[WARPS];
    int warp = (int)threadIdx.x / LANE, lane = (int)threadIdx.x % LANE, head = (int)blockIdx.x, rows = cu[B];
    float sum = 0, sink = sinks[head];
    for (int64_t i = warp; i < rows; i += WARPS) {
        int64_t at = (i * heads + head) * size;
        float dot = 0;
        for (int d = lane; d < size; d += LANE)
            dot += to_float(o[at + d]) * to_float(dout[at + d]);
        sum -= expf(sink - lse[head * T_rows + i]) * warp_sum(dot);
    }
    if (lane == 0)
        parts[warp] = sum;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int w = 1; w < WARPS; w++)
        sum += parts[w];
    dsinks[head] = from_float<D>(add ? to_float(dsinks[head]) + sum : sum);
}

template <class T, class D> static void sinks_bwd(const struct args_attention_sinks_bwd *a, const struct cuda_call *c)
{
    int heads = (int)a->sinks.shape[0];
    sinks_bwd_kernel<T, D><<<(unsigned)heads, LANE * WARPS, 0, c->stream>>>(
        (const T *)a->o.data, (const T *)a->dout.data, (const float *)a->lse.data, (const float *)a->sinks.data,
        (const int32_t *)a->cu.data, (int)a->cu.shape[0] - 1, a->o.shape[0], heads, (int)(a->o.shape[1] / heads),
        (D *)a->dsinks.data, a->dsinks.add);
}

extern "C" int cuda_attention_sinks_bwd(const struct args_attention_sinks_bwd *a, const struct cuda_call *c)
{
    if (a->dsinks.data)
        WITH_FLOAT_TYPE(a->o.dtype, T, {
            if (a->dsinks.dtype == DT_F32)
                sinks_bwd<T, float>(a, c);
            else
                sinks_bwd<T, T>(a, c);
        })
    return cuda_launched(c, "attention_sinks_bwd");
}
