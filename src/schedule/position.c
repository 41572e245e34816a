#include "schedule/position.h"

#include <math.h>

/* How many of n rows are taken. */
static int64_t taken(const struct position *p, int64_t n)
{
    return p->drop_below > 0 ? n - n % p->drop_below : n;
}

/* Steps that n rows make. */
static int64_t steps_of(const struct position *p, int64_t n)
{
    return (taken(p, n) + p->step_rows - 1) / p->step_rows;
}

int64_t position_rows_per_epoch(const struct position *p)
{
    return taken(p, p->n_rows);
}

int64_t position_steps_per_epoch(const struct position *p)
{
    return steps_of(p, p->n_rows);
}

/* Of the epoch in which the rows of a step changed; without a change, of the first. */
static int64_t steps_of_first(const struct position *p)
{
    return steps_of(p, p->n_rows - p->from.row);
}

int64_t position_total(const struct position *p, double epochs)
{
    double left = epochs - (double)p->from.epoch;
    if (!p->from.step)
        return (int64_t)ceil(epochs * (double)position_steps_per_epoch(p));
    if (left >= 1)
        return p->from.step + steps_of_first(p) + (int64_t)ceil((left - 1) * (double)position_steps_per_epoch(p));
    double rows = left * (double)(p->from.row + taken(p, p->n_rows - p->from.row)) - (double)p->from.row;
    return p->from.step + (rows > 0 ? (int64_t)ceil(rows / (double)p->step_rows) : 0);
}

void position_of(const struct position *p, int64_t step, int64_t *epoch, int64_t *row)
{
    int64_t done = step - p->from.step, first = steps_of_first(p), per_epoch = position_steps_per_epoch(p);
    if (done < first) {
        *epoch = p->from.epoch;
        *row = p->from.row + done * p->step_rows;
    } else {
        *epoch = p->from.epoch + 1 + (done - first) / per_epoch;
        *row = (done - first) % per_epoch * p->step_rows;
    }
}

double position_epochs(const struct position *p, int64_t step)
{
    int64_t done = step - p->from.step, first = steps_of_first(p), per_epoch = position_steps_per_epoch(p);
    if (!p->from.step)
        return (double)step / (double)per_epoch;
    if (done >= first)
        return (double)(p->from.epoch + 1) + (double)(done - first) / (double)per_epoch;
    double before = (double)p->from.row / (double)p->n_rows;
    return (double)p->from.epoch + before + (1 - before) * (double)done / (double)first;
}

bool position_ends_epoch(const struct position *p, int64_t step)
{
    int64_t done = step - p->from.step, first = steps_of_first(p);
    return done >= first && (done - first) % position_steps_per_epoch(p) == 0;
}
