/* schedule.h: the learning rate of each update, as transformers' get_scheduler and torch have it. Most schedules are a
 * function of the updates done so far, with nothing to save; two follow the metric of the evaluations (schedule/plateau.h). */
#ifndef SCHEDULE_SCHEDULE_H
#define SCHEDULE_SCHEDULE_H

#include "options/options.h"

/* What reduce_lr_on_plateau and greedy compare, and what they do. */
struct plateau_rule {
    bool greatest;      /* more is better */
    bool relative;      /* the threshold is a share of the best */
    double threshold;   /* better by more than this counts */
    int64_t patience;   /* evaluations in a row that change nothing */
    int64_t cooldown;   /* evaluations that do not count, after the rate fell */
    int64_t warmup;     /* greedy: after it rose */
    double factor;      /* of the rate when it falls; greedy divides by it when it rises */
    double least, most; /* of the rate; `most` is greedy's */
    double eps;         /* a smaller change is not made */
    int64_t resets;     /* greedy: falls at the lowest rate, after which it starts anew */
};

struct schedule {
    int kind;              /* OPT_SCHEDULE_LINEAR, … */
    double learning_rate;  /* the highest */
    int64_t warmup, total; /* updates */
    double cycles;         /* cosines: waves, 0.5 falls once; cosine_with_restarts: how often it falls */
    double power, end;     /* polynomial; `end` is a rate */
    double least;          /* cosine_with_min_lr and warmup_stable_decay: the lowest, as a share of learning_rate */
    double begin;          /* cosine_warmup_with_min_lr: where warm-up begins, likewise; below 0: at 1/warmup */
    double timescale;      /* inverse_sqrt, updates */
    int64_t stable, decay; /* warmup_stable_decay: updates at the highest rate, and those in which it falls */
    int warmup_type, decay_type; /* OPT_RAMP_LINEAR, … */
    struct plateau_rule plateau;
};

/* What checked options ask for over `total` updates. */
struct schedule schedule_of(const struct options *o, int64_t total);

/* Whether the rate follows the evaluations instead of the number of updates. */
bool schedule_follows_metric(const struct options *o);

/* The rate of update number s+1, s being the updates done. Not of those that follow a metric. */
double schedule_rate(const struct schedule *c, int64_t s);

#endif
