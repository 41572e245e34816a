/* Lion (op/optimizer/lion.c). Bound by memory: 20 bytes a parameter, 14 with a state of 8 bits. */
#include "cpu/optimizer/blocks.h"

struct factors {
    float beta1, rest1, beta2, rest2, rate, decay;
};

static void update(float *p, const float *g, float *const s[BLOCK_STATES], const void *factors)
{
    const struct factors *f = factors;
    vf beta1 = vf_set1(f->beta1), rest1 = vf_set1(f->rest1), beta2 = vf_set1(f->beta2), rest2 = vf_set1(f->rest2);
    vf decay = vf_set1(f->decay), rate = vf_set1(f->rate);
    for
        BLOCK_VECTORS(i)
        {
            vf grad = vf_load(g + i), m = vf_load(s[0] + i), w = vf_load(p + i), mixed = vf_fma(beta1, m, rest1 * grad);
            w = vf_fma(decay, w, w) - vf_where(mixed > 0, rate) + vf_where(mixed < 0, rate);
            vf_store(p + i, w);
            vf_store(s[0] + i, vf_fma(beta2, m, rest2 * grad));
        }
}

static struct factors factors_of(const double *step, double beta1, double beta2, double weight_decay)
{
    return (struct factors){(float)beta1,       (float)(1 - beta1),   (float)beta2,
                            (float)(1 - beta2), (float)step[STEP_LR], (float)(-step[STEP_LR] * weight_decay)};
}

void ISA(cpu_lion)(const struct args_lion *a, const struct call *c)
{
    struct factors f = factors_of(a->step.data, a->beta1, a->beta2, a->weight_decay);
    struct block_update u = {BLOCK_OPERANDS(a), {{.tensor = &a->m}}};
    ISA(cpu_update_blocks)(&u, update, &f, c->threads);
}

void ISA(cpu_lion8bit)(const struct args_lion8bit *a, const struct call *c)
{
    struct factors f = factors_of(a->step.data, a->beta1, a->beta2, a->weight_decay);
    struct block_update u = {BLOCK_OPERANDS(a), {{&a->m, &a->absmax_m, true}}};
    ISA(cpu_update_blocks)(&u, update, &f, c->threads);
}
