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

/* The tokens that may be drawn, from logits (V): *n of them in all[0…], the likeliest first (equal ones by id), with their
 * probabilities. In this order: the temperature divides the logits; the top_k largest stay, with those that equal the last of
 * them; of these stay the fewest that have the probability top_p together. `all` is the caller's and has room for V. */
void sampling_candidates(const struct sampling *s, const float *logits, int64_t V, struct candidate *all, int64_t *n);

/* The token at `position` (from 0, the prompt's own counted) of prompt number `prompt`, from its logits (V). The same seed, prompt and
 * position draw the same number, whatever else runs. `all` as above. */
int32_t sampling_choose(const struct sampling *s, const float *logits, int64_t V, struct candidate *all, int64_t prompt,
                        int64_t position);

#endif
