/* cast: y = x in y's dtype; F32 and BF16. move: y = x. Bound by memory. */
#include "cpu/kernels.h"

enum { CHUNK = 16384 };

SIMD void cast(const struct args_cast *a, int threads, bool from_narrow, bool to_narrow)
{
    int64_t n = tensor_elements(&a->x);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES)
            vf_put_upto(a->y.data, i, vf_get_upto(a->x.data, i, n - i, from_narrow), n - i, to_narrow);
}

void ISA(cpu_cast)(const struct args_cast *a, const struct call *c)
{
    if (a->x.dtype == a->y.dtype)
        memcpy(a->y.data, a->x.data, (size_t)dtype_bytes(a->x.dtype, tensor_elements(&a->x)));
    else if (a->x.dtype == DT_BF16)
        cast(a, c->threads, true, false);
    else
        cast(a, c->threads, false, true);
}

static void copy(const struct tensor *x, const struct tensor *y, int threads)
{
    enum { PIECE = 1 << 18 };
    int64_t bytes = dtype_bytes(x->dtype, tensor_elements(x));
#pragma omp parallel for schedule(static) num_threads(bytes <= PIECE ? 1 : threads)
    for (int64_t at = 0; at < bytes; at += PIECE)
        memcpy((char *)y->data + at, (const char *)x->data + at, (size_t)(bytes - at < PIECE ? bytes - at : PIECE));
}

void ISA(cpu_move)(const struct args_move *a, const struct call *c)
{
    copy(&a->x, &a->y, c->threads);
}

void ISA(cpu_page)(const struct args_page *a, const struct call *c)
{
    copy(&a->x, &a->y, c->threads);
}
