/* The largest logit of a row: lane l sees v = l, l + VF_LANES, … in order, then the lanes in order. */
#include "cpu/kernels.h"

SIMD int32_t argmax_row(const struct args_argmax *a, int64_t n, bool bf16)
{
    int64_t V = a->logits.shape[1], at = n * V;
    vf max = vf_set1(-INFINITY);
    vi best = {0};
    for (int64_t v = 0; v < V; v += VF_LANES) {
        vf z = vf_get_upto(a->logits.data, at + v, V - v, bf16);
        vi here = vi_iota() + (int32_t)v, larger = (z > max) & (here < (int32_t)V); /* NaN is larger than nothing */
        max = vf_select(larger, z, max);
        best = (larger & here) | (~larger & best);
    }
    int first = 0;
    for (int l = 1; l < VF_LANES; l++)
        if (max[l] > max[first] || (max[l] == max[first] && best[l] < best[first]))
            first = l;
    return best[first];
}

void ISA(cpu_argmax)(const struct args_argmax *a, const struct call *c)
{
    int64_t N = a->logits.shape[0], V = a->logits.shape[1];
    const int32_t *labels = a->labels.data;
    int32_t *best = a->best.data;
    bool bf16 = a->logits.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(N *V < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        best[n] = labels[n] < 0 ? -1 : bf16 ? argmax_row(a, n, true) : argmax_row(a, n, false);
}
