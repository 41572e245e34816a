/* DoRA's lengths of rows, and what it makes of a layer's result. dora_norm is bound by the small product b a, the others by memory.
 *
 * Order of sums: of a length by lanes, folded at the end, or i by i when in_out; over rows as columns.h says. */
#include "cpu/act.h"
#include "cpu/columns.h"
#include "cpu/kernels.h"

#include <math.h>
#include <omp.h>

/* ---- lengths ---- */

/* Of row o of w (O,I). */
SIMD float row_norm(const struct args_dora_norm *n, int64_t o, bool bf16)
{
    int64_t r = n->a.shape[0], I = n->a.shape[1];
    const float *a = n->a.data, *b = (const float *)n->b.data + o * r;
    float scale = (float)n->scale;
    vf squares = {0};
    for (int64_t i = 0; i < I; i += VF_LANES) {
        vf x = vf_get_upto(n->w.data, o * I + i, I - i, bf16);
        for (int64_t k = 0; k < r; k++)
            x = vf_fma(vf_set1(scale * b[k]), vf_get_upto(a, k * I + i, I - i, false), x);
        squares = vf_fma(x, x, squares);
    }
    return sqrtf(vf_hsum(squares));
}

/* Of columns [o, o + VF_LANES) of w (I,O), as far as there are so many. `factors`: r vectors of room. */
SIMD void column_norms(const struct args_dora_norm *n, int64_t o, float *factors, bool bf16)
{
    int64_t r = n->a.shape[0], I = n->a.shape[1], O = n->b.shape[0], left = O - o;
    const float *a = n->a.data, *b = n->b.data;
    vf squares = {0};
    for (int64_t k = 0; k < r; k++)
        for (int64_t l = 0; l < VF_LANES; l++)
            factors[k * VF_LANES + l] = l < left ? (float)n->scale * b[(o + l) * r + k] : 0;
    for (int64_t i = 0; i < I; i++) {
        vf x = vf_get_upto(n->w.data, i * O + o, left, bf16);
        for (int64_t k = 0; k < r; k++)
            x = vf_fma(vf_load(factors + k * VF_LANES), vf_set1(a[k * I + i]), x);
        squares = vf_fma(x, x, squares);
    }
    vf_put_upto(n->norm.data, o, vf_sqrt(squares), left, false);
}

int64_t ISA(cpu_dora_norm_workspace)(const struct args_dora_norm *n, int threads)
{
    return n->in_out ? 4 * threads * n->a.shape[0] * VF_LANES : 0;
}

void ISA(cpu_dora_norm)(const struct args_dora_norm *n, const struct call *c)
{
    int64_t r = n->a.shape[0], I = n->a.shape[1], O = n->b.shape[0], step = n->in_out ? VF_LANES : 1;
    bool bf16 = n->w.dtype == DT_BF16;
#pragma omp parallel num_threads(O *I < PARALLEL_FROM ? 1 : c->threads)
    {
        float *factors = n->in_out ? (float *)c->workspace + omp_get_thread_num() * r * VF_LANES : NULL;
#pragma omp for schedule(static)
        for (int64_t o = 0; o < O; o += step)
            if (n->in_out)
                bf16 ? column_norms(n, o, factors, true) : column_norms(n, o, factors, false);
            else
                ((float *)n->norm.data)[o] = bf16 ? row_norm(n, o, true) : row_norm(n, o, false);
    }
}

/* ---- the layer ---- */

/* 1 / norm, or 0 where that is 0. */
SIMD vf one_over(const struct tensor *norm, int64_t o, int64_t left)
{
    vf n = vf_get_upto(norm->data, o, left, false);
    return vf_where(n > 0, 1 / n);
}

SIMD void dora_row(const struct args_dora *a, int64_t n, enum act act, bool bf16)
{
    int64_t O = a->z.shape[1], pitch = tensor_pitch(&a->y);
    for (int64_t o = 0; o < O; o += VF_LANES) {
        int64_t left = O - o;
        vf factor = vf_get_upto(a->m.data, o, left, false) * one_over(&a->norm, o, left);
        vf u = vf_get_upto(a->z.data, n * O + o, left, bf16) * factor;
        if (a->bias.data)
            u += vf_get_upto(a->bias.data, o, left, false);
        vf slope = {0}, y = a->slope.data ? vf_act_and_slope(act, u, &slope) : vf_act(act, u);
        vf_put_upto(a->y.data, n * pitch + o, y, left, bf16);
        if (a->slope.data)
            vf_put_upto(a->slope.data, n * O + o, slope, left, bf16);
    }
}

void ISA(cpu_dora)(const struct args_dora *a, const struct call *c)
{
    int64_t N = a->z.shape[0], O = a->z.shape[1];
    enum act act = (enum act)a->act;
    bool bf16 = a->z.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(N *O < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        if (act == ACT_none)
            bf16 ? dora_row(a, n, ACT_none, true) : dora_row(a, n, ACT_none, false);
        else
            bf16 ? dora_row(a, n, act, true) : dora_row(a, n, act, false);
}

/* A row; its parts of dm and dbias are added to the sums. */
SIMD void dora_bwd_row(const struct args_dora_bwd *a, float *dm, float *dbias, int64_t n, bool bf16)
{
    int64_t O = a->z.shape[1], pitch = tensor_pitch(&a->dy);
    for (int64_t o = 0; o < O; o += VF_LANES) {
        int64_t left = O - o;
        vf dy = vf_get_upto(a->dy.data, n * pitch + o, left, bf16), inverse = one_over(&a->norm, o, left);
        column_add(dm, o, dy * vf_get_upto(a->z.data, n * O + o, left, bf16) * inverse);
        column_add(dbias, o, dy);
        if (a->dz.data)
            put_or_add(&a->dz, n * O + o, dy * inverse * vf_get_upto(a->m.data, o, left, false), left, bf16);
    }
}

int64_t ISA(cpu_dora_bwd_workspace)(const struct args_dora_bwd *a, int threads)
{
    (void)threads;
    return 4 * 2 * row_chunks(a->z.shape[0]) * row_floats(a->z.shape[1]);
}

void ISA(cpu_dora_bwd)(const struct args_dora_bwd *a, const struct call *c)
{
    int64_t N = a->z.shape[0], O = a->z.shape[1], n_chunks = row_chunks(N), floats = row_floats(O);
    bool bf16 = a->z.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(N *O < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n_chunks; i++) {
        float *dm = (float *)c->workspace + 2 * i * floats, *dbias = dm + floats;
        memset(dm, 0, 4 * 2 * (size_t)floats);
        for (int64_t n = i * N / n_chunks; n < (i + 1) * N / n_chunks; n++)
            bf16 ? dora_bwd_row(a, dm, dbias, n, true) : dora_bwd_row(a, dm, dbias, n, false);
    }
    columns_finish(&a->dm, c->workspace, n_chunks, 2 * floats, O);
    columns_finish(&a->dbias, (float *)c->workspace + floats, n_chunks, 2 * floats, O);
}
