/* due.h: whether something that happens each so many steps, or at the end of an epoch, happens now. */
#ifndef SCHEDULE_DUE_H
#define SCHEDULE_DUE_H

#include "options/options.h"
#include "schedule/position.h"

struct moment {
    int64_t step, total; /* steps that are done, and of the whole run */
    bool ends_epoch;     /* the step was an epoch's last */
};

/* `when` is OPT_WHEN_NO, OPT_WHEN_STEPS or OPT_WHEN_EPOCH. */
bool due(int when, struct opt_steps every, const struct moment *now);

/* An evaluation: as --eval-strategy has it from --eval-delay on, and after the last step. */
bool due_evaluation(const struct options *o, const struct position *p, const struct moment *now);

/* Evaluations of a run of `total` steps that begins at step 0, with the one that --eval-on-start asks for. */
int64_t due_evaluations(const struct options *o, const struct position *p, int64_t total);

#endif
