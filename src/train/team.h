/* team.h: the ranks of a run. Each has the whole model, a thread or a process of its own, and its share of every step's micro-batches and
 * of every evaluation's batches. They add up their gradients before the update, so weights stay the same on all; states do, or each thread
 * has those of its own weights alone. Of threads, the first is the session's own run, on the caller's thread: what saves, generates and
 * logs knows no other, and finds what another has alone by the run's `ranks`. Of processes each has a session
 * (train/session/processes/processes.h). */
#ifndef TRAIN_TEAM_H
#define TRAIN_TEAM_H

#include "train/session/session.h"

/* Gives a session whose arena is there its ranks, with theirs: s->team. One rank has none. Processes have loaded weights and states
 * themselves, and have compared them. */
int team_open(struct session *s, struct snug_err *err);
/* What is loaded by now, the others get from the first: all that each of them keeps. */
int team_share(struct session *s, struct snug_err *err);
/* How checkpoints reach the memory of rank `rank`, counted from 1, where that has a device of its own; NULL: as that of the first. */
const struct ckpt_memory *team_memory(const struct session *s, int rank);
/* A writer that was given up goes on reading the arenas: they stay until the process ends. */
void team_leave_arenas(struct session *s);
void team_close(struct session *s); /* does nothing where there is none */

/* What each rank does with its own stepper, whose run says which rank it is (NULL: the only one). SNUG_STOPPED: all ranks give it. */
typedef int team_fn(void *ctx, struct stepper *stepper, struct snug_err *err);
/* By all ranks, the first on the caller's thread. What is said of a failure is of the rank that failed first. */
int team_do(struct session *s, team_fn *fn, void *ctx, struct snug_err *err);

/* A step of all ranks. The loss is that of all; not finite: `where` is the first rank's that knows it. */
int team_step(struct session *s, const struct window *w, const struct step_inputs *in, struct step_result *out,
              struct snug_err *err);

#endif
