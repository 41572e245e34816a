/* eval_pass.h: the evaluation program over all batches of a loader, by all ranks of the session. Each computes its share of the batches;
 * the first takes all results, in the order of batches. So what is made of them does not depend on the number of ranks. */
#ifndef TRAIN_EVAL_PASS_H
#define TRAIN_EVAL_PASS_H

#include "train/session/session.h"

/* What the program has made of a batch; valid during the call that gets it. */
struct eval_result {
    const struct batch *batch;
    const void *output; /* predictions or logits, as in `shape` */
    struct run_value shape;
    double loss; /* the sum over its rows or targets */
};
typedef int eval_take_fn(void *ctx, const struct eval_result *r, struct snug_err *err);

/* The value that the program makes of batches of these sizes: predictions of a language model, else logits. */
struct run_value eval_output(const struct run *r, const struct model_config *model, struct dims dims);

/* Memory of alloc_host that a rank takes while it evaluates batches of at most these sizes. */
int64_t eval_pass_bytes(const struct run *r, const struct model_config *model, struct dims most);

/* SNUG_STOPPED when a signal came: what was taken is no result. */
int eval_pass(struct session *s, struct eval_loader *loader, eval_take_fn *fn, void *ctx, struct snug_err *err);

#endif
