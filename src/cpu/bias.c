/* bias (op/bias.c). Bound by bytes. */
#include "cpu/bias.h"

void ISA(cpu_bias)(const struct args_bias *a, const struct call *c)
{
    int64_t N = a->x.shape[0];
#pragma omp parallel for schedule(static) num_threads(tensor_elements(&a->x) < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        put_biased(&a->y, &a->x, a->b.data, n);
}
