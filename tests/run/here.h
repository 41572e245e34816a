/* here.h: a training run in the test's own process, through the library: it can be asked to stop after any step. */
#ifndef TESTS_RUN_HERE_H
#define TESTS_RUN_HERE_H

#include "command.h"
#include "snug/snug.h"

extern char notes[1 << 14]; /* what the last run said, a line each */

enum { AT_START = -1, NEVER = 0 };

/* Lists of --NAME, VALUE, … as ARGS makes them; one that may be NULL comes last. */
#define LISTS(...) ((const char *const *const[]){__VA_ARGS__, NULL})

/* The code of snug_open or snug_train. Asked to stop after step `stop_at`. */
int train_here(const char *const *const *lists, int64_t stop_at, struct snug_summary *summary, struct snug_err *err);

/* To the end; a failure is the test's. */
struct snug_summary train_to_the_end(const char *const *const *lists);

#endif
