/* StableAdamW (op/optimizer/stable_adamw.c) in two passes: the sum of g^2 / v, by chunks of CHUNK elements and then over the chunks in
 * order; the update. Bound by memory: 8 bytes a parameter and 28. */
#include "op/optimizer/stable_adamw.h"

#include "cpu/optimizer/blocks.h"

enum { CHUNK = 16384 };

static int64_t chunks(const struct args_stable_adamw *a)
{
    return (tensor_elements(&a->p) + CHUNK - 1) / CHUNK;
}

int64_t ISA(cpu_stable_adamw_workspace)(const struct args_stable_adamw *a, int threads)
{
    (void)threads;
    return chunks(a) * (int64_t)sizeof(double);
}

struct factors {
    float beta1, rest1, beta2, rest2, eps, rate, decay;
};

/* Of the elements [from, to). */
SIMD double sum_chunk(const struct args_stable_adamw *a, const struct factors *f, float coef, int64_t from, int64_t to)
{
    vf sum = {0}, beta2 = vf_set1(f->beta2), least = vf_set1(f->eps * f->eps);
    bool narrow = a->g.dtype == DT_BF16, pure = a->v.dtype == DT_BF16;
    for (int64_t i = from; i < to; i += VF_LANES) {
        vf g = vf_get_upto(a->g.data, i, to - i, narrow) * coef, squares = g * g;
        vf v = vf_fma(beta2, vf_get_upto(a->v.data, i, to - i, pure), squares * f->rest2);
        vf part = squares / vf_max(v, least);
        sum = sum + vf_where(vi_iota() < vi_set1((int32_t)(to - i < VF_LANES ? to - i : VF_LANES)), part);
    }
    return (double)vf_hsum(sum);
}

/* s: m, v */
static void update(float *p, const float *g, float *const s[BLOCK_STATES], const void *factors)
{
    const struct factors *f = factors;
    vf beta1 = vf_set1(f->beta1), beta2 = vf_set1(f->beta2), eps = vf_set1(f->eps), decay = vf_set1(f->decay);
    for
        BLOCK_VECTORS(i)
        {
            vf grad = vf_load(g + i), w = vf_load(p + i);
            vf m = vf_fma(beta1, vf_load(s[0] + i), grad * f->rest1);
            vf v = vf_fma(beta2, vf_load(s[1] + i), grad * grad * f->rest2);
            vf_store(p + i, vf_fma(decay, w, w) - m * f->rate / (vf_sqrt(v) + eps));
            vf_store(s[0] + i, m);
            vf_store(s[1] + i, v);
        }
}

void ISA(cpu_stable_adamw)(const struct args_stable_adamw *a, const struct call *c)
{
    const double *step = a->step.data;
    double *sums = c->workspace, sum = 0, t = step[STEP_UPDATE];
    double rest1 = stable_adamw_rest(a->beta1, t), rest2 = stable_adamw_rest(a->beta2, t);
    int64_t n = tensor_elements(&a->p), n_chunks = chunks(a);
    float coef = a->coef.data ? *(const float *)a->coef.data : 1;
    struct factors f = {.beta1 = (float)(1 - rest1),
                        .rest1 = (float)rest1,
                        .beta2 = (float)(1 - rest2),
                        .rest2 = (float)rest2,
                        .eps = (float)a->eps};
    if (coef < 0 || !n)
        return;
#pragma omp parallel for schedule(static) num_threads(n <= PARALLEL_FROM ? 1 : c->threads)
    for (int64_t k = 0; k < n_chunks; k++)
        sums[k] = sum_chunk(a, &f, coef, k * CHUNK, (k + 1) * CHUNK < n ? (k + 1) * CHUNK : n);
    for (int64_t k = 0; k < n_chunks; k++)
        sum += sums[k];
    double rate = stable_adamw_rate(step[STEP_LR], sum, (double)n);
    f.rate = (float)rate;
    f.decay = (float)(-rate * a->weight_decay);
    struct block_update u = {BLOCK_OPERANDS(a), {{.tensor = &a->m}, {.tensor = &a->v}}};
    ISA(cpu_update_blocks)(&u, update, &f, c->threads);
}
