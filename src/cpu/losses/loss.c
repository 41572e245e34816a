/* The losses. The sum over a row is F32 by lanes; rows are added in order in F64 (in parallel for cross-entropy, whose
 * rows' sums wait in the workspace; the others have few logits). */
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"

static double inverse_n(const struct tensor *step)
{
    return ((const double *)step->data)[STEP_INV_N];
}

/* What a gradient starts with. */
static double seed(const struct tensor *step, const struct tensor *scaler)
{
    return inverse_n(step) * (scaler->data ? ((const double *)scaler->data)[SCALER_SCALE] : 1);
}

/* v in the first `left` lanes, `other` behind. */
SIMD vf lanes_or(vf v, int64_t left, float other)
{
    return left >= VF_LANES ? v : vf_select(vi_iota() < (int32_t)left, v, vf_set1(other));
}

SIMD float element(const void *base, int64_t i, bool bf16)
{
    return bf16 ? bf16_to_float(((const uint16_t *)base)[i]) : ((const float *)base)[i];
}

/* ---- cross-entropy: two passes over a row, the maximum and the sum ---- */

/* The loss of a row whose classes have weights; the logits' maximum and log sum exp(z - max) are known. */
SIMD double weighted_row(const struct args_cross_entropy *a, int64_t n, float max, double log_sum, bool bf16)
{
    int64_t V = a->logits.shape[1], at = n * V, label = ((const int32_t *)a->labels.data)[n];
    const float *w = a->weights.data;
    vf weights = {0}, all = {0};
    for (int64_t v = 0; v < V && a->smoothing > 0; v += VF_LANES) {
        vf each = vf_get_upto(w, v, V - v, false);
        weights += each;
        all += lanes_or(each * (vf_get_upto(a->logits.data, at + v, V - v, bf16) - max), V - v, 0);
    }
    double own = (1 - a->smoothing) * (double)w[label];
    double mean = (vf_hsum(weights) * log_sum - vf_hsum(all)) / (double)V;
    return own * (log_sum - ((double)element(a->logits.data, at + label, bf16) - max)) + a->smoothing * mean;
}

SIMD double cross_entropy_row(const struct args_cross_entropy *a, int64_t n, bool bf16)
{
    int64_t V = a->logits.shape[1], at = n * V;
    int32_t label = ((const int32_t *)a->labels.data)[n];
    vf m = vf_set1(-INFINITY), sum = {0}, all = {0};
    ((float *)a->lse.data)[n] = 0;
    if (label < 0)
        return 0;
    for (int64_t v = 0; v < V; v += VF_LANES)
        m = vf_max(m, lanes_or(vf_get_upto(a->logits.data, at + v, V - v, bf16), V - v, -INFINITY));
    float max = vf_hmax(m);
    for (int64_t v = 0; v < V; v += VF_LANES) {
        vf z = lanes_or(vf_get_upto(a->logits.data, at + v, V - v, bf16) - max, V - v, -INFINITY);
        sum += vf_exp(z);
        all += lanes_or(z, V - v, 0);
    }
    /* Relative to the maximum, so that a confident row keeps the digits of its small loss. */
    double log_sum = vf_log(vf_set1(vf_hsum(sum)))[0];
    ((float *)a->lse.data)[n] = (float)(max + log_sum);
    if (a->weights.data)
        return weighted_row(a, n, max, log_sum, bf16);
    double target = (double)element(a->logits.data, at + label, bf16) - max, mean = vf_hsum(all) / (double)V;
    return (1 - a->smoothing) * (log_sum - target) + (a->smoothing > 0 ? a->smoothing * (log_sum - mean) : 0);
}

int64_t ISA(cpu_cross_entropy_workspace)(const struct args_cross_entropy *a, int threads)
{
    (void)threads;
    return 8 * a->logits.shape[0];
}

void ISA(cpu_cross_entropy_rows)(const struct args_cross_entropy *a, double *rows, int threads)
{
    int64_t N = a->logits.shape[0], V = a->logits.shape[1];
    bool bf16 = a->logits.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(N *V < PARALLEL_FROM ? 1 : threads)
    for (int64_t n = 0; n < N; n++)
        rows[n] = bf16 ? cross_entropy_row(a, n, true) : cross_entropy_row(a, n, false);
}

void ISA(cpu_mean_loss)(const double *rows, int64_t n, const struct tensor *step, const struct tensor *more,
                        const struct tensor *loss)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += rows[i];
    *(float *)loss->data = (float)(sum * inverse_n(step) + (more->data ? (double)*(const float *)more->data : 0));
}

void ISA(cpu_cross_entropy)(const struct args_cross_entropy *a, const struct call *c)
{
    ISA(cpu_cross_entropy_rows)(a, c->workspace, c->threads);
    ISA(cpu_mean_loss)(c->workspace, a->logits.shape[0], &a->step, &a->more, &a->loss);
}

SIMD void cross_entropy_bwd_row(const struct args_cross_entropy_bwd *a, int64_t n, bool bf16)
{
    int64_t V = a->logits.shape[1], at = n * V;
    int32_t label = ((const int32_t *)a->labels.data)[n];
    float lse = ((const float *)a->lse.data)[n], scale = (float)seed(&a->step, &a->scaler);
    float one = (float)(1 - a->smoothing), each = (float)(a->smoothing / (double)V);
    for (int64_t v = 0; v < V; v += VF_LANES) {
        int64_t left = V - v;
        vf grad = {0};
        if (label >= 0) {
            vf p = vf_exp(vf_get_upto(a->logits.data, at + v, left, bf16) - lse);
            vf target = vf_where(vi_iota() == label - (int32_t)v, vf_set1(one)) + each;
            grad = (p - target) * scale;
        }
        if (a->dlogits.add)
            grad += vf_get_upto(a->dlogits.data, at + v, left, bf16);
        vf_put_upto(a->dlogits.data, at + v, grad, left, bf16);
    }
}

/* `all`: the sum of the weights. */
SIMD void weighted_bwd_row(const struct args_cross_entropy_bwd *a, int64_t n, double all, bool bf16)
{
    int64_t V = a->logits.shape[1], at = n * V;
    const float *w = a->weights.data;
    int32_t label = ((const int32_t *)a->labels.data)[n];
    float lse = ((const float *)a->lse.data)[n], scale = (float)seed(&a->step, &a->scaler);
    double each = a->smoothing / (double)V, own = label >= 0 ? (1 - a->smoothing) * (double)w[label] : 0;
    for (int64_t v = 0; v < V; v += VF_LANES) {
        int64_t left = V - v;
        vf grad = {0};
        if (label >= 0) {
            vf p = vf_exp(vf_get_upto(a->logits.data, at + v, left, bf16) - lse) * (float)(own + each * all);
            vf target = vf_where(vi_iota() == label - (int32_t)v, vf_set1((float)own));
            grad = (p - target - vf_get_upto(w, v, left, false) * (float)each) * scale;
        }
        if (a->dlogits.add)
            grad += vf_get_upto(a->dlogits.data, at + v, left, bf16);
        vf_put_upto(a->dlogits.data, at + v, grad, left, bf16);
    }
}

static void weighted_bwd(const struct args_cross_entropy_bwd *a)
{
    double all = 0;
    for (int64_t v = 0; v < a->logits.shape[1]; v++)
        all += (double)((const float *)a->weights.data)[v];
    for (int64_t n = 0; n < a->logits.shape[0]; n++)
        if (a->logits.dtype == DT_BF16)
            weighted_bwd_row(a, n, all, true);
        else
            weighted_bwd_row(a, n, all, false);
}

void ISA(cpu_cross_entropy_bwd)(const struct args_cross_entropy_bwd *a, const struct call *c)
{
    int64_t N = a->logits.shape[0], V = a->logits.shape[1];
    bool bf16 = a->logits.dtype == DT_BF16;
    if (!a->dlogits.data)
        return;
    if (a->weights.data) { /* of a classifier: few logits */
        weighted_bwd(a);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(N *V < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        if (bf16)
            cross_entropy_bwd_row(a, n, true);
        else
            cross_entropy_bwd_row(a, n, false);
}

/* ---- mean squared error and binary cross-entropy, element by element ---- */

SIMD vf square(vf z, vf y)
{
    return (z - y) * (z - y);
}

SIMD vf square_slope(vf z, vf y)
{
    return 2 * (z - y);
}

/* log(1 + exp(-|z|)), with the rounding of 1 + e put right, so that a tiny e is kept */
SIMD vf log1p_exp(vf z)
{
    vf e = vf_exp(-vf_abs(z)), u = 1 + e;
    return vf_select(u == 1, e, vf_log(u) * (e / (u - 1)));
}

SIMD vf binary(vf z, vf y)
{
    return vf_max(vf_set1(0), z) - z * y + log1p_exp(z);
}

SIMD vf binary_slope(vf z, vf y)
{
    return vf_sigmoid(z) - y;
}

/* The share of a label that is there, more than once. */
SIMD vf binary_more(vf z, vf y, vf w)
{
    return (w - 1) * y * (log1p_exp(z) + vf_max(vf_set1(0), -z));
}

/* The sum over a row of f(logit, label). */
#define ROW_SUM(f)                                                                                                     \
    SIMD double f##_row(const struct tensor *logits, const struct tensor *labels, int64_t n, bool bf16)                \
    {                                                                                                                  \
        int64_t V = logits->shape[1], at = n * V;                                                                      \
        vf sum = {0};                                                                                                  \
        for (int64_t v = 0; v < V; v += VF_LANES)                                                                      \
            sum += lanes_or(                                                                                           \
                f(vf_get_upto(logits->data, at + v, V - v, bf16), vf_get_upto(labels->data, at + v, V - v, false)),    \
                V - v, 0);                                                                                             \
        return vf_hsum(sum);                                                                                           \
    }
ROW_SUM(square)
ROW_SUM(binary)

/* dlogits (+)= scale f(logit, label), elements as one row. */
#define ROW_SLOPE(f)                                                                                                   \
    SIMD void f##_all(const struct tensor *logits, const struct tensor *labels, const struct tensor *dlogits,          \
                      double seed, bool bf16)                                                                          \
    {                                                                                                                  \
        int64_t N = dlogits->data ? tensor_elements(logits) : 0;                                                       \
        float scale = (float)(seed / (double)logits->shape[1]);                                                        \
        for (int64_t i = 0; i < N; i += VF_LANES) {                                                                    \
            vf grad =                                                                                                  \
                scale * f(vf_get_upto(logits->data, i, N - i, bf16), vf_get_upto(labels->data, i, N - i, false));      \
            if (dlogits->add)                                                                                          \
                grad += vf_get_upto(dlogits->data, i, N - i, bf16);                                                    \
            vf_put_upto(dlogits->data, i, grad, N - i, bf16);                                                          \
        }                                                                                                              \
    }
ROW_SLOPE(square_slope)
ROW_SLOPE(binary_slope)

#define ELEMENTWISE_LOSS(linkage, forward, backward, name, f)                                                          \
    linkage void forward(const struct args_##name *a, const struct call *c)                                            \
    {                                                                                                                  \
        double sum = 0;                                                                                                \
        (void)c;                                                                                                       \
        for (int64_t n = 0; n < a->logits.shape[0]; n++)                                                               \
            sum += a->logits.dtype == DT_BF16 ? f##_row(&a->logits, &a->labels, n, true)                               \
                                              : f##_row(&a->logits, &a->labels, n, false);                             \
        *(float *)a->loss.data = (float)(sum * inverse_n(&a->step) / (double)a->logits.shape[1]);                      \
    }                                                                                                                  \
    linkage void backward(const struct args_##name##_bwd *a, const struct call *c)                                     \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        if (a->logits.dtype == DT_BF16)                                                                                \
            f##_slope_all(&a->logits, &a->labels, &a->dlogits, seed(&a->step, &a->scaler), true);                      \
        else                                                                                                           \
            f##_slope_all(&a->logits, &a->labels, &a->dlogits, seed(&a->step, &a->scaler), false);                     \
    }
ELEMENTWISE_LOSS(, ISA(cpu_mse), ISA(cpu_mse_bwd), mse, square)
ELEMENTWISE_LOSS(static, unweighted_bce, unweighted_bce_bwd, bce, binary)

/* ---- binary cross-entropy whose labels have weights ---- */

SIMD double weighted_binary_row(const struct args_bce *a, int64_t n, bool bf16)
{
    int64_t V = a->logits.shape[1], at = n * V;
    vf sum = {0};
    for (int64_t v = 0; v < V; v += VF_LANES) {
        vf z = vf_get_upto(a->logits.data, at + v, V - v, bf16), y = vf_get_upto(a->labels.data, at + v, V - v, false);
        sum += lanes_or(binary(z, y) + binary_more(z, y, vf_get_upto(a->weights.data, v, V - v, false)), V - v, 0);
    }
    return vf_hsum(sum);
}

SIMD void weighted_binary_slope(const struct args_bce_bwd *a, int64_t n, float scale, bool bf16)
{
    int64_t V = a->logits.shape[1], at = n * V;
    for (int64_t v = 0; v < V; v += VF_LANES) {
        vf z = vf_get_upto(a->logits.data, at + v, V - v, bf16), y = vf_get_upto(a->labels.data, at + v, V - v, false);
        vf w = vf_get_upto(a->weights.data, v, V - v, false);
        vf grad = scale * (binary_slope(z, y) + (w - 1) * y * (vf_sigmoid(z) - 1));
        if (a->dlogits.add)
            grad += vf_get_upto(a->dlogits.data, at + v, V - v, bf16);
        vf_put_upto(a->dlogits.data, at + v, grad, V - v, bf16);
    }
}

void ISA(cpu_bce)(const struct args_bce *a, const struct call *c)
{
    double sum = 0;
    if (!a->weights.data) {
        unweighted_bce(a, c);
        return;
    }
    for (int64_t n = 0; n < a->logits.shape[0]; n++)
        sum += a->logits.dtype == DT_BF16 ? weighted_binary_row(a, n, true) : weighted_binary_row(a, n, false);
    *(float *)a->loss.data = (float)(sum * inverse_n(&a->step) / (double)a->logits.shape[1]);
}

void ISA(cpu_bce_bwd)(const struct args_bce_bwd *a, const struct call *c)
{
    if (!a->weights.data) {
        unweighted_bce_bwd(a, c);
        return;
    }
    float scale = (float)(seed(&a->step, &a->scaler) / (double)a->logits.shape[1]);
    for (int64_t n = 0; n < a->logits.shape[0] && a->dlogits.data; n++)
        if (a->logits.dtype == DT_BF16)
            weighted_binary_slope(a, n, scale, true);
        else
            weighted_binary_slope(a, n, scale, false);
}
