/* Adagrad (op/optimizer/adagrad.c). Bound by memory: 20 bytes a parameter. */
#include "cpu/optimizer/blocks.h"

struct factors {
    float rate, eps, decay;
};

static void update(float *p, const float *g, float *const s[BLOCK_STATES], const void *factors)
{
    const struct factors *f = factors;
    vf decay = vf_set1(f->decay), rate = vf_set1(f->rate), eps = vf_set1(f->eps);
    for
        BLOCK_VECTORS(i)
        {
            vf w = vf_load(p + i), grad = vf_fma(decay, w, vf_load(g + i)), sum = vf_fma(grad, grad, vf_load(s[0] + i));
            vf_store(p + i, vf_fma(rate, grad / (vf_sqrt(sum) + eps), w));
            vf_store(s[0] + i, sum);
        }
}

void ISA(cpu_adagrad)(const struct args_adagrad *a, const struct call *c)
{
    const double *step = a->step.data;
    struct factors f = {.rate = (float)(-step[STEP_LR] / (1 + (step[STEP_UPDATE] - 1) * a->lr_decay)),
                        .eps = (float)a->eps,
                        .decay = (float)a->weight_decay};
    struct block_update u = {BLOCK_OPERANDS(a), {{.tensor = &a->sum}}};
    ISA(cpu_update_blocks)(&u, update, &f, c->threads);
}
