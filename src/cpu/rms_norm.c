/* Residual and root-mean-square normalisation in one pass over memory: a row of h stays in the cache, rounded as it is stored, for rstd and
 * its output. Bound by memory.
 *
 * Order of sums: within a row by lanes, folded at the end; over rows as columns.h says. */
#include "cpu/columns.h"
#include "cpu/kernels.h"

#include <omp.h>

SIMD void rms_norm_row(const struct args_rms_norm *a, float *row, int64_t n, bool bf16)
{
    int64_t H = a->x.shape[1];
    float one = a->one_plus ? 1 : 0;
    vf sum = {0};
    for (int64_t h = 0; h < H; h += VF_LANES) {
        int64_t i = n * H + h, left = H - h;
        vf v = vf_get_upto(a->x.data, i, left, bf16);
        if (a->res.data)
            v += vf_get_upto(a->res.data, i, left, bf16);
        if (a->res.data && bf16) /* as h is stored, from which the rest may be computed again */
            v = vf_from_bf16(vh_from_vf(v));
        if (a->h.data)
            vf_put_upto(a->h.data, i, v, left, bf16);
        vf_store(row + h, v);
        sum = vf_fma(v, v, sum);
    }
    float rstd = (float)(1 / sqrt((double)(vf_hsum(sum) / (float)H) + a->eps));
    for (int64_t h = 0; h < H; h += VF_LANES)
        vf_put_upto(a->y.data, n * H + h, vf_load(row + h) * rstd * norm_factors(&a->gamma, h, H - h, one), H - h,
                    bf16);
    ((float *)a->rstd.data)[n] = rstd;
}

int64_t ISA(cpu_rms_norm_workspace)(const struct args_rms_norm *a, int threads)
{
    return 4 * threads * row_floats(a->x.shape[1]);
}

void ISA(cpu_rms_norm)(const struct args_rms_norm *a, const struct call *c)
{
    int64_t N = a->x.shape[0], H = a->x.shape[1];
    bool bf16 = a->x.dtype == DT_BF16;
#pragma omp parallel num_threads(N *H < PARALLEL_FROM ? 1 : c->threads)
    {
        float *row = (float *)c->workspace + omp_get_thread_num() * row_floats(H);
#pragma omp for schedule(static)
        for (int64_t n = 0; n < N; n++)
            if (bf16)
                rms_norm_row(a, row, n, true);
            else
                rms_norm_row(a, row, n, false);
    }
}

/* A row; its part of dgamma is added to the sums. */
SIMD void rms_norm_bwd_row(const struct args_rms_norm_bwd *a, float *dgamma, int64_t n, bool bf16)
{
    int64_t H = a->dy.shape[1], at = n * H;
    float rstd = ((const float *)a->rstd.data)[n], one = a->one_plus ? 1 : 0;
    vf sum_gz = {0};
    for (int64_t h = 0; h < H; h += VF_LANES) {
        int64_t left = H - h;
        vf dy = vf_get_upto(a->dy.data, at + h, left, bf16);
        vf z = vf_get_upto(a->h.data, at + h, left, bf16) * rstd;
        sum_gz = vf_fma(dy * norm_factors(&a->gamma, h, left, one), z, sum_gz);
        vf_store(dgamma + h, vf_fma(dy, z, vf_load(dgamma + h)));
    }
    float mean_gz = vf_hsum(sum_gz) / (float)H;
    for (int64_t h = 0; h < H && (a->dx.data || a->dres.data); h += VF_LANES) {
        int64_t left = H - h;
        vf z = vf_get_upto(a->h.data, at + h, left, bf16) * rstd;
        vf g = vf_get_upto(a->dy.data, at + h, left, bf16) * norm_factors(&a->gamma, h, left, one);
        vf grad = (g - z * mean_gz) * rstd;
        if (a->dh.data)
            grad += vf_get_upto(a->dh.data, at + h, left, bf16);
        if (a->dres.data)
            put_or_add(&a->dres, at + h, grad, left, bf16);
        if (a->dx.data)
            put_or_add(&a->dx, at + h, grad, left, bf16);
    }
}

int64_t ISA(cpu_rms_norm_bwd_workspace)(const struct args_rms_norm_bwd *a, int threads)
{
    (void)threads;
    return 4 * row_chunks(a->dy.shape[0]) * row_floats(a->dy.shape[1]);
}

void ISA(cpu_rms_norm_bwd)(const struct args_rms_norm_bwd *a, const struct call *c)
{
    int64_t N = a->dy.shape[0], H = a->dy.shape[1], n_chunks = row_chunks(N), floats = row_floats(H);
    bool bf16 = a->dy.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(N *H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n_chunks; i++) {
        float *dgamma = (float *)c->workspace + i * floats;
        memset(dgamma, 0, 4 * (size_t)floats);
        for (int64_t n = i * N / n_chunks; n < (i + 1) * N / n_chunks; n++)
            if (bf16)
                rms_norm_bwd_row(a, dgamma, n, true);
            else
                rms_norm_bwd_row(a, dgamma, n, false);
    }
    columns_finish(&a->dgamma, c->workspace, n_chunks, floats, H);
}
