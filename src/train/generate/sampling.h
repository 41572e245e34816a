/* sampling.h: the next token from its logits, as transformers' generate chooses it. */
#ifndef TRAIN_GENERATE_SAMPLING_H
#define TRAIN_GENERATE_SAMPLING_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct sampling {
    bool on;            /* else the first of the largest logits is taken */
    double temperature; /* above 0 */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
};

struct candidate {
    double logit, probability;
    int32_t id;
};

/* The tokens that are left of V, the likeliest first (equal ones by id), with their probabilities; *n of them. Temperature, then
 * the top_k largest and what equals the last of them, then the fewest whose probability reaches top_p. `all` has room for V. */
void sampling_candidates(const struct sampling *s, const float *logits, int64_t V, struct candidate *all, int64_t *n);

/* The token at `position` of prompt `prompt`: the same for the same seed, whatever runs beside it. */
int32_t sampling_choose(const struct sampling *s, const float *logits, int64_t V, struct candidate *all, int64_t prompt,
                        int64_t position);

#endif
