/* Residual, dropout and layer normalisation in one pass over memory: a row of h stays in the cache, unrounded, for its
 * statistics (mean first, then the sum of squared differences) and its output. Bound by memory, with dropout by the
 * random numbers too.
 *
 * Order of sums: within a row by lanes, folded at the end; over rows as columns.h says. */
#include "cpu/columns.h"
#include "cpu/feature_mask.h"
#include "cpu/kernels.h"

#include <omp.h>

/* v in the first `left` lanes, 0 in the others. */
SIMD vf first_lanes(vf v, int64_t left)
{
    return left >= VF_LANES ? v : vf_where(vi_iota() < (int32_t)left, v);
}

/* h = res + dropout(x) into `row`, rounded into a->h; returns the sum. */
SIMD float add_residual(const struct args_norm *a, const struct feature_mask *m, float *row, int64_t n, bool bf16)
{
    int64_t H = a->x.shape[1];
    vf sum = {0};
    uint32_t bits[MASK_RUN / 2] = {0};
    for (int64_t h = 0; h < H; h += VF_LANES) {
        int64_t i = n * H + h, left = H - h;
        vf v = vf_get_upto(a->x.data, i, left, bf16);
        if (m->coords) {
            if (h % MASK_RUN == 0)
                mask_draw(m, n, h, bits);
            v = mask_apply(m, bits, h % MASK_RUN, v);
        }
        if (a->res.data)
            v += vf_get_upto(a->res.data, i, left, bf16);
        if (a->h.data)
            vf_put_upto(a->h.data, i, v, left, bf16);
        vf_store(row + h, v);
        sum += v;
    }
    return vf_hsum(sum);
}

SIMD void norm_row(const struct args_norm *a, const struct feature_mask *m, float *row, int64_t n, bool bf16)
{
    int64_t H = a->x.shape[1];
    float mean = add_residual(a, m, row, n, bf16) / (float)H;
    vf sum = {0};
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf d = first_lanes(vf_load(row + h) - mean, H - h);
        sum = vf_fma(d, d, sum);
    }
    float rstd = (float)(1 / sqrt((double)(vf_hsum(sum) / (float)H) + a->eps)), one = a->one_plus ? 1 : 0;
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf z = (vf_load(row + h) - mean) * rstd;
        vf beta = {0};
        if (a->beta.data)
            beta = vf_get_upto(a->beta.data, h, H - h, false);
        vf y = vf_fma(z, norm_factors(&a->gamma, h, H - h, one), beta);
        vf_put_upto(a->y.data, n * H + h, y, H - h, bf16);
    }
    ((float *)a->mean.data)[n] = mean;
    ((float *)a->rstd.data)[n] = rstd;
}

int64_t ISA(cpu_norm_workspace)(const struct args_norm *a, int threads)
{
    return 4 * threads * row_floats(a->x.shape[1]);
}

void ISA(cpu_norm)(const struct args_norm *a, const struct call *c)
{
    int64_t N = a->x.shape[0], H = a->x.shape[1];
    struct feature_mask m = feature_mask(&a->rng, &a->coords, a->site, a->p);
    bool bf16 = a->x.dtype == DT_BF16;
#pragma omp parallel num_threads(N *H < PARALLEL_FROM ? 1 : c->threads)
    {
        float *row = (float *)c->workspace + omp_get_thread_num() * row_floats(H);
#pragma omp for schedule(static)
        for (int64_t n = 0; n < N; n++)
            if (bf16)
                norm_row(a, &m, row, n, true);
            else
                norm_row(a, &m, row, n, false);
    }
}

/* A row; its part of dgamma, dbeta and dbias is added to the sums. */
SIMD void norm_bwd_row(const struct args_norm_bwd *a, const struct feature_mask *m, float *dgamma, float *dbeta,
                       float *dbias, int64_t n, bool bf16)
{
    int64_t H = a->dy.shape[1], at = n * H;
    float mean = ((const float *)a->mean.data)[n], rstd = ((const float *)a->rstd.data)[n], one = a->one_plus ? 1 : 0;
    vf sum_g = {0}, sum_gz = {0};
    for (int64_t h = 0; h < H; h += VF_LANES) {
        int64_t left = H - h;
        vf dy = vf_get_upto(a->dy.data, at + h, left, bf16);
        vf z = first_lanes((vf_get_upto(a->h.data, at + h, left, bf16) - mean) * rstd, left);
        vf g = dy * norm_factors(&a->gamma, h, left, one);
        sum_g += g;
        sum_gz = vf_fma(g, z, sum_gz);
        vf_store(dgamma + h, vf_fma(dy, z, vf_load(dgamma + h)));
        column_add(dbeta, h, dy);
    }
    float mean_g = vf_hsum(sum_g) / (float)H, mean_gz = vf_hsum(sum_gz) / (float)H;
    uint32_t bits[MASK_RUN / 2] = {0};
    for (int64_t h = 0; h < H && (a->dx.data || a->dres.data || a->dbias.data); h += VF_LANES) {
        int64_t left = H - h;
        vf z = (vf_get_upto(a->h.data, at + h, left, bf16) - mean) * rstd;
        vf g = vf_get_upto(a->dy.data, at + h, left, bf16) * norm_factors(&a->gamma, h, left, one);
        vf grad = (g - mean_g - z * mean_gz) * rstd;
        if (a->dh.data)
            grad += vf_get_upto(a->dh.data, at + h, left, bf16);
        if (a->dres.data)
            vf_put_upto(a->dres.data, at + h, a->dres.add ? grad + vf_get_upto(a->dres.data, at + h, left, bf16) : grad,
                        left, bf16);
        if (!a->dx.data && !a->dbias.data)
            continue;
        if (m->coords) {
            if (h % MASK_RUN == 0)
                mask_draw(m, n, h, bits);
            grad = mask_apply(m, bits, h % MASK_RUN, grad);
        }
        if (a->dbias.data)
            column_add(dbias, h, grad);
        if (a->dx.data)
            vf_put_upto(a->dx.data, at + h, a->dx.add ? grad + vf_get_upto(a->dx.data, at + h, left, bf16) : grad, left,
                        bf16);
    }
}

int64_t ISA(cpu_norm_bwd_workspace)(const struct args_norm_bwd *a, int threads)
{
    (void)threads;
    return 12 * row_chunks(a->dy.shape[0]) * row_floats(a->dy.shape[1]);
}

void ISA(cpu_norm_bwd)(const struct args_norm_bwd *a, const struct call *c)
{
    int64_t N = a->dy.shape[0], H = a->dy.shape[1], n_chunks = row_chunks(N), floats = row_floats(H);
    float *sums = c->workspace;
    struct feature_mask m = feature_mask(&a->rng, &a->coords, a->site, a->p);
    bool bf16 = a->dy.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(N *H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n_chunks; i++) {
        float *dgamma = sums + 3 * i * floats, *dbeta = dgamma + floats, *dbias = dbeta + floats;
        memset(dgamma, 0, 12 * (size_t)floats);
        for (int64_t n = i * N / n_chunks; n < (i + 1) * N / n_chunks; n++)
            if (bf16)
                norm_bwd_row(a, &m, dgamma, dbeta, dbias, n, true);
            else
                norm_bwd_row(a, &m, dgamma, dbeta, dbias, n, false);
    }
    columns_finish(&a->dgamma, sums, n_chunks, 3 * floats, H);
    columns_finish(&a->dbeta, sums + floats, n_chunks, 3 * floats, H);
    columns_finish(&a->dbias, sums + 2 * floats, n_chunks, 3 * floats, H);
}
