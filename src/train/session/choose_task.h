/* choose_task.h: what a session's model is trained for, from --task, config.json, the options and the labels in the data. */
#ifndef TRAIN_SESSION_CHOOSE_TASK_H
#define TRAIN_SESSION_CHOOSE_TASK_H

#include "train/session/session.h"

/* Sets the task and the problem of s->model, s->look and s->head_is_new. Without --task, data with labels are for
 * sequence classification, whatever head the folder has; one note says so, and another says where a column of labels
 * is not used. SNUG_ERR_USAGE for a task that the model does not have, for options without effect on it, and where
 * eval or predict would have to use a head that was never trained. */
int choose_task(struct session *s, struct snug_err *err);

/* The folder's trained head is not used: --ignore-mismatched-sizes. */
void choose_new_head(struct session *s);

/* The data that decide: those that are learned from, else those to evaluate or predict. NULL: none are given. */
const char *deciding_path(const struct options *o);

/* The columns and the label to leave out that the options name, for dataset_open and dataset_look. */
void choose_columns(const struct options *o, struct dataset_options *p);

#endif
