/* The neighbours of each row side by side, and back. Bound by memory: `width` times the rows. Order of the sums: k by k. */
#include "cpu/kernels.h"
#include "cpu/sequences/bounds.h"

SIMD void neighbours_row(const struct args_neighbours *a, int64_t n, bool narrow)
{
    int64_t H = a->x.shape[1], W = a->width;
    struct bounds s = bounds_of(&a->cu, n);
    for (int64_t k = 0; k < W; k++) {
        int64_t m = n + k - W / 2, from = m * H, to = n * H * W + k;
        bool is_there = m >= s.from && m < s.to;
        for (int64_t h = 0; h < H; h++)
            if (narrow)
                ((uint16_t *)a->y.data)[to + h * W] = is_there ? ((const uint16_t *)a->x.data)[from + h] : 0;
            else
                ((float *)a->y.data)[to + h * W] = is_there ? ((const float *)a->x.data)[from + h] : 0;
    }
}

void ISA(cpu_neighbours)(const struct args_neighbours *a, const struct call *c)
{
    int64_t T = a->x.shape[0];
    bool bf16 = a->x.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(T * a->x.shape[1] < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < T; n++)
        bf16 ? neighbours_row(a, n, true) : neighbours_row(a, n, false);
}

SIMD void neighbours_bwd_row(const struct args_neighbours_bwd *a, int64_t n, bool narrow)
{
    int64_t H = a->dx.shape[1], W = a->width;
    struct bounds s = bounds_of(&a->cu, n);
    for (int64_t h = 0; h < H; h += VF_LANES) {
        float sums[VF_LANES] = {0};
        for (int64_t k = 0; k < W; k++) {
            int64_t m = n - k + W / 2, from = (m * H + h) * W + k;
            for (int64_t l = 0; m >= s.from && m < s.to && l < VF_LANES && l < H - h; l++)
                sums[l] += narrow ? bf16_to_float(((const uint16_t *)a->dy.data)[from + l * W])
                                  : ((const float *)a->dy.data)[from + l * W];
        }
        put_or_add(&a->dx, n * H + h, vf_load(sums), H - h, narrow);
    }
}

void ISA(cpu_neighbours_bwd)(const struct args_neighbours_bwd *a, const struct call *c)
{
    int64_t T = a->dy.shape[0];
    bool bf16 = a->dy.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(T * a->dy.shape[1] < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < T; n++)
        if (a->dx.data)
            bf16 ? neighbours_bwd_row(a, n, true) : neighbours_bwd_row(a, n, false);
}
