/* distant.h: states and weights that another process has alone (--zero-stage), for checkpoints, hashes and the result, which the first
 * process makes. It asks for one after the other, and all others wait to be asked. A value lies at the same place of everybody's arena. */
#ifndef TRAIN_SESSION_PROCESSES_DISTANT_H
#define TRAIN_SESSION_PROCESSES_DISTANT_H

#include "train/session/session.h"

/* Of a session that has several processes. */
int distant_open(struct session *s, struct snug_err *err);
void distant_close(struct session *s);

/* Whether there is such a state, or such a weight. */
bool distant_are(const struct session *s, bool only_weights);

/* How checkpoints reach what rank `rank`, counted from 1, has alone: getting asks that process, putting does nothing, since it reads for
 * itself. NULL: it is here. */
const struct ckpt_memory *distant_memory(const struct session *s, int rank);

/* As run_read, of what lies in other processes, too. */
int distant_read(const struct session *s, const struct run *r, const struct run_value *v, void *to, enum dtype type,
                 struct snug_err *err);

/* What the first process asks for, until it asks for no more; and that it does not. Both do nothing where there is nothing of the kind. */
int distant_give(const struct session *s, bool only_weights, struct snug_err *err);
int distant_end(const struct session *s, bool only_weights, struct snug_err *err);

#endif
