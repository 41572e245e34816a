/* ranks.h: what depends on the order of numbers only. */
#ifndef METRICS_RANKS_H
#define METRICS_RANKS_H

#include <stdint.h>

/* The area under the ROC curve: the share of pairs of a positive and a negative row of which the positive one has the
 * greater score, equal scores count one half (Hanley and McNeil 1982). Counted in integers. Sorts `positives`. NaN where
 * one of the two is missing, or a score is NaN. */
double roc_auc(float *positives, int64_t n_positives, const float *negatives, int64_t n_negatives);

struct ranked {
    double value;
    int64_t at;
};
/* Ranks from 1, the mean of their ranks for equal values. `sorted` (n) is scratch. */
void midranks(const double *x, int64_t n, struct ranked *sorted, double *ranks);

#endif
