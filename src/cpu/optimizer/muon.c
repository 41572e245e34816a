/* The ops of Muon beside its products (op/optimizer/muon.c). Bound by memory; `linear` has the flops. */
#include "cpu/kernels.h"
#include "cpu/optimizer/stored.h"

enum { CHUNK = 16384 };

SIMD void momentum_chunk(const struct args_muon_momentum *a, float coef, int64_t from, int64_t to)
{
    vf b = vf_set1((float)a->momentum), rest = vf_set1((float)(1 - a->momentum));
    bool narrow = a->g.dtype == DT_BF16, pure = a->buf.dtype == DT_BF16, narrow_u = a->u.dtype == DT_BF16;
    struct stored buf = stored_of(&a->buf, a->step.data, a->noise, ROUND_STATE1);
    for (int64_t i = from; i < to; i += VF_LANES) {
        vf g = vf_get_upto(a->g.data, i, to - i, narrow) * coef * rest;
        vf m = vf_fma(b, stored_get(&buf, i, to - i, pure), g);
        stored_put(&buf, i, m, to - i, pure);
        if (pure)
            m = stored_get(&buf, i, to - i, true);
        vf_put_upto(a->u.data, i, vf_fma(b, m, g), to - i, narrow_u);
    }
}

void ISA(cpu_muon_momentum)(const struct args_muon_momentum *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->buf);
    float coef = a->coef.data ? *(const float *)a->coef.data : 1;
    if (coef < 0) {
        memset(a->u.data, 0, (size_t)dtype_bytes(a->u.dtype, n));
        return;
    }
#pragma omp parallel for schedule(static) num_threads(n <= PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n; i += CHUNK)
        momentum_chunk(a, coef, i, i + CHUNK < n ? i + CHUNK : n);
}

SIMD void unit_chunk(const struct args_unit *a, float by, int64_t from, int64_t to, bool narrow)
{
    for (int64_t i = from; i < to; i += VF_LANES)
        vf_put_upto(a->y.data, i, vf_get_upto(a->x.data, i, to - i, narrow) * by, to - i, narrow);
}

void ISA(cpu_unit)(const struct args_unit *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->x);
    double squares = 0;
    for (int64_t i = 0; i < tensor_elements(&a->partials); i++)
        squares += ((const double *)a->partials.data)[i];
    float by = (float)(1 / fmax(sqrt(squares), a->eps));
#pragma omp parallel for schedule(static) num_threads(n <= PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n; i += CHUNK)
        unit_chunk(a, by, i, i + CHUNK < n ? i + CHUNK : n, a->x.dtype == DT_BF16);
}

SIMD void blend_chunk(const struct args_blend *a, int64_t from, int64_t to, bool narrow)
{
    vf s = vf_set1((float)a->s), t = vf_set1((float)a->t);
    for (int64_t i = from; i < to; i += VF_LANES) {
        vf z = vf_get_upto(a->z.data, i, to - i, narrow) * t;
        vf_put_upto(a->y.data, i, vf_fma(s, vf_get_upto(a->x.data, i, to - i, narrow), z), to - i, narrow);
    }
}

void ISA(cpu_blend)(const struct args_blend *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->x);
#pragma omp parallel for schedule(static) num_threads(n <= PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n; i += CHUNK)
        blend_chunk(a, i, i + CHUNK < n ? i + CHUNK : n, a->x.dtype == DT_BF16);
}

SIMD void muon_chunk(const struct args_muon *a, float rate, float decay, int64_t from, int64_t to)
{
    vf by = vf_set1(-rate), keep = vf_set1(decay);
    bool narrow = a->o.dtype == DT_BF16, pure = a->p.dtype == DT_BF16, narrow_copy = a->copy.dtype == DT_BF16;
    struct stored p = stored_of(&a->p, a->step.data, a->noise, ROUND_WEIGHT);
    for (int64_t i = from; i < to; i += VF_LANES) {
        vf w = stored_get(&p, i, to - i, pure);
        w = vf_fma(by, vf_get_upto(a->o.data, i, to - i, narrow), vf_fma(keep, w, w));
        stored_put(&p, i, w, to - i, pure);
        if (a->copy.data)
            vf_put_upto(a->copy.data, i, w, to - i, narrow_copy);
    }
}

void ISA(cpu_muon)(const struct args_muon *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->p);
    double lr = ((const double *)a->step.data)[STEP_LR];
    if (a->coef.data && *(const float *)a->coef.data < 0)
        return;
#pragma omp parallel for schedule(static) num_threads(n <= PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n; i += CHUNK)
        muon_chunk(a, (float)(lr * a->factor), (float)(-lr * a->weight_decay), i, i + CHUNK < n ? i + CHUNK : n);
}
