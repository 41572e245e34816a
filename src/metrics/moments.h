/* moments.h: how far predicted numbers are from the labels. */
#ifndef METRICS_MOMENTS_H
#define METRICS_MOMENTS_H

#include "metrics/metrics.h"
#include "metrics/ranks.h"

/* Of n rows of one output. `sorted` (n) and `ranks` (2, n) are scratch. */
struct output_moments output_moments(const double *predicted, const double *actual, int64_t n, struct ranked *sorted,
                                     double *ranks);

#endif
