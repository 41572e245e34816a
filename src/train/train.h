/* train.h: a training run, from the first step (or a checkpoint) to the finished folder. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "schedule/position.h"
#include "train/session/session.h"

struct train_events {
    void (*started)(void *ctx);                                 /* everything is there: the first step follows */
    void (*progress)(void *ctx, const struct snug_progress *p); /* after every step */
    void (*logged)(void *ctx, const char *json_line);           /* what went into log.jsonl, with the newline */
    void *ctx;
};

/* On an opened session: takes the output folder, loads weights or a checkpoint, trains, evaluates, saves, and writes
 * the Hugging Face folder. SNUG_STOPPED: a signal; the state is saved (or nothing was done yet). SNUG_ERR_NUMERIC: loss
 * or gradient not finite. */
int train_run(struct session *s, struct train_events events, struct snug_summary *out, struct snug_err *err);

/* Rows of an optimizer step: of all its micro-batches, on all ranks. */
int64_t train_step_rows(const struct options *o);

/* Rows of a batch of all ranks, below which --dataloader-drop-last leaves out what is left of an epoch; 0: nothing is left out. */
int64_t train_drop_below(const struct options *o);

/* Optimizer steps of the whole run and of an epoch, from options and data. */
void train_steps(const struct session *s, int64_t *total, int64_t *per_epoch);

/* The run's place in its data, and its steps, where the rows of a step changed at `from` (NULL: nowhere). */
struct position train_position(const struct session *s, const struct origin *from);
int64_t train_total(const struct session *s, const struct position *p);

/* Evaluations of a run of so many steps. */
int64_t train_evaluations(const struct session *s, int64_t total);

/* The order of the data, where steps have step_rows rows from the first on. */
int train_open_order(const struct session *s, int64_t step_rows, struct order *order, struct snug_err *err);

/* The data from step `first` on. */
int train_open_loader(struct session *s, const struct origin *from, int64_t first, int64_t total, struct order *order,
                      struct loader **loader, struct snug_err *err);

/* config.json of the result: the model's, with what this run decides (class, labels, problem type); mem_free's by the
 * caller. */
int train_config_text(const struct session *s, char **text, struct snug_err *err);

/* Writes the session's weights, config.json, training_args.json and tokenizer files by `io` into the existing folder
 * `dir`: a Hugging Face folder. `step`: which one's the weights are, for a model card; -1: none is written. */
int train_export(struct session *s, const struct io *io, const char *dir, int64_t step, struct snug_err *err);

#endif
