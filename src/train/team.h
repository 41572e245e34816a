/* team.h: the ranks of a run. Each has the whole model, a thread of its own, and its share of every step's micro-batches. They add up their
 * gradients before the update, so weights and states stay the same on all. The first is the session's own run, on the caller's thread:
 * what evaluates, saves and generates knows no other. */
#ifndef TRAIN_TEAM_H
#define TRAIN_TEAM_H

#include "train/session/session.h"

struct team;

/* For a session whose weights and states are loaded, which the other ranks then have too. */
int team_open(struct session *s, struct team **out, struct snug_err *err);
void team_close(struct team *t); /* NULL: does nothing */

/* A step of all ranks. The loss is that of all; not finite: `where` is the first rank's that knows it. */
int team_step(struct team *t, const struct window *w, const struct step_inputs *in, struct step_result *out,
              struct snug_err *err);

#endif
