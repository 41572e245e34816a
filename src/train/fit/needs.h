/* needs.h: the bytes that a run takes: its arena, and what lies beside it in the host's memory. */
#ifndef TRAIN_FIT_NEEDS_H
#define TRAIN_FIT_NEEDS_H

#include "train/session/session.h"

/* Sets results_bytes, checkpoint_bytes and metrics_bytes of the plan of r. r is the session's own run, or one compiled from the same
 * session with other choices. */
int needs_besides(const struct session *s, struct run *r, struct snug_err *err);

/* What takes the host's memory where arenas lie on devices, with so many ranks on it: what is offloaded and what is on its way, of
 * each, and needs_once_bytes. */
int64_t needs_host_bytes(const struct plan *p, int ranks);
int needs_ranks(const struct session *s); /* how many ranks take memory of this host */
/* What the first rank alone has: checkpoint_bytes and metrics_bytes. */
int64_t needs_once_bytes(const struct plan *p);

/* What a budget counts: all bytes of the first rank in the memory where the arena is. On a GPU that is the arena alone; in the host's
 * memory results, some KiB that are copied nowhere, are left out, as the rest of the program is. */
int64_t needs_bytes(const struct backend *b, const struct plan *p);

#endif
