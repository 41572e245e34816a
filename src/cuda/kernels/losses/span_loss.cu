/* The loss of a stretch of tokens: op/span_loss.c. Bound by latency: two logits a token, a block a sequence.
 *
 * Order of sums: rows i, i + THREADS, … by thread i, then a fixed tree, F32; sequences are added in F64 as those of cross_entropy. */
#include "cuda/kernels/act.cuh"
#include "cuda/kernels/vector.cuh"

enum { THREADS = 256 };

/* Of all threads of the block, in each of them: the larger ones, or the sums. */
template <bool MAX> __device__ static inline float2 block_pair(float2 x)
{
    __shared__ float2 all[THREADS];
    all[threadIdx.x] = x;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            float2 a = all[threadIdx.x], b = all[threadIdx.x + half];
            all[threadIdx.x] = MAX ? make_float2(fmaxf(a.x, b.x), fmaxf(a.y, b.y)) : make_float2(a.x + b.x, a.y + b.y);
        }
    }
    __syncthreads();
    x = all[0];
    __syncthreads(); /* before the next use of the room */
    return x;
}

template <class T> __device__ static inline float2 logits_at(const T *logits, int64_t n)
{
    float start[1], end[1];
    load<T, 1>(start, logits + 2 * n);
    load<T, 1>(end, logits + 2 * n + 1);
    return make_float2(start[0], end[0]);
}

/* 1 where the token has the mark of that side. */
__device__ static inline float2 marks_at(const int32_t *spans, int64_t n)
{
    int32_t bits = spans[n];
    return bits > 0 ? make_float2((float)(bits & 1), (float)(bits >> 1 & 1)) : make_float2(0, 0);
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    span_loss_kernel(const T *logits, const int32_t *spans, const int32_t *cu, float *lse, double *rows)
{
    int64_t b = blockIdx.x, from = cu[b], to = cu[b + 1];
    float2 max = make_float2(-INFINITY, -INFINITY), sum = make_float2(0, 0), own = make_float2(0, 0);
    for (int64_t n = from + threadIdx.x; n < to; n += THREADS) {
        float2 z = logits_at(logits, n);
        max = make_float2(fmaxf(max.x, z.x), fmaxf(max.y, z.y));
    }
    max = block_pair<true>(max);
    float2 marks = make_float2(0, 0);
    for (int64_t n = from + threadIdx.x; n < to; n += THREADS) {
        float2 z = logits_at(logits, n), m = marks_at(spans, n);
        sum = make_float2(sum.x + expf(z.x - max.x), sum.y + expf(z.y - max.y));
        own = make_float2(own.x + (m.x > 0 ? z.x - max.x : 0), own.y + (m.y > 0 ? z.y - max.y : 0));
        marks = make_float2(marks.x + m.x, marks.y + m.y);
    }
    sum = block_pair<false>(sum);
    own = block_pair<false>(own);
    marks = block_pair<false>(marks);
    if (threadIdx.x)
        return;
    bool empty = from >= to;
    double start = empty ? 0 : logf(sum.x), end = empty ? 0 : logf(sum.y);
    lse[2 * b] = empty ? 0 : (float)(max.x + start);
    lse[2 * b + 1] = empty ? 0 : (float)(max.y + end);
    rows[b] = ((double)marks.x * start - own.x + (double)marks.y * end - own.y) / 2;
}

extern "C" int64_t cuda_span_loss_workspace(const struct args_span_loss *a, const struct cuda_call *c)
{
    (void)c;
    return (int64_t)sizeof(double) * a->lse.shape[0];
}

extern "C" int cuda_span_loss(const struct args_span_loss *a, const struct cuda_call *c)
{
    int64_t B = a->lse.shape[0];
    double *rows = (double *)c->workspace;
    if (B > 0)
        WITH_FLOAT_TYPE(a->logits.dtype, T,
                        span_loss_kernel<T><<<(unsigned)B, THREADS, 0, c->stream>>>(
                            (const T *)a->logits.data, (const int32_t *)a->spans.data, (const int32_t *)a->cu.data,
                            (float *)a->lse.data, rows))
    cuda_mean_loss(rows, B, &a->step, NULL, &a->loss, c);
    return cuda_launched(c, "span_loss");
}

/* The block of number B has the rows behind all sequences. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    span_loss_bwd_kernel(const T *logits, const int32_t *spans, const int32_t *cu, const float *lse, const double *step,
                         const double *scaler, T *dlogits, bool add, int64_t rows, int64_t B)
{
    int64_t b = blockIdx.x, from = cu[b], to = b < B ? cu[b + 1] : rows;
    float seed = (float)(step[STEP_INV_N] * (scaler ? scaler[SCALER_SCALE] : 1) / 2);
    float2 marks = make_float2(0, 0);
    for (int64_t n = from + threadIdx.x; b < B && n < to; n += THREADS) {
        float2 m = marks_at(spans, n);
        marks = make_float2(marks.x + m.x, marks.y + m.y);
    }
    marks = block_pair<false>(marks);
    for (int64_t n = from + threadIdx.x; n < to; n += THREADS) {
        float start[1] = {0}, end[1] = {0};
        if (b < B) {
            float2 z = logits_at(logits, n), m = marks_at(spans, n);
            start[0] = marks.x > 0 ? (marks.x * expf(z.x - lse[2 * b]) - m.x) * seed : 0;
            end[0] = marks.y > 0 ? (marks.y * expf(z.y - lse[2 * b + 1]) - m.y) * seed : 0;
        }
        store_or_add<T, 1>(dlogits + 2 * n, start, add);
        store_or_add<T, 1>(dlogits + 2 * n + 1, end, add);
    }
}

extern "C" int cuda_span_loss_bwd(const struct args_span_loss_bwd *a, const struct cuda_call *c)
{
    int64_t B = a->lse.shape[0], rows = a->logits.shape[0];
    if (rows > 0 && a->dlogits.data)
        WITH_FLOAT_TYPE(a->logits.dtype, T,
                        span_loss_bwd_kernel<T><<<(unsigned)(B + 1), THREADS, 0, c->stream>>>(
                            (const T *)a->logits.data, (const int32_t *)a->spans.data, (const int32_t *)a->cu.data,
                            (const float *)a->lse.data, (const double *)a->step.data, (const double *)a->scaler.data,
                            (T *)a->dlogits.data, a->dlogits.add, rows, B))
    return cuda_launched(c, "span_loss_bwd");
}
