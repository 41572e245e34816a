/* metrics.h: what an evaluation reports, added up batch by batch from logits and labels.
 *     single label   accuracy, macro-F1 (mean over the classes that occur in labels or predictions, as scikit-learn's)
 *     multi-label    accuracy (all labels of a row right, at probability 1/2), macro-F1 over the labels
 *     regression     mean squared error, Pearson's correlation (one output)
 *     language model accuracy over the targets, perplexity */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "base/err.h"
#include "model/task.h"

#include <stdbool.h>
#include <stdint.h>

struct metrics {
    enum metrics_kind kind;
    int64_t classes;
    int64_t n;       /* rows, or targets that are not ignored */
    double loss_sum; /* of n terms */
    int64_t right;
    int64_t *true_positive, *predicted, *actual; /* (classes); not for METRICS_TOKENS and METRICS_REGRESSION */
    double sum_x, sum_y, sum_xx, sum_yy, sum_xy, squared_error; /* regression; x predicted, y label */
};

int metrics_open(struct metrics *m, enum metrics_kind kind, int64_t classes, struct snug_err *err);
void metrics_close(struct metrics *m);

/* Language models: what is predicted, and the targets; negative ones are left out. */
void metrics_add_tokens(struct metrics *m, const int32_t *predictions, const int32_t *targets, int64_t tokens);
/* `rows` rows of logits (rows, classes); labels: class ids (negative ones are left out), or values (rows, classes). */
void metrics_add_classes(struct metrics *m, const double *logits, const int32_t *labels, int64_t rows);
void metrics_add_values(struct metrics *m, const double *logits, const float *labels, int64_t rows);
void metrics_add_loss(struct metrics *m, double sum);

/* Calls `report` with each name and value: loss first. */
void metrics_report(const struct metrics *m, void (*report)(void *ctx, const char *name, double value), void *ctx);

int64_t metrics_argmax(const double *x, int64_t n); /* the first of the largest */

#endif
