/* state.h: what a checkpoint of a training run holds besides tensors, and getting it back. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "checkpoint/checkpoint.h"
#include "schedule/average.h"
#include "schedule/plateau.h"
#include "schedule/position.h"
#include "schedule/stopping.h"
#include "train/session/session.h"

/* Everything that changes from step to step, but for weights and optimizer states. */
struct train_state {
    int64_t step;    /* optimizer steps done, skipped ones too */
    int64_t updates; /* steps whose update was made */
    int64_t samples, tokens;
    double loss_sum; /* of the steps since the last log line */
    int64_t loss_steps;
    double best;            /* of the metric for the best model */
    int64_t best_step;      /* -1: none yet */
    int64_t evaluated_step; /* of the last evaluation that was finished, -1: none yet */
    int64_t log_bytes;
    struct origin origin; /* where the rows of a step changed; all zero: nowhere */
    char run_name[80];    /* of the folder of event files below OUT/runs; "": there is none */
    struct stopping stopping;
    struct plateau plateau; /* only where the schedule follows the metric */
    struct average average; /* only where the optimizer averages weights */
};

/* The document of a checkpoint. "run" is the state; "model" (config.json), "options", "backend", and the hashes
 * "tokenizer" and "data" are what a resumed run must agree on; "about" is not compared. only_weights: there are no
 * optimizer states beside it. */
int state_to_json(const struct session *s, const struct train_state *t, bool only_weights, json_t **out,
                  struct snug_err *err);
int state_from_json(const json_t *doc, struct train_state *t, struct snug_err *err);

/* Weights (with adapters those that are trained) and, unless only_weights, optimizer states of the session's run, or of one that is
 * planned for it, with their memory in the arena and how it is reached. Where another process has some (distant_are), the others wait for
 * whoever reads them, until distant_end. mem_free'd by the caller. */
int state_tensors(const struct session *s, const struct run *r, bool only_weights, struct ckpt_tensor **tensors,
                  size_t *n, struct snug_err *err);

/* Whether saves are written from where tensors lie, while training waits: where states are on disk, there is no memory for a copy. Not where
 * another process has some, which does not wait. */
bool state_saves_in_place(const struct session *s, const struct run *r);

/* Before a run is compiled: where it will be resumed, the backend does as the checkpoint recorded, and s->rows_moved and
 * s->has_checkpoint are set. A checkpoint that cannot be had is passed over; state_resume says why. */
int state_take_before(struct session *s, struct snug_err *err);

/* Finds a checkpoint as --resume-from-checkpoint says, compares it with this run and loads it; *t stays where CKPT_AUTO
 * finds none (a fresh start), and has no best where that was chosen by another metric. One of more steps than the run has is
 * neither compared nor loaded, and only *t tells: that run went further. A checkpoint without optimizer states is
 * refused unless the weights will do. */
int state_resume(struct session *s, const char *from, int flags, bool weights_will_do, struct ckpt_notes notes,
                 struct train_state *t, struct snug_err *err);

#endif
