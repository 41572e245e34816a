/* step.h: one optimizer step, and one forward pass, on a run. */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

#include "data/loader.h"
#include "run/run.h"

struct stepper {
    struct run *run;
    const struct model_config *model;
    uint64_t seed;
    const float *class_weights; /* those that the programs were compiled with; NULL: none */
    bool exchanges;             /* ranks exchange something in each micro-step */
    double *results;            /* memory of the backend's alloc_host: scalars on their way from the device */
};

int64_t stepper_results_bytes(void); /* of `results` */
int stepper_open(struct stepper *s, struct run *run, const struct model_config *model, uint64_t seed,
                 struct snug_err *err);
void stepper_close(struct stepper *s);

/* What a step is computed with besides the data. */
struct step_inputs {
    int64_t step;   /* optimizer steps before this one, skipped ones too: keys the dropout masks */
    int64_t update; /* number of this update, from 1 */
    double learning_rate;
    double average; /* the share of this update in the average of all: of schedule-free optimizers */
    double n;       /* what the loss of the whole step is divided by: stepper_targets */
    /* The loss is scaled (fp16). A norm that is not finite is then how the scale is found, and no reason to look where it
     * came from. */
    bool scaled;
};

/* Samples or targets of the window; with weights of classes the sum of those of its rows, as torch divides. */
double stepper_targets(const struct stepper *s, const struct window *w);

struct step_result {
    double loss, grad_norm; /* the step's mean loss; the gradient's norm before clipping */
    /* Of a mixture of experts: the shares that the busiest expert and the idlest one, of all layers, have of what the last micro-batch's
     * tokens chose. Else 0. */
    double expert_shares[2];
    bool finite;     /* of both; when the norm is not, no weight or state has changed unless updates are early */
    char where[200]; /* not finite: the first such tensor; empty where it was not looked for */
    double sent;     /* seconds_now() when the first micro-batch was on its way to the device */
};

/* All micro-batches of the window, or this rank's, and the update. */
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

/* The same in two parts: one more batch may be on its way meanwhile, in the other of the BACKEND_FLIGHTS. `output` (may be
 * NULL): of the program, to memory of the backend's alloc_host, where it is after the second part; its `flight` is ignored. */
int stepper_forward_begin(struct stepper *s, int k, const struct batch *b, const struct step_inputs *in,
                          const struct run_fetch *output, int flight, struct snug_err *err);
int stepper_forward_end(struct stepper *s, int flight, double *loss, struct snug_err *err);

/* For a rank that has nothing to compute, but executes a program with the others. */
const struct batch *batch_of_no_rows(void);

/* The sizes of the programs that run on a batch. */
struct dims batch_dims(const struct backend *backend, const struct batch *b);

/* One forward pass of generation, program k: logits (B,V) of each sequence's last row. b->past says what is in the cache. */
int stepper_logits(struct stepper *s, int k, const struct batch *b, float *logits, struct snug_err *err);

#endif
