/* squad.h: how right an answer is, as SQuAD's evaluation script (version 2.0) has it: texts are compared in lower case, without ASCII
 * punctuation, articles and blanks that do not separate; f1 is of their words. */
#ifndef METRICS_SQUAD_H
#define METRICS_SQUAD_H

#include "base/err.h"

#include <stddef.h>

struct squad_score {
    double exact, f1; /* 0 to 1 */
};

/* The best score of the answer against `n` right ones; n 0: that there is no answer is right. SNUG_ERR_ENV: no memory. */
int squad_score(const char *answer, size_t bytes, const char *const *right, size_t n, struct squad_score *score,
                struct snug_err *err);

#endif
