/* split.h: a dataset in two: rows to train on and rows that are held out for evaluation. */
#ifndef DATA_SPLIT_H
#define DATA_SPLIT_H

#include "data/dataset.h"

/* Moves the rows r with which[r] != 0 from *d to *out, or with out NULL away; both keep their order. *out gets the labels'
 * names and no fingerprint. What was counted while rows were read (truncated, empty, ignored) stays with *d. On failure
 * *d is unchanged and there is no *out. */
int dataset_move_rows(struct dataset *d, const uint8_t *which, struct dataset *out, struct snug_err *err);

/* Moves ceil(share * n_rows) rows to *held_out. Which ones depends on n_rows, share, seed and, for TASK_CLASS, on the
 * classes, as in scikit-learn's StratifiedShuffleSplit. Of class c with n_c rows floor(held_out * n_c / n_rows) are
 * taken. The classes with the largest remainders give one more each, until there are enough; of equal ones, the class
 * with the lower id. The last row of a class always stays. The fingerprints of both change. SNUG_ERR_INPUT when nothing
 * can be held out. */
int dataset_split(struct dataset *d, double share, uint64_t seed, struct dataset *held_out, struct snug_err *err);

#endif
