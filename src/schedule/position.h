/* position.h: where in its data a run is after so many steps. Computed, not replayed: a step's place in an epoch follows
 * from the rows of a step, and, where a resumed run took another batch size, from the place at which it did. */
#ifndef SCHEDULE_POSITION_H
#define SCHEDULE_POSITION_H

#include <stdbool.h>
#include <stdint.h>

/* From optimizer step `step` on, at row `row` of epoch `epoch`, steps have the rows that they have now. All zero: always.
 * `order_rows`, or 0: the rows of a step before the first change, by which group_by_length made its order. */
struct origin {
    int64_t step, epoch, row, order_rows;
};

struct position {
    int64_t n_rows, step_rows;
    int64_t drop_below; /* an epoch leaves out its last rows that do not fill a batch of so many; 0: none */
    struct origin from;
};

int64_t position_rows_per_epoch(const struct position *p); /* that are taken; of whole epochs, as in the next */
int64_t position_steps_per_epoch(const struct position *p);
/* Steps of the whole run for so many epochs, which need not be whole. */
int64_t position_total(const struct position *p, double epochs);
/* The place of the next row after `step` steps; a row of n_rows is never given: that is row 0 of the next epoch. */
void position_of(const struct position *p, int64_t step, int64_t *epoch, int64_t *row);
double position_epochs(const struct position *p,
                       int64_t step); /* how many were done: 1.5 is the middle of the second */
bool position_ends_epoch(const struct position *p, int64_t step);

#endif
