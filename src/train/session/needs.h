/* needs.h: the bytes that a run takes, those beside its arena too. */
#ifndef TRAIN_SESSION_NEEDS_H
#define TRAIN_SESSION_NEEDS_H

#include "train/session/session.h"

/* Sets checkpoint_bytes and metrics_bytes of a plan for this session, whose run this is, or one that it could be. */
int needs_besides(const struct session *s, struct run *r, struct snug_err *err);

/* Those two. */
int64_t needs_host_bytes(const struct plan *p);

/* All bytes in the memory where the arena is. */
int64_t needs_bytes(const struct backend *b, const struct plan *p);

#endif
