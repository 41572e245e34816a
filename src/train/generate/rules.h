/* rules.h: what transformers does to the logits of a next token before one is chosen, where generation_config.json says so. */
#ifndef TRAIN_GENERATE_RULES_H
#define TRAIN_GENERATE_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct rules {
    double penalty;    /* of what the text has already, with its prompt (Keskar et al., arXiv 1909.05858); 1: none */
    int64_t no_repeat; /* no run of so many tokens comes twice; 0: all may */
    int64_t least, new_least; /* tokens of the text with its prompt, and behind it, before it may stop */
    const int32_t *stops;
    int n_stops;
    bool *seen; /* (V), all false between calls; wanted where there is a penalty */
};

/* logits (V) of the token behind ids (n), of which the first n_prompt are the prompt. */
void rules_apply(const struct rules *r, const int32_t *ids, int64_t n, int64_t n_prompt, float *logits);

#endif
