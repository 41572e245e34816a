/* expert_bias and its gradient (op/experts/bias.c). Bound by bytes. Order of sums: over an expert's rows, in order. */
#include "cpu/bias.h"

#include "op/experts/rows.h"

void ISA(cpu_expert_bias)(const struct args_expert_bias *a, const struct call *c)
{
    int64_t N = a->x.shape[0], O = a->x.shape[1], E = a->b.shape[0];
#pragma omp parallel for schedule(static) num_threads(tensor_elements(&a->x) < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        put_biased(&a->y, &a->x, (const float *)a->b.data + experts_of(a->offsets.data, E, (int32_t)n) * O, n);
}

SIMD void sum_rows(const struct args_expert_bias_bwd *a, int64_t e, int64_t o, bool bf16)
{
    const int32_t *offsets = a->offsets.data;
    int64_t O = a->dy.shape[1];
    vf sum = vf_set1(0);
    for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
        sum += vf_get_upto(a->dy.data, n * O + o, O - o, bf16);
    put_or_add(&a->db, e * O + o, sum, O - o, a->db.dtype == DT_BF16);
}

void ISA(cpu_expert_bias_bwd)(const struct args_expert_bias_bwd *a, const struct call *c)
{
    int64_t E = a->db.data ? a->offsets.shape[0] - 1 : 0, O = a->dy.shape[1], parts = (O + VF_LANES - 1) / VF_LANES;
#pragma omp parallel for schedule(static) num_threads(tensor_elements(&a->dy) < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < E * parts; i++)
        if (a->dy.dtype == DT_BF16)
            sum_rows(a, i / parts, i % parts * VF_LANES, true);
        else
            sum_rows(a, i / parts, i % parts * VF_LANES, false);
}
