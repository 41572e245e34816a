/* schedule.h: the learning rate as a function of the updates done so far; nothing to save. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdint.h>

/* ORDER schedule */
enum schedule_kind { SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_CONSTANT, SCHEDULE_CONSTANT_WITH_WARMUP };

struct schedule {
    enum schedule_kind kind;
    double learning_rate;  /* the highest */
    int64_t warmup, total; /* updates */
    double cycles;         /* cosine: waves; 0.5 falls once */
};

/* The rate of update number s+1, s being the updates done: transformers' get_scheduler. In warm-up it grows from 0. */
double schedule_rate(const struct schedule *c, int64_t s);

#endif
