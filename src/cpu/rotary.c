/* Rotary embeddings with norms of queries and keys, and back, a row at a time. Bound by memory. With gammas a row of q and k
 * lies in the cache in float between its norms and its rotation.
 *
 * Order of sums: within a group of heads by lanes, folded at the end; those of the gammas over the heads of a row in order, and
 * over rows as columns.h says. */
#include "op/rotary.h"
#include "cpu/columns.h"
#include "cpu/kernels.h"

#include <omp.h>

/* Angles in double, which libm turns: once a step, for all layers. */
void ISA(cpu_rotary_table)(const struct args_rotary_table *a, const struct call *c)
{
    const int32_t *positions = a->positions.data;
    const double *frequencies = a->frequencies.data;
    int64_t T = a->positions.shape[0], half = a->frequencies.shape[0];
#pragma omp parallel for schedule(static) num_threads(T *half < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < T; n++) {
        float *cosines = (float *)a->table.data + 2 * n * half, *sines = cosines + half;
        for (int64_t i = 0; i < half; i++) {
            double angle = positions[n] * frequencies[i];
            cosines[i] = (float)(a->factor * cos(angle));
            sines[i] = (float)(a->factor * sin(angle));
        }
    }
}

/* Elements [at, at + n) of `to` from those of `from`, which may be F32 or BF16. */
SIMD void move(const struct tensor *to, int64_t to_at, const void *from, int64_t at, int64_t n, bool from_bf16,
               bool bf16)
{
    for (int64_t i = 0; i < n; i += VF_LANES)
        put_or_add(to, to_at + i, vf_get_upto(from, at + i, n - i, from_bf16), n - i, bf16);
}

/* The first R elements of a head, in pairs of neighbours. */
SIMD void rotate_neighbours(const struct tensor *to, int64_t to_at, const void *from, int64_t at, const float *table,
                            const struct rotary_shape *s, float sign, bool from_bf16, bool bf16)
{
    int64_t half = s->R / 2;
    for (int64_t i = 0; i < s->R; i += VF_LANES) {
        int64_t left = s->R - i;
        vf cosine = vf_get_upto(table, i / 2, left / 2, false);
        vf sine = vf_get_upto(table, half + i / 2, left / 2, false) * sign;
        vf x = vf_get_upto(from, at + i, left, from_bf16), turned = VF_SWAP_PAIRS(x) * VU_ZIP_LOW(sine, sine);
        turned = vf_select((vi_iota() & 1) == 0, -turned, turned);
        put_or_add(to, to_at + i, x * VU_ZIP_LOW(cosine, cosine) + turned, left, bf16);
    }
}

/* Likewise, in pairs of entries that are half of them apart. */
SIMD void rotate_halves(const struct tensor *to, int64_t to_at, const void *from, int64_t at, const float *table,
                        const struct rotary_shape *s, float sign, bool from_bf16, bool bf16)
{
    int64_t half = s->R / 2;
    for (int64_t i = 0; i < half; i += VF_LANES) {
        int64_t left = half - i;
        vf cosine = vf_get_upto(table, i, left, false), sine = vf_get_upto(table, half + i, left, false) * sign;
        vf x = vf_get_upto(from, at + i, left, from_bf16), y = vf_get_upto(from, at + half + i, left, from_bf16);
        put_or_add(to, to_at + i, x * cosine - y * sine, left, bf16);
        put_or_add(to, to_at + half + i, y * cosine + x * sine, left, bf16);
    }
}

/* A head from `from` to `to`, its first R elements rotated by the row's angles (`sign` 1), or back (-1). */
SIMD void rotate_head(const struct tensor *to, int64_t to_at, const void *from, int64_t at, const float *table,
                      const struct rotary_shape *s, float sign, bool from_bf16, bool bf16)
{
    if (s->interleaved)
        rotate_neighbours(to, to_at, from, at, table, s, sign, from_bf16, bf16);
    else
        rotate_halves(to, to_at, from, at, table, s, sign, from_bf16, bf16);
    move(to, to_at + s->R, from, at + s->R, s->D - s->R, from_bf16, bf16);
}

/* The heads of q and k of a row; `table`: its angles. Of what is rotated back, `to` lies as qkv does. */
SIMD void rotate_row(const struct tensor *to, int64_t to_at, const void *from, int64_t at, const float *table,
                     const struct rotary_shape *s, float sign, bool from_bf16, bool bf16)
{
    for (int64_t h = 0; h < s->A + s->K; h++) {
        int64_t y = h * s->D, qkv = rotary_source(s, h) * s->D;
        rotate_head(to, to_at + (sign > 0 ? y : qkv), from, at + (sign > 0 ? qkv : y), table, s, sign, from_bf16, bf16);
    }
}

/* The heads of v of a row, from qkv (`sign` 1) or back to it. */
SIMD void move_values(const struct tensor *to, const void *from, int64_t at, const struct rotary_shape *s, float sign,
                      bool bf16)
{
    int64_t first = s->A + s->K, heads = s->by_group ? 1 : s->K; /* of a move */
    for (int64_t h = first; h < first + s->K; h += heads) {
        int64_t y = at + h * s->D, qkv = at + rotary_source(s, h) * s->D;
        move(to, sign > 0 ? y : qkv, from, sign > 0 ? qkv : y, heads * s->D, bf16, bf16);
    }
}

SIMD const float *angles(const struct tensor *table, int64_t n)
{
    return table->data ? (const float *)table->data + n * table->shape[1] : NULL;
}

/* This thread's row of floats, which only norms need. */
SIMD float *own_row(const struct call *c, const struct rotary_shape *s, const struct tensor *gamma)
{
    return gamma->data ? (float *)c->workspace + omp_get_thread_num() * row_floats(s->width) : NULL;
}

/* ---- forward ---- */

/* A group of heads of row n into `row`, normalised. */
SIMD void normalise_group(const struct args_rotary *a, const struct rotary_shape *s, float *row, int64_t n, int64_t g,
                          bool bf16)
{
    struct rotary_group group = rotary_group(s, g);
    int64_t first = group.first * s->D, count = group.count * s->D;
    const float *gamma = group.key ? a->k_gamma.data : a->q_gamma.data;
    float one = a->one_plus ? 1 : 0;
    vf sum = {0};
    for (int64_t i = 0; i < count; i += VF_LANES) {
        vf x = vf_get_upto(a->qkv.data, n * s->width + first + i, count - i, bf16);
        sum = vf_fma(x, x, sum);
    }
    float rstd = (float)(1 / sqrt((double)(vf_hsum(sum) / (float)count) + a->eps));
    for (int64_t i = 0; i < count; i += VF_LANES) {
        vf x = vf_get_upto(a->qkv.data, n * s->width + first + i, count - i, bf16);
        vf y = x * rstd * (vf_get_upto(gamma, i, count - i, false) + one);
        vf_put_upto(row, first + i, y, count - i, false);
    }
    if (a->rstd.data)
        ((float *)a->rstd.data)[n * s->groups + g] = rstd;
}

SIMD void forward_row(const struct args_rotary *a, const struct rotary_shape *s, float *row, int64_t n, bool bf16)
{
    int64_t at = n * s->width;
    if (a->q_gamma.data) {
        for (int64_t g = 0; g < s->groups; g++)
            normalise_group(a, s, row, n, g, bf16);
        rotate_row(&a->y, at, row, 0, angles(&a->table, n), s, 1, false, bf16);
    } else
        rotate_row(&a->y, at, a->qkv.data, at, angles(&a->table, n), s, 1, bf16, bf16);
    move_values(&a->y, a->qkv.data, at, s, 1, bf16);
}

int64_t ISA(cpu_rotary_workspace)(const struct args_rotary *a, int threads)
{
    return a->q_gamma.ndim ? 4 * threads * row_floats(a->qkv.shape[1]) : 0;
}

void ISA(cpu_rotary)(const struct args_rotary *a, const struct call *c)
{
    struct rotary_shape s =
        rotary_shape(&a->qkv, &a->table, &a->q_gamma, a->heads, a->kv_heads, a->by_group, a->interleaved);
    bool bf16 = a->qkv.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(s.T *s.width < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < s.T; n++)
        if (bf16)
            forward_row(a, &s, own_row(c, &s, &a->q_gamma), n, true);
        else
            forward_row(a, &s, own_row(c, &s, &a->q_gamma), n, false);
}

/* ---- back ---- */

/* Of a group of heads of row n, whose gradients, rotated back, are in `row`: dqkv, and its part of the gammas' sums. */
SIMD void group_bwd(const struct args_rotary_bwd *a, const struct rotary_shape *s, const float *row, float *sums[2],
                    int64_t n, int64_t g, bool bf16)
{
    struct rotary_group group = rotary_group(s, g);
    int64_t first = group.first * s->D, count = group.count * s->D, at = n * s->width + first;
    const float *gamma = group.key ? a->k_gamma.data : a->q_gamma.data;
    float *dgamma = sums[group.key], rstd = ((const float *)a->rstd.data)[n * s->groups + g], one = a->one_plus ? 1 : 0;
    vf sum_gz = {0};
    for (int64_t i = 0; i < count; i += VF_LANES) {
        vf d = vf_get_upto(row, first + i, count - i, false);
        vf z = vf_get_upto(a->qkv.data, at + i, count - i, bf16) * rstd;
        sum_gz = vf_fma(d * (vf_get_upto(gamma, i, count - i, false) + one), z, sum_gz);
        vf_store(dgamma + i, vf_fma(d, z, vf_load(dgamma + i)));
    }
    float mean_gz = vf_hsum(sum_gz) / (float)count;
    for (int64_t i = 0; i < (a->dqkv.data ? count : 0); i += VF_LANES) {
        vf d = vf_get_upto(row, first + i, count - i, false);
        vf z = vf_get_upto(a->qkv.data, at + i, count - i, bf16) * rstd;
        vf grad = (d * (vf_get_upto(gamma, i, count - i, false) + one) - z * mean_gz) * rstd;
        put_or_add(&a->dqkv, at + i, grad, count - i, bf16);
    }
}

SIMD void backward_row(const struct args_rotary_bwd *a, const struct rotary_shape *s, float *row, float *sums[2],
                       int64_t n, bool bf16)
{
    int64_t at = n * s->width;
    if (a->q_gamma.data) {
        rotate_row(&(struct tensor){.data = row}, 0, a->dy.data, at, angles(&a->table, n), s, -1, bf16, false);
        for (int64_t g = 0; g < s->groups; g++)
            group_bwd(a, s, row, sums, n, g, bf16);
    } else if (a->dqkv.data)
        rotate_row(&a->dqkv, at, a->dy.data, at, angles(&a->table, n), s, -1, bf16, bf16);
    if (a->dqkv.data)
        move_values(&a->dqkv, a->dy.data, at, s, -1, bf16);
}

/* Floats of the gammas' sums of a chunk of rows: of q, then of k. */
static int64_t gamma_floats(const struct tensor *gamma)
{
    return gamma->ndim ? row_floats(gamma->shape[0]) : 0;
}

int64_t ISA(cpu_rotary_bwd_workspace)(const struct args_rotary_bwd *a, int threads)
{
    int64_t sums = gamma_floats(&a->q_gamma) + gamma_floats(&a->k_gamma);
    return sums ? 4 * (threads * row_floats(a->dy.shape[1]) + row_chunks(a->dy.shape[0]) * sums) : 0;
}

void ISA(cpu_rotary_bwd)(const struct args_rotary_bwd *a, const struct call *c)
{
    struct rotary_shape s =
        rotary_shape(&a->dy, &a->table, &a->q_gamma, a->heads, a->kv_heads, a->by_group, a->interleaved);
    int64_t n_chunks = row_chunks(s.T), q = gamma_floats(&a->q_gamma), all = q + gamma_floats(&a->k_gamma);
    float *partial = (float *)c->workspace + (all ? c->threads * row_floats(s.width) : 0);
    bool bf16 = a->dy.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(s.T *s.width < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n_chunks; i++) {
        float *sums[2] = {partial + i * all, partial + i * all + q};
        if (all)
            memset(sums[0], 0, 4 * (size_t)all);
        for (int64_t n = i * s.T / n_chunks; n < (i + 1) * s.T / n_chunks; n++)
            if (bf16)
                backward_row(a, &s, own_row(c, &s, &a->q_gamma), sums, n, true);
            else
                backward_row(a, &s, own_row(c, &s, &a->q_gamma), sums, n, false);
    }
    if (!all)
        return;
    columns_finish(&a->dq_gamma, partial, n_chunks, all, a->q_gamma.shape[0]);
    columns_finish(&a->dk_gamma, partial + q, n_chunks, all, a->k_gamma.shape[0]);
}
