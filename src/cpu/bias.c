/* bias (op/bias.c). Bound by bytes. */
#include "cpu/kernels.h"

SIMD void add_bias(const struct args_bias *a, int64_t n, bool bf16)
{
    int64_t O = a->x.shape[1];
    for (int64_t o = 0; o < O; o += VF_LANES)
        vf_put_upto(a->y.data, n * O + o,
                    vf_get_upto(a->x.data, n * O + o, O - o, bf16) + vf_get_upto(a->b.data, o, O - o, false), O - o,
                    bf16);
}

void ISA(cpu_bias)(const struct args_bias *a, const struct call *c)
{
    int64_t N = a->x.shape[0];
#pragma omp parallel for schedule(static) num_threads(tensor_elements(&a->x) < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        if (a->x.dtype == DT_BF16)
            add_bias(a, n, true);
        else
            add_bias(a, n, false);
}
