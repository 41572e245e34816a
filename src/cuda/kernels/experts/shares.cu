/* expert_shares: one block, some experts a thread. Padding is a bucket's few rows, which every thread looks at. Maxima and minima do not
 * depend on an order. */
#include "cuda/kernels/kernel.cuh"

enum { THREADS = 256 };

__global__ static void __launch_bounds__(THREADS)
    shares_kernel(const int32_t *places, const int32_t *offsets, const int32_t *cu, const float *before, float *y,
                  int64_t k, int64_t choices, int64_t E, int64_t B)
{
    __shared__ float most[THREADS], least[THREADS];
    int64_t real = k * cu[B];
    float high = 0, low = 1;
    for (int64_t e = threadIdx.x; e < E; e += THREADS) {
        int32_t begin = offsets[e], end = offsets[e + 1], n = end - begin;
        for (int64_t i = real; i < choices; i++)
            n -= places[i] >= begin && places[i] < end;
        float share = real > 0 ? (float)n / (float)real : 0;
        high = fmaxf(high, share);
        low = fminf(low, share);
    }
    most[threadIdx.x] = high;
    least[threadIdx.x] = low;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            most[threadIdx.x] = fmaxf(most[threadIdx.x], most[threadIdx.x + half]);
            least[threadIdx.x] = fminf(least[threadIdx.x], least[threadIdx.x + half]);
        }
    }
    if (threadIdx.x)
        return;
    y[0] = before ? fmaxf(before[0], most[0]) : most[0];
    y[1] = before ? fminf(before[1], least[0]) : least[0];
}

extern "C" int cuda_expert_shares(const struct args_expert_shares *a, const struct cuda_call *c)
{
    shares_kernel<<<1, THREADS, 0, c->stream>>>((const int32_t *)a->places.data, (const int32_t *)a->offsets.data,
                                                (const int32_t *)a->cu.data, (const float *)a->before.data,
                                                (float *)a->y.data, a->k, a->places.shape[0], a->offsets.shape[0] - 1,
                                                a->cu.shape[0] - 1);
    return cuda_launched(c, "expert_shares");
}
