/* workload.h: what a run does again and again, as typical batches: what a forecast times or reckons. */
#ifndef TRAIN_FORECAST_WORKLOAD_H
#define TRAIN_FORECAST_WORKLOAD_H

#include "train/forecast/answers.h"
#include "train/forecast/typical.h"

struct workload {
    struct typical step, evaluation; /* evaluation: B 0 where there are no data for it */
    struct answers answers;
    struct typical_lengths lengths, eval_lengths;
    double source_share; /* of the tokens of rows */
    int32_t accumulation;
};

int workload_open(struct workload *w, const struct session *s, struct snug_err *err);
void workload_close(struct workload *w); /* also after a failure */

bool workload_evaluates(const struct workload *w);
bool workload_answers(const struct workload *w);
/* Of an evaluation's answers, from the times of one call of each kind. */
double workload_answer_seconds(const struct workload *w, const double call[ANSWER_CALLS]);

#endif
