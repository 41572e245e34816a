/* AdEMAMix (op/optimizer/ademamix.c). Bound by memory: 36 bytes a parameter; 18 with states of 8 bits, where looking up and finding
 * codes takes longer. */
#include "op/optimizer/ademamix.h"

#include "cpu/optimizer/blocks.h"

struct factors {
    float beta1, rest1, beta2, rest2, beta3, rest3, first, slow, scale, eps, decay; /* first, slow: of the step */
};

/* s: m, slow, v */
static void update(float *p, const float *g, float *const s[BLOCK_STATES], const void *factors)
{
    const struct factors *f = factors;
    vf beta1 = vf_set1(f->beta1), rest1 = vf_set1(f->rest1), beta2 = vf_set1(f->beta2), rest2 = vf_set1(f->rest2);
    vf beta3 = vf_set1(f->beta3), rest3 = vf_set1(f->rest3), scale = vf_set1(f->scale), eps = vf_set1(f->eps);
    vf decay = vf_set1(f->decay);
    for
        BLOCK_VECTORS(i)
        {
            vf grad = vf_load(g + i), w = vf_load(p + i);
            vf m = vf_fma(beta1, vf_load(s[0] + i), rest1 * grad),
               slow = vf_fma(beta3, vf_load(s[1] + i), rest3 * grad);
            vf v = vf_fma(beta2, vf_load(s[2] + i), rest2 * grad * grad);
            vf d = vf_fma(vf_set1(f->first), m, slow * f->slow) / vf_fma(vf_sqrt(v), scale, eps);
            vf_store(p + i, vf_fma(decay, w, w) - d);
            vf_store(s[0] + i, m);
            vf_store(s[1] + i, slow);
            vf_store(s[2] + i, v);
        }
}

#define FACTORS(a)                                                                                                     \
    factors_of((a)->step.data, (a)->beta1, (a)->beta2, (a)->eps, (a)->weight_decay,                                    \
               ademamix_beta3((a)->beta1, (a)->beta3, (a)->t_beta3, ((const double *)(a)->step.data)[STEP_UPDATE]),    \
               ademamix_alpha((a)->alpha, (a)->t_alpha, ((const double *)(a)->step.data)[STEP_UPDATE]))

static struct factors factors_of(const double *step, double beta1, double beta2, double eps, double weight_decay,
                                 double beta3, double alpha)
{
    double lr = step[STEP_LR], t = step[STEP_UPDATE];
    return (struct factors){.beta1 = (float)beta1,
                            .rest1 = (float)(1 - beta1),
                            .beta2 = (float)beta2,
                            .rest2 = (float)(1 - beta2),
                            .beta3 = (float)beta3,
                            .rest3 = (float)(1 - beta3),
                            .first = (float)(lr / (1 - pow(beta1, t))),
                            .slow = (float)(lr * alpha),
                            .scale = (float)(1 / sqrt(1 - pow(beta2, t))),
                            .eps = (float)eps,
                            .decay = (float)(-lr * weight_decay)};
}

void ISA(cpu_ademamix)(const struct args_ademamix *a, const struct call *c)
{
    struct factors f = FACTORS(a);
    struct block_update u = {BLOCK_OPERANDS(a), {{.tensor = &a->m}, {.tensor = &a->slow}, {.tensor = &a->v}}};
    ISA(cpu_update_blocks)(&u, update, &f, c->threads);
}

void ISA(cpu_ademamix8bit)(const struct args_ademamix8bit *a, const struct call *c)
{
    struct factors f = FACTORS(a);
    struct block_update u = {
        BLOCK_OPERANDS(a),
        {{&a->m, &a->absmax_m, true}, {&a->slow, &a->absmax_slow, true}, {&a->v, &a->absmax_v, false}}};
    ISA(cpu_update_blocks)(&u, update, &f, c->threads);
}
