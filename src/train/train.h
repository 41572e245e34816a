/* train.h: a training run, from the first step (or a checkpoint) to the finished folder. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "train/session.h"

/* Where a run stands; rates are of the whole run so far in this process. */
struct progress {
    int64_t step, steps;
    double epoch, epochs;
    double loss, grad_norm, learning_rate;
    double seconds, seconds_left;
    double samples_per_second, tokens_per_second; /* tokens are real ones: there is no padding */
    int64_t memory_bytes;                         /* resident */
};

struct train_events {
    void (*progress)(void *ctx, const struct progress *p); /* after every step */
    void (*logged)(void *ctx, const char *json_line);      /* what went into log.jsonl, with the newline */
    void *ctx;
};

/* The guide's summary. */
struct train_summary {
    int64_t steps; /* of this process */
    int64_t first_step;
    double seconds, samples_per_second, tokens_per_second;
    int64_t memory_bytes, arena_bytes;
    double first_step_seconds; /* from the call to the end of the first step */
    bool complete_before;      /* there was nothing left to do */
};

/* On an opened session: takes the output folder, loads weights or a checkpoint, trains, evaluates, saves, and writes
 * the Hugging Face folder. SNUG_STOPPED: a signal; the state is saved (or nothing was done yet). SNUG_ERR_NUMERIC: loss
 * or gradient not finite. */
int train_run(struct session *s, struct train_events events, struct train_summary *out, struct snug_err *err);

/* Optimizer steps of the whole run and of an epoch, from options and data. */
void train_steps(const struct session *s, int64_t *total, int64_t *per_epoch);

/* Writes the session's weights, config.json and tokenizer files into the existing folder `dir`: a Hugging Face folder.
 */
int train_export(struct session *s, const char *dir, struct snug_err *err);

#endif
