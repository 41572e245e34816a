/* average.h: what schedule-free optimizers (op/optimizer/schedule_free.c) are told of a step beside its rate: the share that the step
 * has in the average of all, as the package schedulefree reckons it. It has a state, which checkpoints hold. */
#ifndef SCHEDULE_AVERAGE_H
#define SCHEDULE_AVERAGE_H

#include "options/options.h"

struct average_rule {
    bool averages;          /* false: another optimizer, whose rate is the schedule's */
    double power, lr_power; /* a step t weighs t^power times the highest rate so far to the lr_power */
    int64_t warmup;         /* updates in which the rate grows, whatever the schedule; 0: none */
    double rectified;       /* RAdam's beta2, by which the rate grows instead; 0: it does not */
};

/* All zero before the first update. */
struct average {
    double highest, sum; /* the highest rate so far; the weights of all steps */
};

struct average_step {
    double rate, share;
    struct average after;
};

struct average_rule average_rule_of(const struct options *o, int64_t total);

/* Update number t, from 1, for which the schedule says `rate`. */
struct average_step average_next(const struct average_rule *r, const struct average *now, double rate, int64_t t);

#endif
