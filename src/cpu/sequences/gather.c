/* One row of every sequence, and back. */
#include "cpu/kernels.h"

static int64_t chosen_row(const int32_t *cu, int64_t b, bool last)
{
    return last ? cu[b + 1] - 1 : cu[b];
}

void ISA(cpu_gather)(const struct args_gather *a, const struct call *c)
{
    (void)c;
    int64_t row_bytes = dtype_bytes(a->x.dtype, a->x.shape[1]);
    for (int64_t b = 0; b < a->y.shape[0]; b++)
        memcpy((char *)a->y.data + b * row_bytes,
               (const char *)a->x.data + chosen_row(a->cu.data, b, a->last) * row_bytes, (size_t)row_bytes);
}

void ISA(cpu_gather_bwd)(const struct args_gather_bwd *a, const struct call *c)
{
    int64_t T = a->dx.shape[0], H = a->dy.shape[1];
    bool bf16 = a->dy.dtype == DT_BF16;
    if (!a->dx.data)
        return;
    int64_t row_bytes = dtype_bytes(a->dx.dtype, H);
    if (!a->dx.add) {
#pragma omp parallel for schedule(static) num_threads(T *H < PARALLEL_FROM ? 1 : c->threads)
        for (int64_t t = 0; t < T; t++)
            memset((char *)a->dx.data + t * row_bytes, 0, (size_t)row_bytes);
    }
    for (int64_t b = 0; b < a->dy.shape[0]; b++) {
        int64_t to = chosen_row(a->cu.data, b, a->last) * H;
        for (int64_t h = 0; h < H; h += VF_LANES)
            vf_put_upto(a->dx.data, to + h,
                        vf_get_upto(a->dx.data, to + h, H - h, bf16) + vf_get_upto(a->dy.data, b * H + h, H - h, bf16),
                        H - h, bf16);
    }
}
