#include "schedule/plateau.h"

#include <math.h>

void plateau_start(struct plateau *p, const struct schedule *c)
{
    *p = (struct plateau){
        .rate = c->learning_rate, .best = c->plateau.greatest ? -INFINITY : INFINITY, .resets = c->plateau.resets};
}

/* A metric that is not a number is never better. */
static bool is_better(const struct plateau_rule *r, double metric, double best)
{
    if (r->greatest)
        return metric > (r->relative ? best * (1 + r->threshold) : best + r->threshold);
    return metric < (r->relative ? best * (1 - r->threshold) : best - r->threshold);
}

static void fall(struct plateau *p, const struct plateau_rule *r)
{
    double lower = fmax(p->rate * r->factor, r->least);
    if (p->rate - lower > r->eps)
        p->rate = lower;
}

static void rise(struct plateau *p, const struct plateau_rule *r)
{
    double higher = fmin(p->rate / r->factor, r->most);
    if (higher - p->rate > r->eps)
        p->rate = higher;
    p->resets = r->resets;
}

static void count(struct plateau *p, const struct plateau_rule *r, double metric)
{
    bool better = is_better(r, metric, p->best);
    if (better)
        p->best = metric;
    p->bad = better ? 0 : p->bad + 1;
    p->good = better ? p->good + 1 : 0;
}

/* In the cooldown the best is looked for, but no evaluation counts as bad. */
static void reduce_on_plateau(struct plateau *p, const struct plateau_rule *r, double metric)
{
    count(p, r, metric);
    if (p->cooldown > 0) {
        p->cooldown--;
        p->bad = 0;
    }
    if (p->bad > r->patience) {
        fall(p, r);
        p->cooldown = r->cooldown;
        p->bad = 0;
    }
}

static void be_greedy(struct plateau *p, const struct schedule *c, double metric)
{
    const struct plateau_rule *r = &c->plateau;
    int64_t *waiting = p->cooldown > 0 ? &p->cooldown : p->warmup > 0 ? &p->warmup : NULL;
    if (waiting) {
        --*waiting;
        p->bad = p->good = 0;
        return;
    }
    count(p, r, metric);
    if (p->good > r->patience) {
        rise(p, r);
        p->warmup = r->warmup;
        p->good = 0;
    } else if (p->bad > r->patience) {
        fall(p, r);
        if (p->rate <= r->least && --p->resets <= 0)
            plateau_start(p, c);
        p->cooldown = r->cooldown;
        p->bad = 0;
    }
}

void plateau_step(struct plateau *p, const struct schedule *c, double metric)
{
    if (c->kind == OPT_SCHEDULE_REDUCE_ON_PLATEAU)
        reduce_on_plateau(p, &c->plateau, metric);
    else if (c->kind == OPT_SCHEDULE_GREEDY)
        be_greedy(p, c, metric);
}
