/* softcap: y = cap tanh(x / cap), and back; F32 and BF16. Bound by memory in bf16, by the exponential in fp32. */
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"

enum { CHUNK = 16384 };

SIMD void softcap(const struct args_softcap *a, int threads, bool narrow)
{
    int64_t n = tensor_elements(&a->x);
    float cap = (float)a->cap;
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES)
            vf_put_upto(a->y.data, i, vf_tanh(vf_get_upto(a->x.data, i, n - i, narrow) / cap) * cap, n - i, narrow);
}

SIMD void softcap_bwd(const struct args_softcap_bwd *a, int threads, bool narrow)
{
    int64_t n = a->dx.data ? tensor_elements(&a->y) : 0;
    float cap = (float)a->cap;
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES) {
            vf t = vf_get_upto(a->y.data, i, n - i, narrow) / cap;
            put_or_add(&a->dx, i, vf_get_upto(a->dy.data, i, n - i, narrow) * (1 - t * t), n - i, narrow);
        }
}

void ISA(cpu_softcap)(const struct args_softcap *a, const struct call *c)
{
    if (a->x.dtype == DT_BF16)
        softcap(a, c->threads, true);
    else
        softcap(a, c->threads, false);
}

void ISA(cpu_softcap_bwd)(const struct args_softcap_bwd *a, const struct call *c)
{
    if (a->y.dtype == DT_BF16)
        softcap_bwd(a, c->threads, true);
    else
        softcap_bwd(a, c->threads, false);
}
