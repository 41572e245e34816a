#include "train/schedule.h"

#include <math.h>

static double at_least_1(int64_t n)
{
    return n > 1 ? (double)n : 1;
}

double schedule_rate(const struct schedule *c, int64_t s)
{
    const double pi = 3.14159265358979323846;
    if (c->kind == SCHEDULE_CONSTANT)
        return c->learning_rate;
    if (s < c->warmup)
        return c->learning_rate * ((double)s / at_least_1(c->warmup));
    double rest = at_least_1(c->total - c->warmup), factor = 1;
    if (c->kind == SCHEDULE_LINEAR)
        factor = (double)(c->total - s) / rest;
    else if (c->kind == SCHEDULE_COSINE)
        factor = 0.5 * (1 + cos(2 * pi * c->cycles * ((double)(s - c->warmup) / rest)));
    return c->learning_rate * (factor > 0 ? factor : 0);
}
