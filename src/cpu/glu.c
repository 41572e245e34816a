/* Gated linear units, and back. Bound by memory in bf16, by the activation too in fp32. */
#include "cpu/act.h"
#include "cpu/kernels.h"

SIMD void glu_row(const struct args_glu *a, int64_t n, enum act act, bool bf16)
{
    int64_t F = a->y.shape[1], gate = 2 * n * F, up = gate + F;
    for (int64_t f = 0; f < F; f += VF_LANES) {
        int64_t left = F - f;
        vf y = vf_act(act, vf_get_upto(a->x.data, gate + f, left, bf16)) * vf_get_upto(a->x.data, up + f, left, bf16);
        vf_put_upto(a->y.data, n * F + f, y, left, bf16);
    }
}

SIMD void glu_bwd_row(const struct args_glu_bwd *a, int64_t n, enum act act, bool bf16)
{
    int64_t F = a->dy.shape[1], gate = 2 * n * F, up = gate + F;
    for (int64_t f = 0; f < F; f += VF_LANES) {
        int64_t left = F - f;
        vf dy = vf_get_upto(a->dy.data, n * F + f, left, bf16);
        vf slope, y = vf_act_and_slope(act, vf_get_upto(a->x.data, gate + f, left, bf16), &slope);
        vf dgate = dy * vf_get_upto(a->x.data, up + f, left, bf16) * slope;
        put_or_add(&a->dx, gate + f, dgate, left, bf16);
        put_or_add(&a->dx, up + f, dy * y, left, bf16);
    }
}

/* A row by `f` with the activation and the type as constants. */
#define WITH_ACT(f, a, n, bf16)                                                                                        \
    switch ((enum act)(a)->act) {                                                                                      \
    case ACT_gelu:                                                                                                     \
        f(a, n, ACT_gelu, bf16);                                                                                       \
        break;                                                                                                         \
    case ACT_gelu_tanh:                                                                                                \
        f(a, n, ACT_gelu_tanh, bf16);                                                                                  \
        break;                                                                                                         \
    case ACT_silu:                                                                                                     \
        f(a, n, ACT_silu, bf16);                                                                                       \
        break;                                                                                                         \
    default:                                                                                                           \
        f(a, n, (enum act)(a)->act, bf16);                                                                             \
    }

void ISA(cpu_glu)(const struct args_glu *a, const struct call *c)
{
    int64_t N = a->y.shape[0], F = a->y.shape[1];
#pragma omp parallel for schedule(static) num_threads(N *F < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        if (a->x.dtype == DT_BF16)
            WITH_ACT(glu_row, a, n, true)
        else
            WITH_ACT(glu_row, a, n, false)
}

void ISA(cpu_glu_bwd)(const struct args_glu_bwd *a, const struct call *c)
{
    int64_t N = a->dy.shape[0], F = a->dy.shape[1];
#pragma omp parallel for schedule(static) num_threads(N *F < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < (a->dx.data ? N : 0); n++)
        if (a->x.dtype == DT_BF16)
            WITH_ACT(glu_bwd_row, a, n, true)
        else
            WITH_ACT(glu_bwd_row, a, n, false)
}
