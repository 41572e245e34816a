/* typical.h: a micro-batch such as a run will see on the average, to try out how long one takes. */
#ifndef TRAIN_FORECAST_TYPICAL_H
#define TRAIN_FORECAST_TYPICAL_H

#include "data/batch.h"
#include "model/model.h"

/* Lengths of rows: their mean, and the mean of their squares over the square of their mean (1: all are equal). */
struct typical_lengths {
    double mean, unevenness;
};
struct typical_lengths typical_lengths_of(const struct dataset *d);

struct typical {
    struct batch batch;
    int32_t *ints; /* own the batch's arrays */
    int64_t *rows;
    float *values;
};

/* Which share of all tokens is the sources'. */
double typical_share(const struct dataset *d);

/* B rows of random ids and labels, together as long as B rows of `d` on the average, though not more than `most` tokens (T and S), and
 * as unequal in length: each is the middle one of a B-th of the rows sorted by length. `d` NULL: all are `length` tokens long. Of each
 * row, `share` are the source's. */
int typical_open(struct typical *t, const struct model_config *m, const struct dataset *d, int32_t length, double share,
                 int64_t B, struct dims most, struct snug_err *err);
void typical_close(struct typical *t);

#endif
