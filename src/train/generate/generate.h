/* generate.h: prompts go on, token by token. */
#ifndef TRAIN_GENERATE_GENERATE_H
#define TRAIN_GENERATE_GENERATE_H

#include "snug/snug.h"
#include "train/session/session.h"

/* On a session that is loaded. `piece` is called as snug_generate says. */
int generate_run(struct session *s, int (*piece)(void *ctx, const struct snug_piece *p), void *ctx,
                 struct snug_err *err);

/* A line about the memory that generation takes. */
void generate_describe(const struct session *s);

#endif
