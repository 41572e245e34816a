/* model_folder.h: the first part of session_open: what the model folder says. */
#ifndef TRAIN_SESSION_MODEL_FOLDER_H
#define TRAIN_SESSION_MODEL_FOLDER_H

#include "train/session/session.h"

/* Opens the folder (only headers of the weights are read), and sets model, tokenizer, max_length and the class names of the
 * model's own head. */
int model_folder_open(struct session *s, struct snug_err *err);

/* Whether the trained head could be replaced by one that fits the data. */
bool model_folder_head_may_go(const struct session *s);

#endif
