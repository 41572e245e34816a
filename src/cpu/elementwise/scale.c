/* scale: y = x by; F32 and BF16. Bound by memory. */
#include "cpu/kernels.h"

enum { CHUNK = 16384 };

SIMD void scale(const struct args_scale *a, int threads, bool narrow)
{
    int64_t n = tensor_elements(&a->x);
    vf by = vf_set1((float)a->by);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES)
            vf_put_upto(a->y.data, i, vf_get_upto(a->x.data, i, n - i, narrow) * by, n - i, narrow);
}

void ISA(cpu_scale)(const struct args_scale *a, const struct call *c)
{
    if (a->x.dtype == DT_BF16)
        scale(a, c->threads, true);
    else
        scale(a, c->threads, false);
}
