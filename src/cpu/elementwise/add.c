/* add: y = a + b, and back; F32 and BF16. Bound by memory. */
#include "cpu/kernels.h"

enum { CHUNK = 16384 };

SIMD void add(const struct args_add *a, int threads, bool narrow)
{
    int64_t n = tensor_elements(&a->y);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES)
            vf_put_upto(a->y.data, i,
                        vf_get_upto(a->a.data, i, n - i, narrow) + vf_get_upto(a->b.data, i, n - i, narrow), n - i,
                        narrow);
}

SIMD void add_bwd(const struct args_add_bwd *a, int threads, bool narrow)
{
    int64_t n = tensor_elements(&a->dy);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES) {
            vf dy = vf_get_upto(a->dy.data, i, n - i, narrow);
            if (a->da.data)
                put_or_add(&a->da, i, dy, n - i, narrow);
            if (a->db.data)
                put_or_add(&a->db, i, dy, n - i, narrow);
        }
}

void ISA(cpu_add)(const struct args_add *a, const struct call *c)
{
    if (a->y.dtype == DT_BF16)
        add(a, c->threads, true);
    else
        add(a, c->threads, false);
}

void ISA(cpu_add_bwd)(const struct args_add_bwd *a, const struct call *c)
{
    if (a->dy.dtype == DT_BF16)
        add_bwd(a, c->threads, true);
    else
        add_bwd(a, c->threads, false);
}
