#include "schedule/average.h"

#include <math.h>

struct average_rule average_rule_of(const struct options *o, int64_t total)
{
    struct average_rule r = {.averages = optimizer_averages((enum optimizer)o->optim),
                             .power = o->optim_args_r,
                             .lr_power = o->optim_args_weight_lr_power};
    if (o->optim == OPTIM_SCHEDULE_FREE_RADAM)
        r.rectified = o->adam_beta2;
    else
        r.warmup = opt_steps_of(o->warmup_steps, total);
    return r;
}

/* RAdam's (Liu et al., arXiv 1908.03265): 0 while too few gradients are in the second moment. */
static double rectification(double beta2, double t)
{
    double power = pow(beta2, t), most = 2 / (1 - beta2) - 1, length = most - 2 * t * power / (1 - power);
    if (!(length > 4))
        return 0;
    return sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
}

struct average_step average_next(const struct average_rule *r, const struct average *now, double rate, int64_t t)
{
    struct average_step s = {.rate = rate};
    if (!r->averages)
        return s;
    s.rate *= t <= r->warmup ? (double)t / (double)r->warmup : 1;
    s.rate *= r->rectified > 0 ? rectification(r->rectified, (double)t) : 1;
    s.after.highest = fmax(s.rate, now->highest);
    double weight = pow((double)t, r->power) * pow(s.after.highest, r->lr_power);
    s.after.sum = now->sum + weight;
    s.share = s.after.sum > 0 ? weight / s.after.sum : 0;
    return s;
}
