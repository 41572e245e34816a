/* generate.h: text that a language model writes behind prompts, token by token. */
#ifndef TRAIN_GENERATE_GENERATE_H
#define TRAIN_GENERATE_GENERATE_H

#include "snug/snug.h"
#include "train/session/session.h"

/* Answers all prompts of a session that is loaded; `piece` and what is returned are as snug_generate (snug.h) has them. */
int generate_run(struct session *s, int (*piece)(void *ctx, const struct snug_piece *p), void *ctx,
                 struct snug_err *err);

/* Tells the session's caller, in a note, the bytes of the cache of keys and values. */
void generate_describe(const struct session *s);

#endif
