/* watch.h: a thread by which processes know of each other that they are there. Each sends a sign of life to the first one, and that one to
 * all; a connection that ends, or is silent for too long, is a process that has left. Who leaves by itself says so, and why. */
#ifndef RANKS_WATCH_H
#define RANKS_WATCH_H

#include "ranks/ranks.h"

struct watch;

/* control: (n), a connection to each, of which only that of the first has one to the others, and they one to it; else -1. They
 * stay the caller's, and open until the watch ends. What the watch finds ranks_lose knows. */
int watch_open(struct ranks *all, int me, int n, const int *control, double silence, struct watch **out,
               struct snug_err *err);
/* Tells those that this one is connected with that `who` has left. */
void watch_tell(struct watch *w, int who, int code, const char *why);
/* Takes leave in peace, so that nobody takes the end of the connections for a failure. NULL: does nothing. */
void watch_close(struct watch *w);

#endif
