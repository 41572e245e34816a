#include "train/generate/sampling.h"

#include "data/random.h"

#include <math.h>
#include <stdlib.h>

static int by_logit(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : (x->id > y->id) - (x->id < y->id);
}

/* Softmax over the n candidates. */
static void set_probabilities(struct candidate *all, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += all[i].probability = exp(all[i].logit - all[0].logit);
    for (int64_t i = 0; i < n; i++)
        all[i].probability /= sum;
}

void sampling_candidates(const struct sampling *s, const float *logits, int64_t V, struct candidate *all, int64_t *n)
{
    double sum = 0;
    for (int64_t i = 0; i < V; i++)
        all[i] = (struct candidate){.logit = (double)logits[i] / s->temperature, .id = (int32_t)i};
    qsort(all, (size_t)V, sizeof *all, by_logit);
    *n = s->top_k && s->top_k < V ? s->top_k : V;
    while (*n < V && all[*n].logit == all[*n - 1].logit)
        ++*n;
    set_probabilities(all, *n);
    for (int64_t i = 0; i < *n && s->top_p < 1; i++)
        if ((sum += all[i].probability) >= s->top_p)
            *n = i + 1;
    set_probabilities(all, *n);
}

/* In [0, 1). */
static double uniform(uint64_t seed, int64_t prompt, int64_t position)
{
    uint32_t key[2];
    data_key(seed, FOR_SAMPLING, key);
    struct philox r = philox4x32(
        (struct philox){{(uint32_t)position, (uint32_t)prompt, (uint32_t)((uint64_t)prompt >> 32), 0}}, key[0], key[1]);
    return ((double)r.w[0] * 0x1p-32 + (double)(r.w[1] >> 11) * 0x1p-53);
}

int32_t sampling_choose(const struct sampling *s, const float *logits, int64_t V, struct candidate *all, int64_t prompt,
                        int64_t position)
{
    int64_t n, best = 0;
    if (!s->on) {
        for (int64_t i = 1; i < V; i++)
            best = logits[i] > logits[best] ? i : best;
        return (int32_t)best;
    }
    sampling_candidates(s, logits, V, all, &n);
    double u = uniform(s->seed, prompt, position), sum = 0;
    for (; best + 1 < n && (sum += all[best].probability) <= u; best++)
        ;
    return all[best].id;
}
