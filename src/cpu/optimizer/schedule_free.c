/* Schedule-free AdamW and SGD (op/optimizer/schedule_free.c). Bound by memory: 28 and 20 bytes a parameter; `ahead` 10 or 12. */
#include "cpu/optimizer/blocks.h"

#include <math.h>

enum { CHUNK = 16384 };

struct factors {
    float beta2, rest2, correction, eps; /* correction: what sqrt(v) is multiplied with */
    float by, decay, rate, share, stays; /* rate: below 0 */
};

SIMD void move(float *p, float *d, vf w, vf far, vf u, const struct factors *f)
{
    vf e = vf_fma(vf_set1(f->rate), vf_fma(vf_set1(f->decay), vf_fma(vf_set1(f->by), far, w), u), far);
    vf_store(p, vf_fma(vf_set1(f->share), e, w));
    vf_store(d, vf_set1(f->stays) * e);
}

static void update_adamw(float *p, const float *g, float *const s[BLOCK_STATES], const void *factors)
{
    const struct factors *f = factors;
    vf beta2 = vf_set1(f->beta2), rest2 = vf_set1(f->rest2), correction = vf_set1(f->correction), eps = vf_set1(f->eps);
    for
        BLOCK_VECTORS(i)
        {
            vf grad = vf_load(g + i), v = vf_fma(beta2, vf_load(s[1] + i), rest2 * grad * grad);
            vf_store(s[1] + i, v);
            move(p + i, s[0] + i, vf_load(p + i), vf_load(s[0] + i), grad / vf_fma(vf_sqrt(v), correction, eps), f);
        }
}

static void update_sgd(float *p, const float *g, float *const s[BLOCK_STATES], const void *factors)
{
    for
        BLOCK_VECTORS(i)
    move(p + i, s[0] + i, vf_load(p + i), vf_load(s[0] + i), vf_load(g + i), factors);
}

static struct factors factors_of(const double *step, double beta1, double weight_decay)
{
    return (struct factors){.by = (float)(1 - beta1),
                            .decay = (float)weight_decay,
                            .rate = (float)-step[STEP_LR],
                            .share = (float)step[STEP_AVERAGE],
                            .stays = (float)(1 - step[STEP_AVERAGE])};
}

void ISA(cpu_schedule_free_adamw)(const struct args_schedule_free_adamw *a, const struct call *c)
{
    const double *step = a->step.data;
    struct factors f = factors_of(step, a->beta1, a->weight_decay);
    struct block_update u = {BLOCK_OPERANDS(a), {{.tensor = &a->d}, {.tensor = &a->v}}};
    f.beta2 = (float)a->beta2, f.rest2 = (float)(1 - a->beta2), f.eps = (float)a->eps;
    f.correction = (float)(1 / sqrt(1 - pow(a->beta2, step[STEP_UPDATE])));
    ISA(cpu_update_blocks)(&u, update_adamw, &f, c->threads);
}

void ISA(cpu_schedule_free_sgd)(const struct args_schedule_free_sgd *a, const struct call *c)
{
    struct factors f = factors_of(a->step.data, a->momentum, a->weight_decay);
    struct block_update u = {BLOCK_OPERANDS(a), {{.tensor = &a->d}}};
    ISA(cpu_update_blocks)(&u, update_sgd, &f, c->threads);
}

SIMD void ahead(const struct args_ahead *a, int64_t from, int64_t to, bool stored_narrow, bool narrow)
{
    vf by = vf_set1((float)a->by);
    for (int64_t i = from; i < to; i += VF_LANES) {
        vf p = vf_get_upto(a->p.data, i, to - i, stored_narrow), d = vf_get_upto(a->d.data, i, to - i, stored_narrow);
        vf_put_upto(a->y.data, i, vf_fma(by, d, p), to - i, narrow);
    }
}

void ISA(cpu_ahead)(const struct args_ahead *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->p);
#pragma omp parallel for schedule(static) num_threads(n <= PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < n; i += CHUNK)
        ahead(a, i, i + CHUNK < n ? i + CHUNK : n, a->p.dtype == DT_BF16, a->y.dtype == DT_BF16);
}
