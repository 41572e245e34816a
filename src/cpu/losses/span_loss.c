/* The loss of a stretch of tokens: op/span_loss.c. The columns of start and end lie side by side, so even lanes have the one and odd
 * lanes the other. Sums of a sequence are F32 by lanes, lanes in order; sequences are added in order in F64. On one thread: logits
 * are two a token. */
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"

/* v in the first `left` lanes, `other` behind. */
SIMD vf lanes_or(vf v, int64_t left, float other)
{
    return left >= VF_LANES ? v : vf_select(vi_iota() < (int32_t)left, v, vf_set1(other));
}

/* Of lanes with the value of either side in turn. */
SIMD vf vf_of_sides(const float side[2])
{
    vf v;
    for (int i = 0; i < VF_LANES; i++)
        v[i] = side[i % 2];
    return v;
}

static bool marked(const struct tensor *spans, int64_t n, int side)
{
    int32_t bits = ((const int32_t *)spans->data)[n];
    return bits > 0 && (bits >> side & 1);
}

/* max and log sum exp(z - max) of both sides of rows from to to, of which there is one at least. */
SIMD void softmax_of(const struct tensor *logits, int64_t from, int64_t to, float max[2], float log_sum[2], bool bf16)
{
    vf m = vf_set1(-INFINITY), sum = {0};
    for (int64_t i = 2 * from; i < 2 * to; i += VF_LANES)
        m = vf_max(m, lanes_or(vf_get_upto(logits->data, i, 2 * to - i, bf16), 2 * to - i, -INFINITY));
    max[0] = max[1] = -INFINITY;
    for (int i = 0; i < VF_LANES; i++)
        max[i % 2] = m[i] > max[i % 2] || m[i] != m[i] ? m[i] : max[i % 2];
    vf most = vf_of_sides(max);
    for (int64_t i = 2 * from; i < 2 * to; i += VF_LANES)
        sum += vf_exp(lanes_or(vf_get_upto(logits->data, i, 2 * to - i, bf16) - most, 2 * to - i, -INFINITY));
    float sums[2] = {0};
    for (int i = 0; i < VF_LANES; i++)
        sums[i % 2] += sum[i];
    for (int side = 0; side < 2; side++)
        log_sum[side] = vf_log(vf_set1(sums[side]))[0];
}

SIMD float element(const void *base, int64_t i, bool bf16)
{
    return bf16 ? bf16_to_float(((const uint16_t *)base)[i]) : ((const float *)base)[i];
}

void ISA(cpu_span_loss)(const struct args_span_loss *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    bool bf16 = a->logits.dtype == DT_BF16;
    double loss = 0;
    for (int64_t b = 0; b < a->lse.shape[0]; b++) {
        float max[2] = {0}, log_sum[2] = {0};
        if (cu[b] < cu[b + 1])
            softmax_of(&a->logits, cu[b], cu[b + 1], max, log_sum, bf16);
        for (int side = 0; side < 2; side++) {
            ((float *)a->lse.data)[2 * b + side] = max[side] + log_sum[side];
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                if (marked(&a->spans, n, side)) /* relative to the maximum: a small loss keeps its digits */
                    loss += log_sum[side] - ((double)element(a->logits.data, 2 * n + side, bf16) - max[side]);
        }
    }
    *(float *)a->loss.data = (float)(loss / 2 * ((const double *)a->step.data)[STEP_INV_N]);
}

/* Elements of dlogits from 2 `from` to 2 `to`: marks exp(z - lse), less 1 at a mark, times `seed`. */
SIMD void span_bwd_rows(const struct args_span_loss_bwd *a, int64_t from, int64_t to, const float marks[2],
                        const float lse[2], float seed, bool bf16)
{
    vf by = vf_of_sides(marks), base = vf_of_sides(lse);
    for (int64_t i = 2 * from; i < 2 * to; i += VF_LANES) {
        int64_t left = 2 * to - i;
        vf target = {0}, p = vf_exp(lanes_or(vf_get_upto(a->logits.data, i, left, bf16) - base, left, 0));
        for (int k = 0; k < VF_LANES && k < left; k++)
            target[k] = marked(&a->spans, (i + k) / 2, k % 2);
        vf none = vf_set1(0), grad = vf_select(by > none, p * by - target, none) * seed;
        put_or_add(&a->dlogits, i, grad, left, bf16);
    }
}

void ISA(cpu_span_loss_bwd)(const struct args_span_loss_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    bool bf16 = a->logits.dtype == DT_BF16;
    int64_t B = a->lse.shape[0], T = a->logits.shape[0];
    const double *scaler = a->scaler.data;
    float seed = (float)(((const double *)a->step.data)[STEP_INV_N] * (scaler ? scaler[SCALER_SCALE] : 1) / 2);
    if (!a->dlogits.data)
        return;
    for (int64_t b = 0; b < B; b++) {
        float marks[2] = {0};
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            for (int side = 0; side < 2; side++)
                marks[side] += marked(&a->spans, n, side);
        span_bwd_rows(a, cu[b], cu[b + 1], marks, (const float *)a->lse.data + 2 * b, seed, bf16);
    }
    const float none[2] = {0};
    if (!a->dlogits.add)
        span_bwd_rows(a, cu[B], T, none, none, 0, bf16);
}
