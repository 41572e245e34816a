/* answers.h: what --eval-samples asks of each evaluation, as calls of the program of generation: some read a piece of each prompt, each of
 * the others one token of each. An answer that ends early takes less: answers are reckoned in full. */
#ifndef TRAIN_FORECAST_ANSWERS_H
#define TRAIN_FORECAST_ANSWERS_H

#include "data/batch.h"

struct session;
struct snug_err;

enum answer_call { ANSWERS_READ, ANSWERS_WRITE, ANSWER_CALLS };

struct answers {
    struct batch batch[ANSWER_CALLS]; /* a typical one */
    double calls[ANSWER_CALLS];       /* of an evaluation; 0: nothing is asked */
    int32_t *ints;                    /* own the batches' arrays */
};

/* For a session that is planned. */
int answers_open(struct answers *a, const struct session *s, struct snug_err *err);
void answers_close(struct answers *a);

#endif
