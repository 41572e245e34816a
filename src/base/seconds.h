/* seconds.h: the time, to tell how long something took: seconds on a clock that nobody sets. */
#ifndef BASE_SECONDS_H
#define BASE_SECONDS_H

#include <time.h>

static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* That processors have worked for this process, all threads together. */
static inline double seconds_worked(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
