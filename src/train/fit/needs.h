/* needs.h: the bytes that a run takes: its arena, and what lies beside it in the host's memory. */
#ifndef TRAIN_FIT_NEEDS_H
#define TRAIN_FIT_NEEDS_H

#include "train/session/session.h"

/* Sets checkpoint_bytes and metrics_bytes of the plan of r. r is the session's own run, or one compiled from the same
 * session with other choices. */
int needs_besides(const struct session *s, struct run *r, struct snug_err *err);

/* What takes the host's memory besides arenas there, with so many ranks on it: host_bytes of each, and needs_once_bytes. */
int64_t needs_host_bytes(const struct plan *p, int ranks);
/* What the first rank alone has: checkpoint_bytes and metrics_bytes. */
int64_t needs_once_bytes(const struct plan *p);

/* All bytes of the first rank in the memory where the arena is: on a GPU, the arena alone. */
int64_t needs_bytes(const struct backend *b, const struct plan *p);

#endif
