/* stopping.h: early stopping by the metric for the best model, as transformers' EarlyStoppingCallback decides it. */
#ifndef SCHEDULE_STOPPING_H
#define SCHEDULE_STOPPING_H

#include "options/options.h"

struct stopping {
    bool begun;     /* there was an evaluation */
    double best;    /* metric of all evaluations so far, saved or not; infinite where none was a number */
    int64_t failed; /* evaluations in a row that were not better by more than --early-stopping-threshold */
};

/* After an evaluation. */
void stopping_count(struct stopping *s, const struct options *o, double metric);

/* Whether --early-stopping-patience is at its end. */
bool stopping_is_due(const struct stopping *s, const struct options *o);

#endif
