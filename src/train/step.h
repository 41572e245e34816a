/* step.h: one optimizer step, and one forward pass, on a run. */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

#include "data/loader.h"
#include "run/run.h"

/* Host buffers for the inputs that are not in a batch as the program wants them. */
struct stepper {
    struct run *run;
    const struct model_config *model;
    uint64_t seed;
    int64_t max_T, max_B;
    int32_t *tokens;  /* (max_T) one token input, padded to the bucket */
    int32_t *coords;  /* (max_T,2) */
    int32_t *samples; /* (max_B,2) */
};

int stepper_open(struct stepper *s, struct run *run, const struct model_config *model, uint64_t seed,
                 struct snug_err *err);
void stepper_close(struct stepper *s);

/* What a step is computed with besides the data. */
struct step_inputs {
    int64_t step;   /* optimizer steps before this one, skipped ones too: keys the dropout masks */
    int64_t update; /* number of this update, from 1 */
    double learning_rate;
    int64_t n; /* samples or targets in the whole step */
};

struct step_result {
    double loss, grad_norm; /* the step's mean loss; the gradient's norm before clipping */
    bool finite;            /* of both; when false, no weight or state has changed unless updates are early */
    char where[200];        /* not finite: the first such tensor */
};

/* All micro-batches of the window and the update. */
int stepper_step(struct stepper *s, const struct window *w, const struct step_inputs *in, struct step_result *out,
                 struct snug_err *err);

/* The two parts of a step whose programs are separate: micro-batch i of the window, whose share of the loss is *loss;
 * then the update from the gradients that have been added up (out->loss stays 0). */
int stepper_micro(struct stepper *s, const struct window *w, int32_t i, const struct step_inputs *in, double *loss,
                  struct snug_err *err);
int stepper_update(struct stepper *s, const struct step_inputs *in, struct step_result *out, struct snug_err *err);

/* Program k (evaluation, or a micro-step that keeps its gradients) on one batch: *loss is the sum over its rows or
 * targets divided by in->n. The logits are an output of the program for `dims`. */
int stepper_forward(struct stepper *s, int k, const struct batch *b, const struct step_inputs *in, double *loss,
                    struct dims *dims, struct snug_err *err);

#endif
