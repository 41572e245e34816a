/* rehearsal.h: a run without its data: the programs of some settings, random weights, a typical micro-batch, in memory
 * that is given back. What it is for is how long that takes. */
#ifndef TRAIN_FORECAST_REHEARSAL_H
#define TRAIN_FORECAST_REHEARSAL_H

#include "run/node_time.h"
#include "train/forecast/typical.h"
#include "train/step.h"

struct rehearsal_limits {
    int64_t bytes;       /* more memory is not taken */
    int64_t large_bytes; /* what takes more than these has so many seconds */
    double seconds;      /* to the end of rehearsal_nodes; 0: any number */
};

struct rehearsal {
    struct model_config model;
    struct compile_settings settings;
    struct run run;
    struct stepper stepper;
    int64_t steps;
    struct rehearsal_limits limits;
    double until; /* seconds_now() behind which it gives up; 0: never */
};

/* SNUG_ERR_ENV: there is no room, or it takes more than the limits. rehearsal_close also after a failure; the struct must
 * not move. */
int rehearsal_open(struct rehearsal *r, const struct compile_settings *c, const struct choices *choices,
                   const struct rehearsal_limits *limits, struct snug_err *err);
void rehearsal_close(struct rehearsal *r);

/* Seconds of an optimizer step on n_micro times `b`, as it is when a device has been at work for a while. It is the
 * mean of the steps of `lasting` seconds, three at least, after as much to warm up. 0: roughly, two steps after two. */
int rehearsal_step(struct rehearsal *r, const struct batch *b, int32_t n_micro, double lasting, double *seconds,
                   struct snug_err *err);
/* The same of a batch of the evaluation. */
int rehearsal_evaluation(struct rehearsal *r, const struct batch *b, double lasting, double *seconds,
                         struct snug_err *err);

/* The same of a call of the program of generation. */
int rehearsal_answers(struct rehearsal *r, const struct batch *b, double lasting, double *seconds,
                      struct snug_err *err);

/* The times of all nodes of all programs but generation on `b`. SNUG_ERR_ENV: it takes longer than the limits. */
int rehearsal_nodes(struct rehearsal *r, const struct batch *b, struct node_times *t, struct snug_err *err);
/* Of the program of generation. */
int rehearsal_answer_nodes(struct rehearsal *r, const struct batch *b, struct node_times *t, struct snug_err *err);

#endif
