/* merge.h: an adapter added to its model for good: W + (alpha / r) B A for each layer that has one. */
#ifndef TRAIN_MERGE_H
#define TRAIN_MERGE_H

#include "train/session/session.h"

struct merge_report {
    size_t merged, replaced; /* weights that an adapter was added to, and those that the adapter has in full */
    enum dtype dtype;        /* of the base's weights */
    double largest_error;    /* of a merged weight by rounding to that type */
    double adapter_loss,
        merged_loss; /* on --data, of the model with its adapter and of the result; NaN without --data */
};

/* Writes a Hugging Face folder into --output-dir, with the weights of --model in their types and those of --adapter added. One
 * tensor is in memory at a time. With --data, losses are compared: that of the adapter is computed before anything is written. */
int train_merge(const struct io *io, const struct options *o, struct session_events events, struct merge_report *report,
                struct snug_err *err);

/* The loss on --data of the model folder `model` with `adapter` (NULL: none), as snug eval computes it. */
int merge_loss(const struct io *io, const struct options *o, const char *model, const char *adapter,
               struct session_events events, double *loss, struct snug_err *err);

#endif
