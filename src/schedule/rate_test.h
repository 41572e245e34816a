/* rate_test.h: the learning-rate range test (Smith 2015, arXiv 1506.01186), as fastai's lr_find does it: the rate grows from step to
 * step by the same factor, and the loss tells which rates teach something. */
#ifndef SCHEDULE_RATE_TEST_H
#define SCHEDULE_RATE_TEST_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RATE_TEST_STEPS = 100,
    RATE_TEST_BEGIN = 10, /* steps at either end that no rate is suggested from: the mean is young, */
    RATE_TEST_END = 5     /* and the run may be on its way out */
};

struct rate_test {
    double rate[RATE_TEST_STEPS], loss[RATE_TEST_STEPS];
    double smoothed[RATE_TEST_STEPS]; /* running means of the loss, older steps counting less */
    int n;                            /* steps with a finite loss */
    double sum, lowest;               /* of the running mean, before its correction; of `smoothed` */
    bool diverged;                    /* the last loss was not finite, or the mean is over 4 times its lowest */
};

/* Of step s, from 0: 1e-8 to 1. */
double rate_test_rate(int64_t s);

/* The loss of step t->n. */
void rate_test_add(struct rate_test *t, double loss);

/* The step whose rate is suggested, by fastai's rule `valley`: the middle of the longest fall of the smoothed loss. A fall is made of
 * steps of which each has a lower loss than the one before; those between do not count. -1: there is none, or there are too few steps. */
int rate_test_suggest(const struct rate_test *t);

#endif
