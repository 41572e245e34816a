/* evaluate.h: a pass over the held-out data: metrics, and the logits of every row for predictions. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "train/metrics.h"
#include "train/session.h"

/* Runs the evaluation program over session->data; labels are needed unless `m` is NULL. `logits` (n_rows, num_labels),
 * or NULL: where each row's are written (sequence tasks). SNUG_STOPPED when a signal came: what was counted is no
 * result. *seconds may be NULL. */
int evaluate(struct session *s, struct metrics *m, double *logits, double *seconds, struct snug_err *err);

/* Opens metrics of the kind that the session's task reports. */
int evaluate_metrics(const struct session *s, struct metrics *m, struct snug_err *err);

#endif
