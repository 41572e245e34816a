/* rate_search.h: --lr-find, a run whose rate grows from step to step (schedule/rate_test.h). It leaves a picture and its numbers in
 * the output folder, and no model. */
#ifndef TRAIN_RATE_SEARCH_H
#define TRAIN_RATE_SEARCH_H

#include "options/options.h"

struct purpose; /* train/trainer.h */

extern const struct purpose rate_search;

/* What the options of the run that is meant become for the test: its steps, and nothing saved or evaluated. */
void rate_search_settle(struct options *o);

#endif
