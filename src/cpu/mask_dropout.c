/* Rows of masked tokens become 0, those beside them in a sequence are scaled; F32 and BF16. Bound by memory. */
#include "cpu/kernels.h"

/* What rows of sequence b that are not masked are multiplied by. */
static float scale_of(const struct args_mask_dropout *a, int64_t b)
{
    const int32_t *cu = a->cu.data, *ids = a->ids.data;
    int64_t left = 0;
    for (int64_t n = cu[b]; n < cu[b + 1]; n++)
        left += ids[n] != a->token;
    return (float)(a->kept * (double)(cu[b + 1] - cu[b]) / (double)left);
}

SIMD void mask_dropout_row(const struct args_mask_dropout *a, int64_t n, bool zero, float by, bool narrow)
{
    int64_t H = a->x.shape[1];
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf v = {0};
        if (!zero)
            v = vf_get_upto(a->x.data, n * H + h, H - h, narrow) * by;
        vf_put_upto(a->y.data, n * H + h, v, H - h, narrow);
    }
}

void ISA(cpu_mask_dropout)(const struct args_mask_dropout *a, const struct call *c)
{
    const int32_t *cu = a->cu.data, *ids = a->ids.data;
    int64_t T = a->x.shape[0], B = a->cu.shape[0] - 1;
    bool bf16 = a->x.dtype == DT_BF16;
#pragma omp parallel num_threads(T * a->x.shape[1] < PARALLEL_FROM ? 1 : c->threads)
    {
#pragma omp for schedule(static) nowait
        for (int64_t b = 0; b < B; b++) {
            float by = scale_of(a, b);
            for (int64_t n = cu[b]; n < cu[b + 1]; n++)
                mask_dropout_row(a, n, ids[n] == a->token, by, bf16);
        }
#pragma omp for schedule(static)
        for (int64_t n = cu[B]; n < T; n++)
            mask_dropout_row(a, n, true, 0, bf16);
    }
}
