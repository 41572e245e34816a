/* The gradient of attention's sinks (op/attention/attention.c). Bound by the bytes of o and its gradient. Order of sums: a row's product
 * over D by lanes, folded at the end; a head's rows in order. Threads share heads. */
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"

SIMD void sum_head(const struct args_attention_sinks_bwd *a, int64_t head, int64_t rows, bool bf16)
{
    int64_t heads = a->sinks.shape[0], T = a->o.shape[0], D = a->o.shape[1] / heads;
    const float *lse = (const float *)a->lse.data + head * T;
    float sink = ((const float *)a->sinks.data)[head], sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        vf dot = vf_set1(0);
        int64_t at = (i * heads + head) * D;
        for (int64_t d = 0; d < D; d += VF_LANES)
            dot = vf_fma(vf_get_upto(a->o.data, at + d, D - d, bf16), vf_get_upto(a->dout.data, at + d, D - d, bf16),
                         dot);
        sum -= vf_exp(vf_set1(sink - lse[i]))[0] * vf_hsum(dot);
    }
    put_or_add(&a->dsinks, head, vf_set1(sum), 1, a->dsinks.dtype == DT_BF16);
}

void ISA(cpu_attention_sinks_bwd)(const struct args_attention_sinks_bwd *a, const struct call *c)
{
    int64_t heads = a->dsinks.data ? a->sinks.shape[0] : 0, rows = ((const int32_t *)a->cu.data)[a->cu.shape[0] - 1];
#pragma omp parallel for schedule(static) num_threads(tensor_elements(&a->o) < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t h = 0; h < heads; h++)
        if (a->o.dtype == DT_BF16)
            sum_head(a, h, rows, true);
        else
            sum_head(a, h, rows, false);
}
