/* The losses. Bound by bytes: the logits once forward (maximum and sum of exponentials in one pass), logits and their
 * gradient once backward.
 *
 * Order of sums: within a row by lanes, lanes in a butterfly, then warp after warp, F32; over rows in F64, row i, i +
 * SUM_THREADS, … by thread i, then a fixed tree. */
#include "cuda/kernels/act.cuh"
#include "cuda/kernels/vector.cuh"

enum { LANE = 32, THREADS = 256, SUM_THREADS = 1024, SHORT_ROW = 1024 };

static int64_t blocks_of(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

/* x of all SUM_THREADS threads of the block, in thread 0. */
__device__ static inline double block_sum(double x)
{
    __shared__ double sums[SUM_THREADS];
    sums[threadIdx.x] = x;
    for (int half = SUM_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    return sums[0];
}

/* What a gradient starts with. */
__device__ static inline double seed(const double *step, const double *scaler)
{
    return step[STEP_INV_N] * (scaler ? scaler[SCALER_SCALE] : 1);
}

/* ---- cross-entropy ---- */

/* What a lane has seen of a row: sum of exp(z - max), and of z. */
struct softmax {
    float max, sum, all;
};

__device__ static inline float finite_or_0(float max)
{
    return max == -INFINITY ? 0 : max; /* so that -inf - max stays -inf */
}

template <int N> __device__ static inline void softmax_add(struct softmax *s, const float (&z)[N])
{
    float max = s->max;
#pragma unroll
    for (int i = 0; i < N; i++)
        max = fmaxf(max, z[i]);
    float base = finite_or_0(max);
    if (max > s->max)
        s->sum *= exp_fast(s->max - base);
    s->max = max;
#pragma unroll
    for (int i = 0; i < N; i++) {
        s->sum += exp_fast(z[i] - base);
        s->all += z[i];
    }
}

/* The elements of a row that lie before its first 16-byte boundary. */
template <class T> __device__ static inline int64_t unaligned_head(const T *row, int64_t V)
{
    int64_t head = (16 - (int64_t)((uintptr_t)row % 16)) % 16 / (int64_t)sizeof(T);
    return head < V ? head : V;
}

struct cross_entropy_params {
    const void *logits;
    const int32_t *labels;
    float *lse;
    double *rows; /* (N) loss of each */
    int64_t N, V, pitch;
    double smoothing;
};

/* Of a row without a label. */
__device__ static inline void no_loss(const struct cross_entropy_params &p, int64_t n, int lane)
{
    if (lane == 0)
        p.lse[n] = 0, p.rows[n] = 0;
}

/* W warps a row. */
template <class T, int W>
__global__ void __launch_bounds__(THREADS) cross_entropy_kernel(const struct cross_entropy_params p)
{
    constexpr int N = pack_width<T>;
    __shared__ struct softmax parts[THREADS / LANE];
    int lane = threadIdx.x % (LANE * W);
    int64_t n = (int64_t)blockIdx.x * (THREADS / LANE / W) + threadIdx.x / (LANE * W);
    if (n >= p.N)
        return; /* whole warps; a block has one row where a row has several */
    int32_t label = p.labels[n];
    if (label < 0)
        return no_loss(p, n, lane);
    const T *row = (const T *)p.logits + n * p.pitch;
    struct softmax s = {-INFINITY, 0, 0};
    float one[1], many[N];
    int64_t head = unaligned_head(row, p.V), tail = head + (p.V - head) / N * N;
    if (lane < head) {
        load<T, 1>(one, row + lane);
        softmax_add<1>(&s, one);
    }
#pragma unroll 4
    for (int64_t v = head + lane * N; v < tail; v += LANE * W * N) {
        load<T, N>(many, row + v);
        softmax_add<N>(&s, many);
    }
    if (tail + lane < p.V) {
        load<T, 1>(one, row + tail + lane);
        softmax_add<1>(&s, one);
    }
    float max = warp_max(s.max);
    s.sum = warp_sum(s.sum * exp_fast(s.max - finite_or_0(max)));
    s.all = warp_sum(s.all);
    s.max = max;
    if constexpr (W > 1) {
        if (threadIdx.x % LANE == 0)
            parts[threadIdx.x / LANE] = s;
        __syncthreads();
        for (int i = 0; i < W; i++)
            max = fmaxf(max, parts[i].max);
        s = (struct softmax){max, 0, 0};
        for (int i = 0; i < W; i++) {
            s.sum += parts[i].sum * exp_fast(parts[i].max - finite_or_0(max));
            s.all += parts[i].all;
        }
    }
    if (lane)
        return;
    /* Relative to the maximum, so that a confident row keeps the digits of its small loss. */
    double log_sum = logf(s.sum);
    p.lse[n] = (float)(finite_or_0(max) + log_sum);
    load<T, 1>(one, row + label);
    double loss = (1 - p.smoothing) * (log_sum - ((double)one[0] - max));
    if (p.smoothing > 0)
        loss += p.smoothing * (log_sum - (s.all / (double)p.V - max));
    p.rows[n] = loss;
}

__global__ static void __launch_bounds__(SUM_THREADS)
    sum_rows_kernel(const double *rows, int64_t N, const double *step, const float *more, float *loss)
{
    double sum = 0;
    for (int64_t n = threadIdx.x; n < N; n += SUM_THREADS)
        sum += rows[n];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *loss = (float)(sum * step[STEP_INV_N] + (more ? (double)*more : 0));
}

struct cross_entropy_bwd_params {
    const void *logits;
    const int32_t *labels;
    const float *lse;
    const double *step, *scaler;
    void *dlogits;
    bool add;
    int64_t N, V, pitch, dpitch; /* elements from row to row of logits and of dlogits */
    float one, each;             /* of a target: the label's own part, and everybody's */
};

template <class T, int N>
__device__ static inline void cross_entropy_slope(const struct cross_entropy_bwd_params &p, const T *row, T *to,
                                                  int64_t v, int32_t label, float lse, float scale)
{
    float z[N] = {0};
    if (label >= 0) {
        load<T, N>(z, row + v);
#pragma unroll
        for (int i = 0; i < N; i++)
            z[i] = (exp_fast(z[i] - lse) - (v + i == label ? p.one + p.each : p.each)) * scale;
    }
    store_or_add<T, N>(to + v, z, p.add);
}

template <class T, int N, int W>
__global__ void __launch_bounds__(THREADS) cross_entropy_bwd_kernel(const struct cross_entropy_bwd_params p)
{
    int lane = threadIdx.x % (LANE * W);
    int64_t n = (int64_t)blockIdx.x * (THREADS / LANE / W) + threadIdx.x / (LANE * W);
    if (n >= p.N)
        return;
    const T *row = (const T *)p.logits + n * p.pitch;
    T *to = (T *)p.dlogits + n * p.dpitch;
    int32_t label = p.labels[n];
    float lse = p.lse[n], scale = (float)seed(p.step, p.scaler);
    if (label < 0 && p.add)
        return;
    int64_t head = N > 1 ? unaligned_head(row, p.V) : 0, tail = head + (p.V - head) / N * N;
    if (lane < head)
        cross_entropy_slope<T, 1>(p, row, to, lane, label, lse, scale);
#pragma unroll 4
    for (int64_t v = head + lane * N; v < tail; v += LANE * W * N)
        cross_entropy_slope<T, N>(p, row, to, v, label, lse, scale);
    if (tail + lane < p.V)
        cross_entropy_slope<T, 1>(p, row, to, tail + lane, label, lse, scale);
    for (int64_t v = p.V + lane; v < p.dpitch; v += LANE * W)
        to[v] = from_float<T>(0);
}

/* ---- cross-entropy with weights of classes: a warp a row, as a classifier has few ---- */

__device__ static inline float weighted_sum_of_warp(const float *weights, int64_t V)
{
    float sum = 0;
    for (int64_t v = threadIdx.x % LANE; v < V; v += LANE)
        sum += weights[v];
    return warp_sum(sum);
}

template <class T>
__global__ void __launch_bounds__(THREADS) weighted_kernel(const struct cross_entropy_params p, const float *weights)
{
    int lane = threadIdx.x % LANE;
    int64_t n = (int64_t)blockIdx.x * (THREADS / LANE) + threadIdx.x / LANE;
    if (n >= p.N)
        return;
    int32_t label = p.labels[n];
    if (label < 0)
        return no_loss(p, n, lane);
    const T *row = (const T *)p.logits + n * p.pitch;
    float max = -INFINITY, sum = 0, all = 0;
    for (int64_t v = lane; v < p.V; v += LANE)
        max = fmaxf(max, to_float(row[v]));
    max = warp_max(max);
    for (int64_t v = lane; v < p.V; v += LANE) {
        float z = to_float(row[v]) - finite_or_0(max);
        sum += exp_fast(z);
        all += weights[v] * z;
    }
    sum = warp_sum(sum);
    all = warp_sum(all);
    float sum_of_weights = weighted_sum_of_warp(weights, p.V);
    if (lane)
        return;
    double log_sum = logf(sum), own = (1 - p.smoothing) * (double)weights[label];
    p.lse[n] = (float)(finite_or_0(max) + log_sum);
    double loss = own * (log_sum - ((double)to_float(row[label]) - max));
    if (p.smoothing > 0)
        loss += p.smoothing * (sum_of_weights * log_sum - all) / (double)p.V;
    p.rows[n] = loss;
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    weighted_bwd_kernel(const struct cross_entropy_bwd_params p, const float *weights, double smoothing)
{
    int lane = threadIdx.x % LANE;
    int64_t n = (int64_t)blockIdx.x * (THREADS / LANE) + threadIdx.x / LANE;
    if (n >= p.N)
        return;
    const T *row = (const T *)p.logits + n * p.pitch;
    T *to = (T *)p.dlogits + n * p.dpitch;
    int32_t label = p.labels[n];
    float lse = p.lse[n], scale = (float)seed(p.step, p.scaler), each = (float)(smoothing / (double)p.V);
    float own = label >= 0 ? (float)((1 - smoothing) * (double)weights[label]) : 0;
    float all = own + each * weighted_sum_of_warp(weights, p.V);
    for (int64_t v = lane; v < p.V; v += LANE) {
        float grad[1] = {0};
        if (label >= 0)
            grad[0] = (exp_fast(to_float(row[v]) - lse) * all - (v == label ? own : 0) - each * weights[v]) * scale;
        store_or_add<T, 1>(to + v, grad, p.add);
    }
    for (int64_t v = p.V + lane; v < p.dpitch; v += LANE)
        to[v] = from_float<T>(0);
}

/* ---- launching cross-entropy ---- */

extern "C" int64_t cuda_cross_entropy_workspace(const struct args_cross_entropy *a, const struct cuda_call *c)
{
    (void)c;
    return (int64_t)sizeof(double) * a->logits.shape[0];
}

template <class T>
static void cross_entropy_launch(const struct cross_entropy_params *p, const float *weights, const struct cuda_call *c)
{
    unsigned blocks = (unsigned)blocks_of(p->N, THREADS / LANE);
    if (weights)
        weighted_kernel<T><<<blocks, THREADS, 0, c->stream>>>(*p, weights);
    else if (p->V <= SHORT_ROW)
        cross_entropy_kernel<T, 1><<<blocks, THREADS, 0, c->stream>>>(*p);
    else
        cross_entropy_kernel<T, THREADS / LANE><<<(unsigned)p->N, THREADS, 0, c->stream>>>(*p);
}

extern "C" void cuda_cross_entropy_rows(const struct args_cross_entropy *a, double *rows, const struct cuda_call *c)
{
    struct cross_entropy_params p = {.logits = a->logits.data,
                                     .labels = (const int32_t *)a->labels.data,
                                     .lse = (float *)a->lse.data,
                                     .rows = rows,
                                     .N = a->logits.shape[0],
                                     .V = a->logits.shape[1],
                                     .pitch = tensor_pitch(&a->logits),
                                     .smoothing = a->smoothing};
    if (p.N > 0)
        WITH_FLOAT_TYPE(a->logits.dtype, T, cross_entropy_launch<T>(&p, (const float *)a->weights.data, c))
}

extern "C" void cuda_mean_loss(const double *rows, int64_t n, const struct tensor *step, const struct tensor *more,
                               const struct tensor *loss, const struct cuda_call *c)
{
    sum_rows_kernel<<<1, SUM_THREADS, 0, c->stream>>>(rows, n, (const double *)step->data,
                                                      more ? (const float *)more->data : NULL, (float *)loss->data);
}

extern "C" int cuda_cross_entropy(const struct args_cross_entropy *a, const struct cuda_call *c)
{
    double *rows = (double *)c->workspace;
    cuda_cross_entropy_rows(a, rows, c);
    cuda_mean_loss(rows, a->logits.shape[0], &a->step, &a->more, &a->loss, c);
    return cuda_launched(c, "cross_entropy");
}

template <class T, int N>
static void cross_entropy_bwd_launch(const struct cross_entropy_bwd_params *p, const struct cuda_call *c)
{
    if (p->V <= SHORT_ROW)
        cross_entropy_bwd_kernel<T, N, 1><<<(unsigned)blocks_of(p->N, THREADS / LANE), THREADS, 0, c->stream>>>(*p);
    else
        cross_entropy_bwd_kernel<T, N, THREADS / LANE><<<(unsigned)p->N, THREADS, 0, c->stream>>>(*p);
}

extern "C" int cuda_cross_entropy_bwd(const struct args_cross_entropy_bwd *a, const struct cuda_call *c)
{
    struct cross_entropy_bwd_params p = {.logits = a->logits.data,
                                         .labels = (const int32_t *)a->labels.data,
                                         .lse = (const float *)a->lse.data,
                                         .step = (const double *)a->step.data,
                                         .scaler = (const double *)a->scaler.data,
                                         .dlogits = a->dlogits.data,
                                         .add = a->dlogits.add,
                                         .N = a->logits.shape[0],
                                         .V = a->logits.shape[1],
                                         .pitch = tensor_pitch(&a->logits),
                                         .dpitch = tensor_pitch(&a->dlogits),
                                         .one = (float)(1 - a->smoothing),
                                         .each = (float)(a->smoothing / (double)a->logits.shape[1])};
    const float *weights = (const float *)a->weights.data;
    /* Rows of both start equally far from a 16-byte boundary. */
    bool packed = p.pitch == p.dpitch && ((uintptr_t)p.logits - (uintptr_t)p.dlogits) % 16 == 0;
    if (p.N > 0 && p.dlogits)
        WITH_FLOAT_TYPE(a->logits.dtype, T, {
            if (weights)
                weighted_bwd_kernel<T>
                    <<<(unsigned)blocks_of(p.N, THREADS / LANE), THREADS, 0, c->stream>>>(p, weights, a->smoothing);
            else if (packed)
                cross_entropy_bwd_launch<T, pack_width<T>>(&p, c);
            else
                cross_entropy_bwd_launch<T, 1>(&p, c);
        })
    return cuda_launched(c, "cross_entropy_bwd");
}

/* ---- mean squared error and binary cross-entropy, element by element: few logits ---- */

enum loss { LOSS_MSE, LOSS_BCE, LOSS_WEIGHTED_BCE };

/* `weight`: that of the label where L says so. */
template <int L> __device__ static inline float loss_value(float z, float y, const float *weight)
{
    if constexpr (L == LOSS_MSE)
        return (z - y) * (z - y);
    float log = log1pf(expf(-fabsf(z))), loss = fmaxf(z, 0) - z * y + log;
    if constexpr (L == LOSS_WEIGHTED_BCE)
        loss += (*weight - 1) * y * (log + fmaxf(-z, 0));
    return loss;
}

template <int L> __device__ static inline float loss_slope(float z, float y, const float *weight)
{
    if constexpr (L == LOSS_MSE)
        return 2 * (z - y);
    float p = 1 / (1 + expf(-z)), slope = p - y;
    if constexpr (L == LOSS_WEIGHTED_BCE)
        slope += (*weight - 1) * y * (p - 1);
    return slope;
}

template <class T, int L>
__global__ void __launch_bounds__(SUM_THREADS) loss_kernel(const T *logits, const float *labels, const float *weights,
                                                           int64_t elements, int64_t V, const double *step, float *loss)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < elements; i += SUM_THREADS)
        sum += loss_value<L>(to_float(logits[i]), labels[i], L == LOSS_WEIGHTED_BCE ? weights + i % V : NULL);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *loss = (float)(sum * step[STEP_INV_N] / (double)V);
}

template <class T, int L>
__global__ void __launch_bounds__(THREADS)
    loss_bwd_kernel(const T *logits, const float *labels, const float *weights, int64_t elements, int64_t V,
                    const double *step, const double *scaler, T *dlogits, bool add)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float scale = (float)(seed(step, scaler) / (double)V);
    if (i >= elements)
        return;
    float grad[1] = {loss_slope<L>(to_float(logits[i]), labels[i], L == LOSS_WEIGHTED_BCE ? weights + i % V : NULL) *
                     scale};
    store_or_add<T, 1>(dlogits + i, grad, add);
}

template <int L>
static void loss_launch(const struct tensor *logits, const struct tensor *labels, const float *weights,
                        const struct tensor *step, const struct tensor *loss, const struct cuda_call *c)
{
    WITH_FLOAT_TYPE(logits->dtype, T,
                    loss_kernel<T, L><<<1, SUM_THREADS, 0, c->stream>>>(
                        (const T *)logits->data, (const float *)labels->data, weights, tensor_elements(logits),
                        logits->shape[1], (const double *)step->data, (float *)loss->data))
}

template <int L>
static void loss_bwd_launch(const struct tensor *logits, const struct tensor *labels, const float *weights,
                            const struct tensor *step, const struct tensor *scaler, const struct tensor *dlogits,
                            const struct cuda_call *c)
{
    int64_t elements = tensor_elements(logits);
    if (elements > 0 && dlogits->data)
        WITH_FLOAT_TYPE(logits->dtype, T,
                        loss_bwd_kernel<T, L><<<(unsigned)blocks_of(elements, THREADS), THREADS, 0, c->stream>>>(
                            (const T *)logits->data, (const float *)labels->data, weights, elements, logits->shape[1],
                            (const double *)step->data, (const double *)scaler->data, (T *)dlogits->data, dlogits->add))
}

extern "C" int cuda_mse(const struct args_mse *a, const struct cuda_call *c)
{
    loss_launch<LOSS_MSE>(&a->logits, &a->labels, NULL, &a->step, &a->loss, c);
    return cuda_launched(c, "mse");
}

extern "C" int cuda_mse_bwd(const struct args_mse_bwd *a, const struct cuda_call *c)
{
    loss_bwd_launch<LOSS_MSE>(&a->logits, &a->labels, NULL, &a->step, &a->scaler, &a->dlogits, c);
    return cuda_launched(c, "mse_bwd");
}

extern "C" int cuda_bce(const struct args_bce *a, const struct cuda_call *c)
{
    const float *weights = (const float *)a->weights.data;
    if (weights)
        loss_launch<LOSS_WEIGHTED_BCE>(&a->logits, &a->labels, weights, &a->step, &a->loss, c);
    else
        loss_launch<LOSS_BCE>(&a->logits, &a->labels, NULL, &a->step, &a->loss, c);
    return cuda_launched(c, "bce");
}

extern "C" int cuda_bce_bwd(const struct args_bce_bwd *a, const struct cuda_call *c)
{
    const float *weights = (const float *)a->weights.data;
    if (weights)
        loss_bwd_launch<LOSS_WEIGHTED_BCE>(&a->logits, &a->labels, weights, &a->step, &a->scaler, &a->dlogits, c);
    else
        loss_bwd_launch<LOSS_BCE>(&a->logits, &a->labels, NULL, &a->step, &a->scaler, &a->dlogits, c);
    return cuda_launched(c, "bce_bwd");
}
