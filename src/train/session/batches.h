/* batches.h: the largest batches of a session, for which its programs are planned, and what cuts them. */
#ifndef TRAIN_SESSION_BATCHES_H
#define TRAIN_SESSION_BATCHES_H

#include "train/session/session.h"

/* Sets the sizes of the largest micro-batch and the largest batch of an evaluation, and opens s->eval. */
int batches_size(struct session *s, struct snug_err *err);

/* The largest micro-batch of B rows: of the training data, or without them of rows of the greatest length. */
int batches_train_max(const struct session *s, int64_t B, struct dims *max, struct snug_err *err);

/* Sets the choices' largest micro-batch and accumulation for steps of `times` micro-batches of `rows` rows, which
 * --max-tokens-per-batch cuts into more. */
int batches_cut(const struct session *s, int64_t rows, int64_t times, struct choices *choices, struct snug_err *err);

/* The most tokens of an evaluation batch of these rows; NULL: of any that the model takes. -1: no memory. */
int64_t batches_eval_tokens(const struct session *s, const struct dataset *d);

/* The sizes of its largest batches. */
struct dims batches_eval_dims(const struct session *s, const struct eval_loader *e);

/* A loader of evaluation batches over `d`, whose sizes are within s->eval_most. */
int batches_open_eval(struct session *s, const struct dataset *d, struct eval_loader **out, struct snug_err *err);

/* For masked language models: which tokens may be hidden. Points into the session. */
struct masking batches_masking(struct session *s);

/* Whether --max-tokens-per-batch cuts some micro-batch of B rows: a step has then about s->choices.accumulation of them. */
bool batches_cut_by_tokens(const struct session *s, int64_t B);

#endif
