/* The loss that balances experts (op/experts/balance.c). What a layer's router chose is added up in one thread, in the order of rows:
 * next to the products of experts it is nothing. */
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"
#include "op/experts/rows.h"

static int64_t real_rows(const struct tensor *cu)
{
    return ((const int32_t *)cu->data)[cu->shape[0] - 1];
}

/* Lanes from element e on that are in a row of E. */
SIMD vi in_row(int64_t e, int64_t E)
{
    return vi_iota() + (int32_t)e < vi_set1((int32_t)E);
}

struct softmax {
    float max, sum;
};

SIMD struct softmax softmax_of(const struct tensor *z, int64_t n, int64_t E, bool bf16)
{
    vf max = vf_set1(-INFINITY), sum = vf_set1(0);
    for (int64_t e = 0; e < E; e += VF_LANES)
        max = vf_max(max, vf_select(in_row(e, E), vf_get_upto(z->data, n * E + e, E - e, bf16), max));
    struct softmax s = {.max = vf_hmax(max)};
    for (int64_t e = 0; e < E; e += VF_LANES)
        sum += vf_where(in_row(e, E), vf_exp(vf_get_upto(z->data, n * E + e, E - e, bf16) - vf_set1(s.max)));
    s.sum = vf_hsum(sum);
    return s;
}

SIMD vf probabilities(const struct tensor *z, int64_t n, int64_t E, int64_t e, struct softmax s, bool bf16)
{
    vf x = vf_get_upto(z->data, n * E + e, E - e, bf16) - vf_set1(s.max);
    return vf_where(in_row(e, E), vf_exp(x) / vf_set1(s.sum));
}

SIMD void use_row(const struct args_expert_use *a, int64_t n, bool bf16)
{
    int64_t E = a->logits.shape[1], k = a->places.shape[0] / a->logits.shape[0];
    const int32_t *places = (const int32_t *)a->places.data + n * k;
    struct softmax s = softmax_of(&a->logits, n, E, bf16);
    for (int64_t j = 0; j < k; j++)
        ((int32_t *)a->counts.data)[experts_of(a->offsets.data, E, places[j])]++;
    for (int64_t e = 0; e < E; e += VF_LANES) {
        vf sum = vf_get_upto(a->y.data, e, E - e, false);
        vf_put_upto(a->y.data, e, sum + probabilities(&a->logits, n, E, e, s, bf16), E - e, false);
    }
}

void ISA(cpu_expert_use)(const struct args_expert_use *a, const struct call *c)
{
    (void)c;
    bool bf16 = a->logits.dtype == DT_BF16;
    const int32_t *counted = a->counted.data;
    const float *before = a->before.data;
    for (int64_t e = 0; e < a->logits.shape[1]; e++) {
        ((int32_t *)a->counts.data)[e] = counted ? counted[e] : 0;
        ((float *)a->y.data)[e] = before ? before[e] : 0;
    }
    for (int64_t n = 0; n < real_rows(&a->cu); n++)
        bf16 ? use_row(a, n, true) : use_row(a, n, false);
}

SIMD void use_bwd_row(const struct args_expert_use_bwd *a, int64_t n, bool bf16)
{
    int64_t E = a->logits.shape[1];
    struct softmax s = softmax_of(&a->logits, n, E, bf16);
    vf sum = vf_set1(0);
    for (int64_t e = 0; e < E; e += VF_LANES)
        sum += probabilities(&a->logits, n, E, e, s, bf16) * vf_get_upto(a->dy.data, e, E - e, false);
    float mean = vf_hsum(sum);
    for (int64_t e = 0; e < E; e += VF_LANES) {
        vf slope = vf_get_upto(a->dy.data, e, E - e, false) - vf_set1(mean);
        put_or_add(&a->dlogits, n * E + e, probabilities(&a->logits, n, E, e, s, bf16) * slope, E - e, bf16);
    }
}

SIMD void clear_row(const struct tensor *to, int64_t n, bool bf16)
{
    int64_t E = to->shape[1];
    for (int64_t e = 0; e < E && !to->add; e += VF_LANES)
        vf_put_upto(to->data, n * E + e, vf_set1(0), E - e, bf16);
}

void ISA(cpu_expert_use_bwd)(const struct args_expert_use_bwd *a, const struct call *c)
{
    bool bf16 = a->logits.dtype == DT_BF16;
    int64_t N = a->dlogits.data ? a->logits.shape[0] : 0, E = a->logits.shape[1], real = real_rows(&a->cu);
#pragma omp parallel for schedule(static) num_threads(N *E < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        if (n < real)
            bf16 ? use_bwd_row(a, n, true) : use_bwd_row(a, n, false);
        else
            bf16 ? clear_row(&a->dlogits, n, true) : clear_row(&a->dlogits, n, false);
    for (int64_t e = 0; a->dbefore.data && e < E; e += VF_LANES)
        put_or_add(&a->dbefore, e, vf_get_upto(a->dy.data, e, E - e, false), E - e, false);
}

/* What a sum of counts times probabilities, or a count, is multiplied with. */
static double factor(const struct tensor *counts, const struct tensor *cu, const struct tensor *labels,
                     const struct tensor *step, double coef, int64_t layers)
{
    double rows = (double)layers * (double)real_rows(cu);
    int64_t targets = 0;
    for (int64_t n = 0; n < labels->shape[0]; n++)
        targets += ((const int32_t *)labels->data)[n] >= 0;
    double share = (double)targets * ((const double *)step->data)[STEP_INV_N];
    return rows > 0 ? coef * share * (double)counts->shape[0] / (rows * rows) : 0;
}

void ISA(cpu_balance_loss)(const struct args_balance_loss *a, const struct call *c)
{
    (void)c;
    double sum = 0;
    for (int64_t e = 0; e < a->counts.shape[0]; e++)
        sum += ((const int32_t *)a->counts.data)[e] * (double)((const float *)a->sums.data)[e];
    *(float *)a->loss.data = (float)(sum * factor(&a->counts, &a->cu, &a->labels, &a->step, a->coef, a->layers));
}

void ISA(cpu_balance_loss_bwd)(const struct args_balance_loss_bwd *a, const struct call *c)
{
    (void)c;
    float *dsums = a->dsums.data;
    double by = factor(&a->counts, &a->cu, &a->labels, &a->step, a->coef, a->layers);
    by *= a->scaler.data ? ((const double *)a->scaler.data)[SCALER_SCALE] : 1;
    for (int64_t e = 0; dsums && e < a->counts.shape[0]; e++)
        dsums[e] = (a->dsums.add ? dsums[e] : 0) + (float)(by * ((const int32_t *)a->counts.data)[e]);
}
