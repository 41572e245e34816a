/* processes.h: ranks that are processes, on one machine or several. They meet over TCP at the first one, which listens, and are then
 * connected each with each. A process that dies, hangs or says that it fails is noticed by all others (ranks/watch.h). */
#ifndef RANKS_PROCESSES_H
#define RANKS_PROCESSES_H

#include "base/stop.h"
#include "ranks/ranks.h"

struct processes {
    int me, n;
    const char *host; /* of the first one, as the others find it */
    int port;
    double wait;       /* seconds until all must be here */
    double silence;    /* seconds without a sign of life after which a process counts as hung, at least 1 */
    const char *agree; /* lines "name: value": what all must be asked alike; the first line that differs is named */
    const struct stop_flag *stop; /* may be NULL */
};

/* SNUG_ERR_ENV: they have not met. SNUG_ERR_USAGE: they do not agree. SNUG_STOPPED. The text is empty where rank 0 has it. */
int processes_open(const struct processes *p, struct ranks **out, struct snug_err *err);

#endif
