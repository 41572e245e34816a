/* class_weights.h: --class-weights: how much a row of each class, or a label that is there, counts in the loss. */
#ifndef TRAIN_SESSION_CLASS_WEIGHTS_H
#define TRAIN_SESSION_CLASS_WEIGHTS_H

#include "train/session/session.h"

/* Fills s->class_weights once the labels are known; does nothing without the option. SNUG_ERR_USAGE where the loss has no
 * classes, SNUG_ERR_INPUT for a file that does not give each label a weight. */
int class_weights_open(struct session *s, struct snug_err *err);

/* scikit-learn's compute_class_weight("balanced"): rows / (classes * rows of that class). Counts are above 0. */
void class_weights_balance(const int64_t *counts, int32_t classes, int64_t rows, float *weights);

#endif
