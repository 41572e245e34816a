/* class_names.h: the names of a session's classes: from the model's config.json or the data, and into the result's
 * config.json. */
#ifndef TRAIN_SESSION_CLASS_NAMES_H
#define TRAIN_SESSION_CLASS_NAMES_H

#include "train/session/session.h"

/* The names that config.json gives the model's own head; none where that head, or names that say nothing, may go. */
int class_names_of_model(struct session *s, struct snug_err *err);

/* Those of the data, where the session has none. */
int class_names_of_data(struct session *s, const struct dataset *d, struct snug_err *err);

/* The name of class `id`, "LABEL_id" where there is none; `buf` has 32 bytes. */
const char *class_name(const struct session *s, int32_t id, char *buf);

/* Sets id2label and label2id. Not 0: no memory. */
int class_names_to_config(const struct session *s, json_t *config);

#endif
