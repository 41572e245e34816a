#include "schedule/due.h"

bool due(int when, struct opt_steps every, const struct moment *now)
{
    int64_t steps = opt_steps_of(every, now->total);
    if (when == OPT_WHEN_EPOCH)
        return now->ends_epoch;
    return when == OPT_WHEN_STEPS && steps > 0 && now->step % steps == 0;
}

bool due_evaluation(const struct options *o, const struct position *p, const struct moment *now)
{
    double done = o->eval_strategy == OPT_WHEN_EPOCH ? position_epochs(p, now->step) : (double)now->step;
    return now->step == now->total || (done >= o->eval_delay && due(o->eval_strategy, o->eval_steps, now));
}

int64_t due_evaluations(const struct options *o, const struct position *p, int64_t total)
{
    int64_t per_epoch = position_steps_per_epoch(p);
    int64_t every = o->eval_strategy == OPT_WHEN_STEPS ? opt_steps_of(o->eval_steps, total) : per_epoch;
    int64_t n = o->eval_on_start + 1;                                    /* and after the last step */
    for (int64_t step = every; every > 0 && step < total; step += every) /* at other steps there is none */
        n += due_evaluation(o, p, &(struct moment){step, total, step % per_epoch == 0});
    return n;
}
