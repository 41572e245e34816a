/* The largest logit of a row. Bound by bytes: the logits of the rows with a label, once. A block a row; the first of
 * equals by their place, so the order does not show. */
#include "cuda/kernels/vector.cuh"

enum { LANE = 32, THREADS = 256 };

struct place {
    float z;
    int32_t v;
};

__device__ static inline struct place larger(struct place a, struct place b)
{
    return b.z > a.z || (b.z == a.z && b.v < a.v) ? b : a;
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    argmax_kernel(const T *logits, const int32_t *labels, int32_t *best, int64_t V, int64_t pitch)
{
    __shared__ struct place places[THREADS / LANE];
    int64_t n = blockIdx.x;
    if (labels[n] < 0) { /* the whole block */
        if (threadIdx.x == 0)
            best[n] = -1;
        return;
    }
    const T *row = logits + n * pitch;
    struct place p = {-INFINITY, 0};
#pragma unroll 8
    for (int64_t v = threadIdx.x; v < V; v += THREADS) {
        float z[1];
        load<T, 1>(z, row + v);
        if (z[0] > p.z) /* NaN is larger than nothing */
            p = (struct place){z[0], (int32_t)v};
    }
    for (int d = LANE / 2; d > 0; d /= 2)
        p = larger(p, (struct place){__shfl_xor_sync(0xFFFFFFFFu, p.z, d), __shfl_xor_sync(0xFFFFFFFFu, p.v, d)});
    if (threadIdx.x % LANE == 0)
        places[threadIdx.x / LANE] = p;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int w = 1; w < THREADS / LANE; w++)
        p = larger(p, places[w]);
    best[n] = p.v;
}

extern "C" int cuda_argmax(const struct args_argmax *a, const struct cuda_call *c)
{
    int64_t N = a->logits.shape[0];
    if (N > 0)
        WITH_FLOAT_TYPE(a->logits.dtype, T, {
            argmax_kernel<T><<<(unsigned)N, THREADS, 0, c->stream>>>(
                (const T *)a->logits.data, (const int32_t *)a->labels.data, (int32_t *)a->best.data, a->logits.shape[1],
                tensor_pitch(&a->logits));
        })
    return cuda_launched(c, "argmax");
}
