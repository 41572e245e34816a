/* race.h: how long algorithms take. Each is timed in the very form it will run in, as nodes of a CUDA graph. */
#ifndef CUDA_PRODUCTS_RACE_H
#define CUDA_PRODUCTS_RACE_H

#include "cuda/products/tuner.h"

enum { FINALISTS = 5 };

/* What is timed: an algorithm, or the whole node as the launcher runs it. */
struct subject {
    const struct cuda_product *product; /* NULL: the node */
    const struct problem *problem;
    const cublasLtMatmulHeuristicResult_t *candidate;
};

/* Microseconds of one replay; INFINITY where it does not run after all. */
int race_once(struct tuner *t, struct operands *o, const struct subject *u, double *us);

/* Which are to race by their times of one replay: the heuristic's first, if that runs, and the fastest others, in `best`. Returns
 * how many. */
int race_finalists(const double *us, int n, int best[FINALISTS + 1]);

/* Microseconds of n subjects that take turns, n <= FINALISTS + 1: of each the median; of those with many operations then the
 * best once more, for as long as the chip needs to come to the clock that its power allows. */
int race(struct tuner *t, struct operands *o, const struct subject *subjects, int n, double *us);

#endif
