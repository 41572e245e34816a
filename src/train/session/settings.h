/* settings.h: from the options to what a run is compiled with. */
#ifndef TRAIN_SESSION_SETTINGS_H
#define TRAIN_SESSION_SETTINGS_H

#include "train/session/session.h"

/* Without --head-chunk: rows whose logits are made at a time, of a model with so many words. */
enum { HEAD_CHUNK = 2048, HEAD_VOCABULARY = 4096 };

/* Before anything is opened: whether the backend that the options ask for is there. */
int settings_check_backend(const struct options *o, struct snug_err *err);

/* Of the run, or 1. */
int settings_ranks(const struct options *o);

/* That backend; backend_close in the end. */
int settings_backend(const struct options *o, int local, const struct backend **out, struct snug_err *err);

/* The precision that the options ask for. The reference computes everything in double; SNUG_ERR_USAGE where another
 * backend does not know it. */
int settings_precision(const struct options *o, const struct backend *b, struct precision *out, struct snug_err *err);

/* The optimizer that the options describe, with states in the backend's wide type. */
struct update settings_update(const struct options *o, const struct backend *b);

/* Which weights are kept in 4 bits, and how. */
struct quantization settings_quantization(const struct options *o);

/* What a plan begins with, before room is short; the micro-batch is not known yet (batches_train_max). */
struct choices settings_choices(const struct options *o, const struct backend *b, const struct model_config *model);

/* All of s->compile and s->choices but the sizes of batches, for the model, the data and the backend of the session. */
int settings_set(struct session *s, struct snug_err *err);

#endif
