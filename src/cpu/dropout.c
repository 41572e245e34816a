/* Dropout of features. Bound by memory (2 or 4 bytes in, as many out); the random numbers cost about as much again. */
#include "cpu/feature_mask.h"
#include "cpu/kernels.h"

SIMD void drop_row(const struct feature_mask *m, const void *x, void *y, int64_t n, int64_t H, bool add, bool bf16)
{
    for (int64_t first = 0; first < H; first += MASK_RUN) {
        uint32_t bits[MASK_RUN / 2] = {0};
        if (m->coords)
            mask_draw(m, n, first, bits);
        for (int64_t h = first; h < H && h < first + MASK_RUN; h += VF_LANES) {
            int64_t i = n * H + h;
            vf v = vf_get_upto(x, i, H - h, bf16);
            if (m->coords)
                v = mask_apply(m, bits, h - first, v);
            if (add)
                v += vf_get_upto(y, i, H - h, bf16);
            vf_put_upto(y, i, v, H - h, bf16);
        }
    }
}

static void drop(const struct tensor *x, const struct tensor *y, struct feature_mask m, int threads)
{
    int64_t N = x->shape[0], H = x->shape[1];
#pragma omp parallel for schedule(static) num_threads(N *H < PARALLEL_FROM ? 1 : threads)
    for (int64_t n = 0; n < N; n++)
        if (x->dtype == DT_BF16)
            drop_row(&m, x->data, y->data, n, H, y->add, true);
        else
            drop_row(&m, x->data, y->data, n, H, y->add, false);
}

void ISA(cpu_dropout)(const struct args_dropout *a, const struct call *c)
{
    drop(&a->x, &a->y, feature_mask(&a->rng, &a->coords, a->site, a->p), c->threads);
}

void ISA(cpu_dropout_bwd)(const struct args_dropout_bwd *a, const struct call *c)
{
    if (a->dx.data)
        drop(&a->dy, &a->dx, feature_mask(&a->rng, &a->coords, a->site, a->p), c->threads);
}
