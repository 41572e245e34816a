/* evaluate.h: a pass over the held-out data: metrics, and the logits of every row for predictions. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "metrics/metrics.h"
#include "train/session.h"

/* Runs the evaluation program over session->data; labels are needed unless `m` is NULL, which is then reset before and
 * finished after. `logits` (n_rows, num_labels),
 * or NULL: where each row's are written (sequence tasks). SNUG_STOPPED when a signal came: what was counted is no
 * result. SNUG_ERR_NUMERIC where logits (of a language model, the loss) are not finite, with the row and the first tensor that
 * is not, unless --nan-policy skip. *seconds may be NULL. */
int evaluate(struct session *s, struct metrics *m, double *logits, double *seconds, struct snug_err *err);

/* What the metrics of the session's task are of; and opens them. */
struct metrics_setup evaluate_setup(const struct session *s);
int evaluate_metrics(const struct session *s, struct metrics *m, struct snug_err *err);

#endif
