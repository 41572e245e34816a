/* Residual, dropout and layer normalisation in one pass over memory: a row of h stays in the cache, unrounded, for its
 * statistics (mean first, then the sum of squared differences) and its output. Bound by memory, with dropout by the
 * random numbers too.
 *
 * Order of sums: within a row by lanes, folded at the end. dgamma and dbeta: rows are cut into at most CHUNKS chunks by
 * shape; each is summed in order by one thread, and the chunks are added in order. */
#include "cpu/feature_mask.h"
#include "cpu/kernels.h"

#include <omp.h>

enum { CHUNKS = 64, CHUNK_ROWS = 8 };

static int64_t row_floats(int64_t H)
{
    return (H + 15) / 16 * 16;
}

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
    float rstd = (float)(1 / sqrt((double)(vf_hsum(sum) / (float)H) + a->eps));
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf z = (vf_load(row + h) - mean) * rstd;
        vf y = vf_fma(z, vf_get_upto(a->gamma.data, h, H - h, false), vf_get_upto(a->beta.data, h, H - h, false));
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

/* A row; its part of dgamma and dbeta is added to the sums (padded to whole vectors). */
SIMD void norm_bwd_row(const struct args_norm_bwd *a, const struct feature_mask *m, float *dgamma, float *dbeta,
                       int64_t n, bool bf16)
{
    int64_t H = a->dy.shape[1], at = n * H;
    float mean = ((const float *)a->mean.data)[n], rstd = ((const float *)a->rstd.data)[n];
    vf sum_g = {0}, sum_gz = {0};
    for (int64_t h = 0; h < H; h += VF_LANES) {
        int64_t left = H - h;
        vf dy = vf_get_upto(a->dy.data, at + h, left, bf16);
        vf z = first_lanes((vf_get_upto(a->h.data, at + h, left, bf16) - mean) * rstd, left);
        vf g = dy * vf_get_upto(a->gamma.data, h, left, false);
        sum_g += g;
        sum_gz = vf_fma(g, z, sum_gz);
        vf_store(dgamma + h, vf_fma(dy, z, vf_load(dgamma + h)));
        vf_store(dbeta + h, vf_load(dbeta + h) + dy);
    }
    float mean_g = vf_hsum(sum_g) / (float)H, mean_gz = vf_hsum(sum_gz) / (float)H;
    uint32_t bits[MASK_RUN / 2] = {0};
    for (int64_t h = 0; h < H && (a->dx.data || a->dres.data); h += VF_LANES) {
        int64_t left = H - h;
        vf z = (vf_get_upto(a->h.data, at + h, left, bf16) - mean) * rstd;
        vf g = vf_get_upto(a->dy.data, at + h, left, bf16) * vf_get_upto(a->gamma.data, h, left, false);
        vf grad = (g - mean_g - z * mean_gz) * rstd;
        if (a->dh.data)
            grad += vf_get_upto(a->dh.data, at + h, left, bf16);
        if (a->dres.data)
            vf_put_upto(a->dres.data, at + h, a->dres.add ? grad + vf_get_upto(a->dres.data, at + h, left, bf16) : grad,
                        left, bf16);
        if (!a->dx.data)
            continue;
        if (m->coords) {
            if (h % MASK_RUN == 0)
                mask_draw(m, n, h, bits);
            grad = mask_apply(m, bits, h % MASK_RUN, grad);
        }
        vf_put_upto(a->dx.data, at + h, a->dx.add ? grad + vf_get_upto(a->dx.data, at + h, left, bf16) : grad, left,
                    bf16);
    }
}

/* How many chunks N rows are cut into. */
static int64_t chunks(int64_t N)
{
    int64_t n = (N + CHUNK_ROWS - 1) / CHUNK_ROWS;
    return n < CHUNKS ? n : CHUNKS;
}

/* to[h] (+)= the sum over chunks of partial[chunk][h]. */
static void add_chunks(const struct tensor *to, const float *partial, int64_t n_chunks, int64_t stride, int64_t H)
{
    for (int64_t h = 0; to->data && h < H; h += VF_LANES) {
        vf sum = to->add ? vf_get_upto(to->data, h, H - h, false) : vf_set1(0);
        for (int64_t i = 0; i < n_chunks; i++)
            sum += vf_load(partial + i * stride + h);
        vf_put_upto(to->data, h, sum, H - h, false);
    }
}

int64_t ISA(cpu_norm_bwd_workspace)(const struct args_norm_bwd *a, int threads)
{
    (void)threads;
    return 8 * chunks(a->dy.shape[0]) * row_floats(a->dy.shape[1]);
}

void ISA(cpu_norm_bwd)(const struct args_norm_bwd *a, const struct call *c)
{
    int64_t N = a->dy.shape[0], H = a->dy.shape[1], n_chunks = chunks(N), floats = row_floats(H);
    struct feature_mask m = feature_mask(&a->rng, &a->coords, a->site, a->p);
    bool bf16 = a->dy.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(N *H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n_chunks; i++) {
        float *dgamma = (float *)c->workspace + 2 * i * floats, *dbeta = dgamma + floats;
        memset(dgamma, 0, 8 * (size_t)floats);
        for (int64_t n = i * N / n_chunks; n < (i + 1) * N / n_chunks; n++)
            if (bf16)
                norm_bwd_row(a, &m, dgamma, dbeta, n, true);
            else
                norm_bwd_row(a, &m, dgamma, dbeta, n, false);
    }
    add_chunks(&a->dgamma, c->workspace, n_chunks, 2 * floats, H);
    add_chunks(&a->dbeta, (const float *)c->workspace + floats, n_chunks, 2 * floats, H);
}
