/* datasets.h: the data of a session, and the head of the model that fits them. */
#ifndef TRAIN_SESSION_DATASETS_H
#define TRAIN_SESSION_DATASETS_H

#include "train/session/session.h"

/* Opens what the options name: s->train, s->data or s->stream. The model's head follows the training data where it is
 * new; else they must fit it. */
int datasets_open(struct session *s, struct snug_err *err);

/* How the session reads a data file; `labels` may be NULL. */
struct dataset_options datasets_options(struct session *s, struct opt_paths paths, const struct label_map *labels);

/* Whether the model's tables have rows for all token ids and types of the data; `path` is named where they have not. */
int datasets_check_ids(const struct model_config *m, const struct dataset *d, const char *path, struct snug_err *err);

#endif
