/* threads.h: whether the threads that a run needs can be had. OpenMP ends the process where one cannot be started, so
 * somebody has to ask before it is used. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include "base/err.h"

/* Starts `n` threads that are there at the same time, and ends them. SNUG_ERR_ENV says how many could be started. */
int threads_check(int n, struct snug_err *err);

#endif
