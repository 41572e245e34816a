/* all_reduce: ranks are threads that see each other's memory. F32 and BF16; sums are in F32, the first rank's first, and rounded once.
 * Bound by memory: each rank reads its part of everybody's gradients once, and writes it once. */
#include "cpu/kernels.h"

#include "base/ranks.h"

/* Vectors start at multiples of this, whatever the number of ranks. */
enum { STRIDE = 64 };

SIMD void add_up(void *const *of, int ranks, int64_t first, int64_t end, int threads, bool narrow)
{
#pragma omp parallel for schedule(static) num_threads(end - first <= PARALLEL_FROM ? 1 : threads)
    for (int64_t start = first; start < end; start += STRIDE)
        for (int64_t i = start; i < start + STRIDE && i < end; i += VF_LANES) {
            vf sum = vf_get_upto(of[0], i, end - i, narrow);
            for (int k = 1; k < ranks; k++)
                sum = sum + vf_get_upto(of[k], i, end - i, narrow);
            for (int k = 0; k < ranks; k++)
                vf_put_upto(of[k], i, sum, end - i, narrow);
        }
}

void ISA(cpu_all_reduce)(const struct args_all_reduce *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->g), blocks = (n + STRIDE - 1) / STRIDE;
    void *const *of = c->rank ? ranks_meet(c->rank, a->g.data) : NULL;
    if (!of)
        return;
    int64_t first = blocks * c->rank->me / c->rank->n * STRIDE, end = blocks * (c->rank->me + 1) / c->rank->n * STRIDE;
    if (a->g.dtype == DT_BF16)
        add_up(of, c->rank->n, first, end < n ? end : n, c->threads, true);
    else
        add_up(of, c->rank->n, first, end < n ? end : n, c->threads, false);
    ranks_meet(c->rank, NULL);
}
