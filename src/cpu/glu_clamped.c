/* The clamped gated linear unit of gpt-oss, and back (op/glu_clamped.c). Bound by memory in bf16. Gates and ups that lie by turns are
 * parted in a block of floats that stays in the cache. */
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"

enum { PAIRS = 64 };

/* PAIRS gates, and as many ups. */
struct pairs {
    float gate[PAIRS], up[PAIRS];
};

/* Pairs [i, i + n) of x. What is behind them in the block is 0. */
SIMD void read_pairs(struct pairs *p, const void *x, int64_t i, int64_t n, bool bf16)
{
    float both[2 * PAIRS];
    for (int64_t j = 0; j < 2 * PAIRS; j += VF_LANES)
        vf_store(both + j, 2 * n > j ? vf_get_upto(x, 2 * i + j, 2 * n - j, bf16) : vf_set1(0));
    for (int j = 0; j < PAIRS; j++) {
        p->gate[j] = both[2 * j];
        p->up[j] = both[2 * j + 1];
    }
}

SIMD void put_pairs(const struct tensor *to, const struct pairs *p, int64_t i, int64_t n, bool bf16)
{
    float both[2 * PAIRS];
    for (int j = 0; j < PAIRS; j++) {
        both[2 * j] = p->gate[j];
        both[2 * j + 1] = p->up[j];
    }
    for (int64_t j = 0; j < 2 * n; j += VF_LANES)
        put_or_add(to, 2 * i + j, vf_load(both + j), 2 * n - j, bf16);
}

SIMD void glu_block(const struct args_glu_clamped *a, int64_t i, int64_t n, bool bf16)
{
    struct pairs p;
    vf alpha = vf_set1((float)a->alpha), limit = vf_set1((float)a->limit);
    read_pairs(&p, a->x.data, i, n, bf16);
    for (int64_t j = 0; j < n; j += VF_LANES) {
        vf g = vf_min(limit, vf_load(p.gate + j)), u = vf_min(limit, vf_max(-limit, vf_load(p.up + j)));
        vf_put_upto(a->y.data, i + j, (u + 1) * g * vf_sigmoid(alpha * g), n - j, bf16);
    }
}

SIMD void glu_bwd_block(const struct args_glu_clamped_bwd *a, int64_t i, int64_t n, bool bf16)
{
    struct pairs p;
    vf alpha = vf_set1((float)a->alpha), limit = vf_set1((float)a->limit);
    read_pairs(&p, a->x.data, i, n, bf16);
    for (int64_t j = 0; j < n; j += VF_LANES) {
        vf gate = vf_load(p.gate + j), up = vf_load(p.up + j), dy = vf_get_upto(a->dy.data, i + j, n - j, bf16);
        vf g = vf_min(limit, gate), u = vf_min(limit, vf_max(-limit, up));
        vf z = vf_min(vf_set1(80), vf_max(vf_set1(-80), alpha * g)); /* beyond, the slope is 0 or 1 */
        vf e = vf_exp(-z), s = 1 / (1 + e);                          /* 1 - s = e s */
        vf_store(p.gate + j, vf_where(~(gate > limit), dy * (u + 1) * vf_fma(z * e * s, s, s)));
        vf_store(p.up + j, vf_where(~(vf_abs(up) > limit), dy * g * s));
    }
    put_pairs(&a->dx, &p, i, n, bf16);
}

void ISA(cpu_glu_clamped)(const struct args_glu_clamped *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->y);
#pragma omp parallel for schedule(static) num_threads(n < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n; i += PAIRS)
        if (a->x.dtype == DT_BF16)
            glu_block(a, i, n - i < PAIRS ? n - i : PAIRS, true);
        else
            glu_block(a, i, n - i < PAIRS ? n - i : PAIRS, false);
}

void ISA(cpu_glu_clamped_bwd)(const struct args_glu_clamped_bwd *a, const struct call *c)
{
    int64_t n = a->dx.data ? tensor_elements(&a->dy) : 0;
#pragma omp parallel for schedule(static) num_threads(n < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n; i += PAIRS)
        if (a->x.dtype == DT_BF16)
            glu_bwd_block(a, i, n - i < PAIRS ? n - i : PAIRS, true);
        else
            glu_bwd_block(a, i, n - i < PAIRS ? n - i : PAIRS, false);
}
