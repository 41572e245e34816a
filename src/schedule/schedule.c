#include "schedule/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static double at_least_1(int64_t n)
{
    return n > 1 ? (double)n : 1;
}

/* How far behind the warm-up update s is, 1 being the last one's end. */
static double progress(const struct schedule *c, int64_t s)
{
    return (double)(s - c->warmup) / at_least_1(c->total - c->warmup);
}

static double waves(double cycles, double q)
{
    return 0.5 * (1 + cos(pi * cycles * 2 * q));
}

static double raised(double factor, double least)
{
    return factor * (1 - least) + least;
}

/* ---- Shares of the highest rate, for the s updates that were done. ---- */

static double rise_linear(const struct schedule *c, int64_t s)
{
    return (double)s / at_least_1(c->warmup);
}

static double rise_from_least(const struct schedule *c, int64_t s)
{
    if (c->begin < 0)
        return (double)(s + 1) / at_least_1(c->warmup);
    return c->begin + (1 - c->begin) * (double)s / at_least_1(c->warmup - 1);
}

static double rise_typed(const struct schedule *c, int64_t s)
{
    double x = rise_linear(c, s);
    if (c->warmup_type == OPT_RAMP_COSINE)
        x = 0.5 * (1 - cos(pi * x));
    else if (c->warmup_type == OPT_RAMP_1_SQRT)
        x = 1 - sqrt(1 - x);
    return raised(x, c->least);
}

static double stay(const struct schedule *c, int64_t s)
{
    (void)c;
    (void)s;
    return 1;
}

static double fall_linear(const struct schedule *c, int64_t s)
{
    return (double)(c->total - s) / at_least_1(c->total - c->warmup);
}

static double fall_cosine(const struct schedule *c, int64_t s)
{
    return raised(waves(c->cycles, progress(c, s)), c->least);
}

/* One update further than cosine_with_min_lr: its warm-up does not begin at 0 either. */
static double fall_cosine_ahead(const struct schedule *c, int64_t s)
{
    return fall_cosine(c, s + 1);
}

static double fall_restarting(const struct schedule *c, int64_t s)
{
    double q = progress(c, s);
    return q >= 1 ? 0 : 0.5 * (1 + cos(pi * fmod(c->cycles * q, 1)));
}

static double fall_polynomial(const struct schedule *c, int64_t s)
{
    double rest = s > c->total ? 0 : pow(1 - progress(c, s), c->power);
    return (c->end + (c->learning_rate - c->end) * rest) / c->learning_rate;
}

static double fall_inverse_sqrt(const struct schedule *c, int64_t s)
{
    return 1 / sqrt(((double)(s - c->warmup) + c->timescale) / c->timescale);
}

static double fall_after_stable(const struct schedule *c, int64_t s)
{
    int64_t into = s - c->warmup - c->stable;
    if (into < 0)
        return 1;
    if (into >= c->decay)
        return c->least;
    double x = (double)into / at_least_1(c->decay);
    double left = c->decay_type == OPT_RAMP_COSINE   ? waves(c->cycles, x)
                  : c->decay_type == OPT_RAMP_1_SQRT ? 1 - sqrt(x)
                                                     : 1 - x;
    return raised(left, c->least);
}

/* In warm-up and behind it. */
static const struct {
    double (*rise)(const struct schedule *c, int64_t s), (*fall)(const struct schedule *c, int64_t s);
} rows[] = {[OPT_SCHEDULE_LINEAR] = {rise_linear, fall_linear},
            [OPT_SCHEDULE_COSINE] = {rise_linear, fall_cosine},
            [OPT_SCHEDULE_COSINE_WITH_RESTARTS] = {rise_linear, fall_restarting},
            [OPT_SCHEDULE_POLYNOMIAL] = {rise_linear, fall_polynomial},
            [OPT_SCHEDULE_CONSTANT] = {stay, stay},
            [OPT_SCHEDULE_CONSTANT_WITH_WARMUP] = {rise_linear, stay},
            [OPT_SCHEDULE_INVERSE_SQRT] = {rise_linear, fall_inverse_sqrt},
            [OPT_SCHEDULE_COSINE_WITH_MIN_LR] = {rise_linear, fall_cosine},
            [OPT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR] = {rise_from_least, fall_cosine_ahead},
            [OPT_SCHEDULE_WARMUP_STABLE_DECAY] = {rise_typed, fall_after_stable},
            [OPT_SCHEDULE_REDUCE_ON_PLATEAU] = {NULL, NULL},
            [OPT_SCHEDULE_GREEDY] = {NULL, NULL}};

bool schedule_follows_metric(const struct options *o)
{
    return !rows[o->lr_scheduler_type].fall;
}

double schedule_rate(const struct schedule *c, int64_t s)
{
    double share = (s < c->warmup ? rows[c->kind].rise : rows[c->kind].fall)(c, s);
    return c->learning_rate * (share > 0 ? share : 0);
}

/* ---- From options. ---- */

static double least_share(const struct options *o)
{
    if (o->lr_scheduler_type == OPT_SCHEDULE_WARMUP_STABLE_DECAY)
        return o->lr_scheduler_kwargs_min_lr_ratio;
    if (option_given(o, lr_scheduler_kwargs_min_lr_rate))
        return o->lr_scheduler_kwargs_min_lr_rate;
    return o->lr_scheduler_kwargs_min_lr > 0 ? o->lr_scheduler_kwargs_min_lr / o->learning_rate : 0;
}

struct schedule schedule_of(const struct options *o, int64_t total)
{
    int64_t warmup = opt_steps_of(o->warmup_steps, total), decay = o->lr_scheduler_kwargs_num_decay_steps;
    return (struct schedule){
        .kind = o->lr_scheduler_type,
        .learning_rate = o->learning_rate,
        .warmup = warmup,
        .total = total,
        .cycles = o->lr_scheduler_kwargs_num_cycles,
        .power = o->lr_scheduler_kwargs_power,
        .end = o->lr_scheduler_kwargs_lr_end,
        .least = least_share(o),
        .begin = option_given(o, lr_scheduler_kwargs_warmup_lr_rate) ? o->lr_scheduler_kwargs_warmup_lr_rate : -1,
        .timescale = o->lr_scheduler_kwargs_timescale ? (double)o->lr_scheduler_kwargs_timescale
                     : warmup                         ? (double)warmup
                                                      : 10000,
        .stable = option_given(o, lr_scheduler_kwargs_num_stable_steps) ? o->lr_scheduler_kwargs_num_stable_steps
                                                                        : total - warmup - decay,
        .decay = decay,
        .warmup_type = o->lr_scheduler_kwargs_warmup_type,
        .decay_type = o->lr_scheduler_kwargs_decay_type,
        .plateau = {.greatest = o->lr_scheduler_kwargs_mode == OPT_MODE_MAX,
                    .relative = o->lr_scheduler_kwargs_threshold_mode == OPT_THRESHOLD_REL,
                    .threshold = o->lr_scheduler_kwargs_threshold,
                    .patience = o->lr_scheduler_kwargs_patience,
                    .cooldown = o->lr_scheduler_kwargs_cooldown,
                    .warmup = o->lr_scheduler_kwargs_warmup,
                    .factor = o->lr_scheduler_kwargs_factor,
                    .least = o->lr_scheduler_kwargs_min_lr,
                    .most = o->lr_scheduler_kwargs_max_lr,
                    .eps = o->lr_scheduler_kwargs_eps,
                    .resets = o->lr_scheduler_kwargs_reset_start}};
}
