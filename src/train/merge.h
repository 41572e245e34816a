/* merge.h: an adapter added to its model for good: W + (alpha / r) B A for each layer that has one. */
#ifndef TRAIN_MERGE_H
#define TRAIN_MERGE_H

#include "train/session/session.h"

struct merge_report {
    size_t merged, replaced; /* weights that an adapter was added to, and those that the adapter has in full */
    enum dtype dtype;        /* of the base's weights */
    double largest_error;    /* of a merged weight by rounding to that type */
};

/* Writes a Hugging Face folder into --output-dir, with the weights of --model in their types and those of --adapter added. One
 * tensor is in memory at a time. */
int train_merge(const struct io *io, const struct options *o, struct session_events events, struct merge_report *report,
                struct snug_err *err);

#endif
