/* The loss that balances experts. expert_use and its gradient: bound by bytes, the logits twice. Order of sums: rows are cut into chunks
 * by their number alone; in a chunk warp w takes every eighth row from the w-th on, the warps are added in order, then the chunks. */
#include "cuda/kernels/vector.cuh"

enum { LANE = 32, WARPS = 8, THREADS = LANE * WARPS, CHUNKS = 64, CHUNK_ROWS = 64, LOSS_THREADS = 1024 };

static int64_t parts(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

static int64_t chunks_of_rows(int64_t N)
{
    int64_t n = parts(N, CHUNK_ROWS);
    return n < CHUNKS ? n : CHUNKS;
}

template <class T> __device__ static inline float logit(const T *z)
{
    float x[1];
    load<T, 1>(x, z);
    return x[0];
}

/* Of a row of E logits, in all lanes: its maximum, and 1 over the sum of exponentials. */
template <class T> __device__ static inline float2 softmax_of(const T *z, int E, int lane)
{
    float max = -INFINITY, sum = 0;
    for (int e = lane; e < E; e += LANE)
        max = fmaxf(max, logit(z + e));
    max = warp_max(max);
    for (int e = lane; e < E; e += LANE)
        sum += expf(logit(z + e) - max);
    return make_float2(max, 1 / warp_sum(sum));
}

/* A warp a row. */
template <class T>
__global__ void __launch_bounds__(THREADS) softmax_kernel(const T *logits, float2 *softmax, int64_t rows, int E)
{
    int64_t n = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
    int lane = threadIdx.x % LANE;
    if (n >= rows)
        return;
    float2 s = softmax_of(logits + n * E, E, lane);
    if (lane == 0)
        softmax[n] = s;
}

struct use_params {
    const void *logits;
    const float2 *softmax;
    const int32_t *places, *offsets, *cu;
    int32_t *counts; /* (chunks,E) */
    float *sums;     /* (chunks,E) */
    int64_t N, B;
    int E, k;
};

/* Block (x, y): experts from 32 x on, chunk y. */
template <class T> __global__ void __launch_bounds__(THREADS) use_kernel(const struct use_params p)
{
    __shared__ float sums[WARPS][LANE];
    __shared__ int32_t counts[WARPS][LANE];
    int lane = threadIdx.x % LANE, warp = threadIdx.x / LANE, e = (int)blockIdx.x * LANE + lane;
    int64_t each = (p.N + gridDim.y - 1) / gridDim.y, n = blockIdx.y * each + warp, end = blockIdx.y * each + each;
    int64_t real = p.cu[p.B];
    int32_t begin = e < p.E ? p.offsets[e] : 0, behind = e < p.E ? p.offsets[e + 1] : 0, count = 0;
    float sum = 0;
    end = end < real ? end : real;
    for (; n < end && e < p.E; n += WARPS) {
        float2 s = p.softmax[n];
        sum += expf(logit((const T *)p.logits + n * p.E + e) - s.x) * s.y;
        for (int j = 0; j < p.k; j++) {
            int32_t place = p.places[n * p.k + j];
            count += place >= begin && place < behind;
        }
    }
    sums[warp][lane] = sum;
    counts[warp][lane] = count;
    __syncthreads();
    if (warp || e >= p.E)
        return;
    for (int w = 1; w < WARPS; w++) {
        sum += sums[w][lane];
        count += counts[w][lane];
    }
    p.sums[blockIdx.y * (int64_t)p.E + e] = sum;
    p.counts[blockIdx.y * (int64_t)p.E + e] = count;
}

__global__ static void __launch_bounds__(THREADS)
    join_kernel(const struct use_params p, int64_t chunks, const int32_t *counted, const float *before, int32_t *counts,
                float *sums)
{
    int e = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (e >= p.E)
        return;
    int32_t count = counted ? counted[e] : 0;
    float sum = 0;
    for (int64_t i = 0; i < chunks; i++) {
        count += p.counts[i * p.E + e];
        sum += p.sums[i * p.E + e];
    }
    counts[e] = count;
    sums[e] = sum + (before ? before[e] : 0);
}

extern "C" int64_t cuda_expert_use_workspace(const struct args_expert_use *a, const struct cuda_call *c)
{
    int64_t N = a->logits.shape[0];
    (void)c;
    return N * (int64_t)sizeof(float2) + 2 * chunks_of_rows(N) * a->logits.shape[1] * (int64_t)sizeof(float);
}

extern "C" int cuda_expert_use(const struct args_expert_use *a, const struct cuda_call *c)
{
    int64_t N = a->logits.shape[0], E = a->logits.shape[1], chunks = chunks_of_rows(N);
    float2 *softmax = (float2 *)c->workspace;
    struct use_params p = {.logits = a->logits.data,
                           .softmax = softmax,
                           .places = (const int32_t *)a->places.data,
                           .offsets = (const int32_t *)a->offsets.data,
                           .cu = (const int32_t *)a->cu.data,
                           .counts = (int32_t *)(softmax + N),
                           .sums = (float *)(softmax + N) + chunks * E,
                           .N = N,
                           .B = a->cu.shape[0] - 1,
                           .E = (int)E,
                           .k = N ? (int)(a->places.shape[0] / N) : 0};
    if (N > 0)
        WITH_FLOAT_TYPE(a->logits.dtype, T, {
            softmax_kernel<T>
                <<<(unsigned)parts(N, WARPS), THREADS, 0, c->stream>>>((const T *)p.logits, softmax, N, (int)E);
            use_kernel<T><<<dim3((unsigned)parts(E, LANE), (unsigned)chunks), THREADS, 0, c->stream>>>(p);
        })
    join_kernel<<<(unsigned)parts(E, THREADS), THREADS, 0, c->stream>>>(p, chunks, (const int32_t *)a->counted.data,
                                                                        (const float *)a->before.data,
                                                                        (int32_t *)a->counts.data, (float *)a->y.data);
    return cuda_launched(c, "expert_use");
}

/* A warp a row. */
template <class T>
__global__ void __launch_bounds__(THREADS) use_bwd_kernel(const T *logits, const float *dy, const int32_t *cu,
                                                          int64_t B, T *dlogits, bool add, int64_t rows, int E)
{
    int64_t n = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
    int lane = threadIdx.x % LANE;
    bool real = n < cu[B];
    if (n >= rows || (!real && add))
        return;
    const T *z = logits + n * E;
    float2 s = softmax_of(z, E, lane);
    float mean = 0;
    for (int e = lane; e < E; e += LANE)
        mean += expf(logit(z + e) - s.x) * s.y * dy[e];
    mean = warp_sum(mean);
    for (int e = lane; e < E; e += LANE) {
        float dz = real ? expf(logit(z + e) - s.x) * s.y * (dy[e] - mean) : 0;
        store_or_add<T, 1>(dlogits + n * E + e, {dz}, add);
    }
}

__global__ static void __launch_bounds__(THREADS) pass_on_kernel(const float *dy, float *dbefore, bool add, int E)
{
    int e = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (e < E)
        dbefore[e] = (add ? dbefore[e] : 0) + dy[e];
}

extern "C" int cuda_expert_use_bwd(const struct args_expert_use_bwd *a, const struct cuda_call *c)
{
    int64_t N = a->logits.shape[0], E = a->logits.shape[1];
    const float *dy = (const float *)a->dy.data;
    if (N > 0 && a->dlogits.data)
        WITH_FLOAT_TYPE(a->logits.dtype, T, {
            use_bwd_kernel<T><<<(unsigned)parts(N, WARPS), THREADS, 0, c->stream>>>(
                (const T *)a->logits.data, dy, (const int32_t *)a->cu.data, a->cu.shape[0] - 1, (T *)a->dlogits.data,
                a->dlogits.add, N, (int)E);
        })
    if (a->dbefore.data)
        pass_on_kernel<<<(unsigned)parts(E, THREADS), THREADS, 0, c->stream>>>(dy, (float *)a->dbefore.data,
                                                                               a->dbefore.add, (int)E);
    return cuda_launched(c, "expert_use_bwd");
}

/* ---- the loss: one block ---- */

struct loss_params {
    const int32_t *counts, *cu, *labels;
    const double *step;
    double coef;
    int64_t E, B, N, layers;
};

/* x of all LOSS_THREADS threads, in all of them. */
__device__ static inline double sum_of_block(double x)
{
    __shared__ double sums[LOSS_THREADS];
    __syncthreads();
    sums[threadIdx.x] = x;
    for (int half = LOSS_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

/* What a sum of counts times probabilities, or a count, is multiplied with. All threads call it. */
__device__ static inline double factor(const struct loss_params &p)
{
    double rows = (double)p.layers * p.cu[p.B], targets = 0;
    for (int64_t n = threadIdx.x; n < p.N; n += LOSS_THREADS)
        targets += p.labels[n] >= 0;
    double share = sum_of_block(targets) * p.step[STEP_INV_N];
    return rows > 0 ? p.coef * share * (double)p.E / (rows * rows) : 0;
}

__global__ static void __launch_bounds__(LOSS_THREADS)
    balance_kernel(const struct loss_params p, const float *sums, float *loss)
{
    double by = factor(p), sum = 0;
    for (int64_t e = threadIdx.x; e < p.E; e += LOSS_THREADS)
        sum += p.counts[e] * (double)sums[e];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        *loss = (float)(by * sum);
}

__global__ static void __launch_bounds__(LOSS_THREADS)
    balance_bwd_kernel(const struct loss_params p, const double *scaler, float *dsums, bool add)
{
    double by = factor(p) * (scaler ? scaler[SCALER_SCALE] : 1);
    for (int64_t e = threadIdx.x; e < p.E; e += LOSS_THREADS)
        dsums[e] = (add ? dsums[e] : 0) + (float)(by * p.counts[e]);
}

/* Of either op. */
#define LOSS_PARAMS(a)                                                                                                 \
    {                                                                                                                  \
        .counts = (const int32_t *)a->counts.data, .cu = (const int32_t *)a->cu.data,                                  \
        .labels = (const int32_t *)a->labels.data, .step = (const double *)a->step.data, .coef = a->coef,              \
        .E = a->counts.shape[0], .B = a->cu.shape[0] - 1, .N = a->labels.shape[0], .layers = a->layers                 \
    }

extern "C" int cuda_balance_loss(const struct args_balance_loss *a, const struct cuda_call *c)
{
    struct loss_params p = LOSS_PARAMS(a);
    balance_kernel<<<1, LOSS_THREADS, 0, c->stream>>>(p, (const float *)a->sums.data, (float *)a->loss.data);
    return cuda_launched(c, "balance_loss");
}

extern "C" int cuda_balance_loss_bwd(const struct args_balance_loss_bwd *a, const struct cuda_call *c)
{
    struct loss_params p = LOSS_PARAMS(a);
    if (a->dsums.data)
        balance_bwd_kernel<<<1, LOSS_THREADS, 0, c->stream>>>(p, (const double *)a->scaler.data, (float *)a->dsums.data,
                                                              a->dsums.add);
    return cuda_launched(c, "balance_loss_bwd");
}
