/* The updates and the norm of the gradients (op/optimizer/optimizer.c). Bound by memory: AdamW reads p, g, m, v and writes p, m,
 * v, 28 bytes a parameter; 14 where weight, gradient and states are bf16, and then by the random numbers of their rounding.
 * Hyper-parameters are combined in double, then used as floats. */
#include "cpu/kernels.h"
#include "cpu/optimizer/stored.h"
#include "op/clip.h"

#include <math.h>

enum { CHUNK = 16384 };

/* sumsq: the partial sums are in F64, four vectors of them side by side, folded at the end in a fixed order. */
SIMD double square_sum(const void *g, int64_t at, int64_t n, bool narrow)
{
    double lane[VF_LANES] = {0};
    int64_t i = 0;
    vd low = {0}, high = {0}, low2 = {0}, high2 = {0};
    for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES) {
        vf v = vf_get(g, at + i, narrow), v2 = vf_get(g, at + i + VF_LANES, narrow);
        vd a = vd_low(v), b = vd_high(v), a2 = vd_low(v2), b2 = vd_high(v2);
        low = low + a * a;
        high = high + b * b;
        low2 = low2 + a2 * a2;
        high2 = high2 + b2 * b2;
    }
    low = low + low2;
    high = high + high2;
    memcpy(lane, &low, sizeof low);
    memcpy(lane + VF_LANES / 2, &high, sizeof high);
    for (; i < n; i++) {
        double x = narrow ? bf16_to_float(((const uint16_t *)g)[at + i]) : ((const float *)g)[at + i];
        lane[i % VF_LANES] += x * x;
    }
    for (int half = VF_LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

void ISA(cpu_sumsq)(const struct args_sumsq *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->g);
    double *partials = sumsq_partials(a);
    bool narrow = a->g.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(n <= SUMSQ_CHUNK ? 1 : c->threads)
    for (int64_t start = 0; start < n; start += SUMSQ_CHUNK) {
        int64_t m = n - start < SUMSQ_CHUNK ? n - start : SUMSQ_CHUNK;
        partials[start / SUMSQ_CHUNK] =
            narrow ? square_sum(a->g.data, start, m, true) : square_sum(a->g.data, start, m, false);
    }
}

void ISA(cpu_clip)(const struct args_clip *a, const struct call *c)
{
    (void)c;
    double sum = 0;
    for (int64_t i = 0; i < a->partials.shape[0]; i++)
        sum += ((const double *)a->partials.data)[i];
    double norm, coef;
    clip_decide(sum, a->max_norm, a->scaler.data, &norm, &coef);
    *(float *)a->norm.data = (float)norm;
    *(float *)a->coef.data = (float)coef;
}

/* What the gradient is multiplied with; negative: change nothing. */
SIMD float coefficient(const struct tensor *coef)
{
    return coef->data ? *(const float *)coef->data : 1;
}

/* update(a, threads, whether the gradient is bf16, whether the copy is, whether p and its states are): a copy of the code
 * for each. What is stored in bf16 has no copy. */
#define FOR_TYPES(update, a, threads)                                                                                  \
    do {                                                                                                               \
        bool narrow = (a)->g.dtype == DT_BF16, narrow_copy = (a)->copy.dtype == DT_BF16;                               \
        bool pure = (a)->p.dtype == DT_BF16;                                                                           \
        if (pure && narrow)                                                                                            \
            update(a, threads, true, false, true);                                                                     \
        else if (pure)                                                                                                 \
            update(a, threads, false, false, true);                                                                    \
        else if (narrow && narrow_copy)                                                                                \
            update(a, threads, true, true, false);                                                                     \
        else if (narrow)                                                                                               \
            update(a, threads, true, false, false);                                                                    \
        else if (narrow_copy)                                                                                          \
            update(a, threads, false, true, false);                                                                    \
        else                                                                                                           \
            update(a, threads, false, false, false);                                                                   \
    } while (0)

SIMD void adamw(const struct args_adamw *a, int threads, bool narrow, bool narrow_copy, bool pure)
{
    const double *step = a->step.data;
    double lr = step[STEP_LR], t = step[STEP_UPDATE];
    void *copy = a->copy.data;
    double decay = -lr * a->weight_decay;
    vf first = vf_set1(a->decay_last ? 0 : (float)decay), last = vf_set1(a->decay_last ? (float)decay : 0),
       eps = vf_set1((float)a->eps);
    vf rate = vf_set1((float)(-lr / (1 - pow(a->beta1, t))));
    vf scale = vf_set1((float)(1 / sqrt(1 - pow(a->beta2, t))));
    vf beta1 = vf_set1((float)a->beta1), rest1 = vf_set1((float)(1 - a->beta1));
    vf beta2 = vf_set1((float)a->beta2), rest2 = vf_set1((float)(1 - a->beta2));
    vf coef = vf_set1(coefficient(&a->coef));
    int64_t n = tensor_elements(&a->p);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK) {
        struct stored p = stored_of(&a->p, step, a->noise, ROUND_WEIGHT);
        struct stored m = stored_of(&a->m, step, a->noise, ROUND_STATE1);
        struct stored v = stored_of(&a->v, step, a->noise, ROUND_STATE2);
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES) {
            int64_t left = n - i;
            vf g = vf_get_upto(a->g.data, i, left, narrow) * coef;
            vf w = stored_get(&p, i, left, pure), m1 = stored_get(&m, i, left, pure),
               m2 = stored_get(&v, i, left, pure);
            w = vf_fma(first, w, w);
            m1 = vf_fma(beta1, m1, rest1 * g);
            m2 = vf_fma(beta2, m2, rest2 * g * g);
            w = vf_fma(rate, m1 / vf_fma(vf_sqrt(m2), scale, eps), w);
            w = vf_fma(last, w, w);
            stored_put(&p, i, w, left, pure);
            if (copy)
                vf_put_upto(copy, i, w, left, narrow_copy);
            stored_put(&m, i, m1, left, pure);
            stored_put(&v, i, m2, left, pure);
        }
    }
}

void ISA(cpu_adamw)(const struct args_adamw *a, const struct call *c)
{
    if (coefficient(&a->coef) < 0)
        return;
    FOR_TYPES(adamw, a, c->threads);
}

SIMD void sgd(const struct args_sgd *a, int threads, bool narrow, bool narrow_copy, bool pure)
{
    const double *step = a->step.data;
    void *copy = a->copy.data;
    bool first = step[STEP_UPDATE] == 1;
    vf decay = vf_set1((float)a->weight_decay), rate = vf_set1((float)-step[STEP_LR]);
    vf momentum = vf_set1((float)a->momentum), rest = vf_set1((float)(1 - a->dampening));
    vf coef = vf_set1(coefficient(&a->coef));
    int64_t n = tensor_elements(&a->p);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK) {
        struct stored p = stored_of(&a->p, step, a->noise, ROUND_WEIGHT);
        struct stored buf = stored_of(&a->buf, step, a->noise, ROUND_STATE1);
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES) {
            int64_t left = n - i;
            vf w = stored_get(&p, i, left, pure);
            vf g = vf_fma(decay, w, vf_get_upto(a->g.data, i, left, narrow) * coef), d = g;
            if (buf.data) {
                vf b = first ? g : vf_fma(momentum, stored_get(&buf, i, left, pure), rest * g);
                stored_put(&buf, i, b, left, pure);
                d = a->nesterov ? vf_fma(momentum, b, g) : b;
            }
            w = vf_fma(rate, d, w);
            stored_put(&p, i, w, left, pure);
            if (copy)
                vf_put_upto(copy, i, w, left, narrow_copy);
        }
    }
}

void ISA(cpu_sgd)(const struct args_sgd *a, const struct call *c)
{
    if (coefficient(&a->coef) < 0)
        return;
    FOR_TYPES(sgd, a, c->threads);
}
