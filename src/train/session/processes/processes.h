/* processes.h: a run of several processes (--num-processes), each a rank. All open the same session and go through the same steps. The
 * first one writes the output folder and prints; the others follow it, and say nothing. */
#ifndef TRAIN_SESSION_PROCESSES_PROCESSES_H
#define TRAIN_SESSION_PROCESSES_PROCESSES_H

#include "train/session/session.h"

/* Before anything is opened: they meet, and agree about options and versions. Does nothing for one process. */
int processes_join(struct session *s, struct snug_err *err);

/* Before anything is planned: they have devices of one kind, which know of each other. Does nothing for one process. */
int processes_connect(struct session *s, struct snug_err *err);

/* All make the choices of the first one's backend, such as the algorithms of products: sums must not depend on who made them. */
int processes_do_alike(struct session *s, struct snug_err *err);

/* Before the first step: that all have the same data, weights and states, and cut a step alike. `doc`: an object whose members must be
 * equal, but for the backend's own; NULL: there is none. */
int processes_compare(struct session *s, const json_t *doc, struct snug_err *err);

/* Behind a function that has ended with `code`: where that is a failure, the others are told. Gives the code for the caller; the text is
 * left empty where another process says it. */
int processes_end(struct session *s, int code, struct snug_err *err);

/* Whether all of them stop, after what they agreed about last; of one process, whether a signal came. */
bool processes_stop(const struct session *s);

/* From the first one to all, with whether anybody was asked to stop. */
int processes_share(struct session *s, void *data, size_t bytes, struct snug_err *err);

#endif
