/* RMSprop (op/optimizer/rmsprop.c). Bound by memory: 20 bytes a parameter, 8 more for each of mean_g and buf; 14 with a state of 8
 * bits. */
#include "cpu/optimizer/blocks.h"

struct factors {
    float rate, alpha, rest, eps, momentum, decay;
};

/* s: v, mean_g, buf */
static void update(float *p, const float *g, float *const s[BLOCK_STATES], const void *factors)
{
    const struct factors *f = factors;
    vf decay = vf_set1(f->decay), alpha = vf_set1(f->alpha), rest = vf_set1(f->rest), eps = vf_set1(f->eps);
    for
        BLOCK_VECTORS(i)
        {
            vf w = vf_load(p + i), grad = vf_fma(decay, w, vf_load(g + i));
            vf square = vf_fma(alpha, vf_load(s[0] + i), rest * grad * grad);
            vf_store(s[0] + i, square);
            if (s[1]) {
                vf mean = vf_fma(alpha, vf_load(s[1] + i), rest * grad);
                vf_store(s[1] + i, mean);
                square = square - mean * mean;
            }
            vf d = grad / (vf_sqrt(square) + eps);
            if (s[2]) {
                d = vf_fma(vf_set1(f->momentum), vf_load(s[2] + i), d);
                vf_store(s[2] + i, d);
            }
            vf_store(p + i, vf_fma(vf_set1(f->rate), d, w));
        }
}

static struct factors factors_of(const double *step, double alpha, double eps, double momentum, double weight_decay)
{
    return (struct factors){(float)-step[STEP_LR], (float)alpha,       (float)(1 - alpha), (float)eps,
                            (float)momentum,       (float)weight_decay};
}

void ISA(cpu_rmsprop)(const struct args_rmsprop *a, const struct call *c)
{
    struct factors f = factors_of(a->step.data, a->alpha, a->eps, a->momentum, a->weight_decay);
    struct block_update u = {BLOCK_OPERANDS(a), {{.tensor = &a->v}, {.tensor = &a->mean_g}, {.tensor = &a->buf}}};
    ISA(cpu_update_blocks)(&u, update, &f, c->threads);
}

void ISA(cpu_rmsprop8bit)(const struct args_rmsprop8bit *a, const struct call *c)
{
    struct factors f = factors_of(a->step.data, a->alpha, a->eps, 0, a->weight_decay);
    struct block_update u = {BLOCK_OPERANDS(a), {{&a->v, &a->absmax_v, true}}};
    ISA(cpu_update_blocks)(&u, update, &f, c->threads);
}
