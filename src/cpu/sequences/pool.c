/* The mean of each sequence's rows, summed in their order; and back. Bound by memory. */
#include "cpu/kernels.h"

void ISA(cpu_pool)(const struct args_pool *a, const struct call *c)
{
    const int32_t *cu = a->cu.data;
    int64_t B = a->y.shape[0], H = a->x.shape[1];
    bool bf16 = a->x.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(a->x.shape[0] * H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h += VF_LANES) {
            vf sum = {0};
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                sum += vf_get_upto(a->x.data, n * H + h, H - h, bf16);
            vf_put_upto(a->y.data, b * H + h, sum / (float)(cu[b + 1] - cu[b]), H - h, bf16);
        }
}

/* dx[n] = row `from` of dy, times `by`; from -1: 0. */
SIMD void spread_row(const struct args_pool_bwd *a, int64_t n, int64_t from, float by, bool bf16)
{
    int64_t H = a->dy.shape[1];
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf v = {0};
        if (from >= 0)
            v = vf_get_upto(a->dy.data, from * H + h, H - h, bf16) * by;
        if (a->dx.add)
            v += vf_get_upto(a->dx.data, n * H + h, H - h, bf16);
        vf_put_upto(a->dx.data, n * H + h, v, H - h, bf16);
    }
}

void ISA(cpu_pool_bwd)(const struct args_pool_bwd *a, const struct call *c)
{
    const int32_t *cu = a->cu.data;
    int64_t B = a->dy.shape[0], T = a->dx.shape[0], H = a->dy.shape[1];
    bool bf16 = a->dy.dtype == DT_BF16;
    if (!a->dx.data)
        return;
#pragma omp parallel num_threads(T *H < PARALLEL_FROM ? 1 : c->threads)
    {
#pragma omp for schedule(static) nowait
        for (int64_t b = 0; b < B; b++)
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                spread_row(a, n, b, 1 / (float)(cu[b + 1] - cu[b]), bf16);
#pragma omp for schedule(static)
        for (int64_t n = cu[B]; n < T; n++)
            if (!a->dx.add)
                spread_row(a, n, -1, 0, bf16);
    }
}
