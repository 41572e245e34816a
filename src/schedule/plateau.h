/* plateau.h: a learning rate that follows the metric of the evaluations: torch's ReduceLROnPlateau and transformers'
 * GreedyLR. Unlike other schedules they have a state, which checkpoints hold. */
#ifndef SCHEDULE_PLATEAU_H
#define SCHEDULE_PLATEAU_H

#include "schedule/schedule.h"

struct plateau {
    double rate;
    double best;              /* metric; infinite before the first evaluation */
    int64_t bad, good;        /* evaluations in a row that were no better, or better, than the best */
    int64_t cooldown, warmup; /* evaluations still to come that do not count */
    int64_t resets;           /* falls at the lowest rate still to come before it starts anew */
};

void plateau_start(struct plateau *p, const struct schedule *c);

/* After an evaluation. Does nothing for a schedule that does not follow a metric. */
void plateau_step(struct plateau *p, const struct schedule *c, double metric);

#endif
