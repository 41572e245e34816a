/* predict.h: what the session's weights make of each row of the data. */
#ifndef TRAIN_PREDICT_H
#define TRAIN_PREDICT_H

#include "train/session/session.h"

/* A row and its (num_labels) values: probabilities, or the numbers of a regression; NULL where session->row_text is its text. Another
 * result than SNUG_OK ends the prediction and is passed on. */
typedef int predict_fn(void *ctx, int64_t index, const double *values);

/* Calls `row` for each row, in their order: of session->stream block by block, else of session->data. */
int predict_run(struct session *s, predict_fn *row, void *ctx, struct snug_err *err);

#endif
