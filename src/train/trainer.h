/* trainer.h: one run, for the files that make it: train.c (the loop), reports.c (what is logged and evaluated),
 * samples.c (answers to rows of the evaluation data), saving.c. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "live/live.h"
#include "metrics/metrics.h"
#include "output/log.h"
#include "output/tensorboard.h"
#include "schedule/due.h"
#include "schedule/schedule.h"
#include "train/generate/rows.h"
#include "train/state.h"
#include "train/team.h"
#include "train/train.h"

struct trainer;

/* What the loop is gone through for: a model, or what rates it can be trained with (train/rate_search.h). */
struct purpose {
    int (*start)(struct trainer *t, struct snug_err *err); /* the data and the ranks are open; before the first step */
    double (*rate)(const struct trainer *t);               /* of the step that follows */
    /* A loss or norm is not finite, and its step changed nothing. SNUG_OK: go on. */
    int (*not_finite)(struct trainer *t, const struct step_result *r, struct snug_err *err);
    /* May end the run, by t->total. */
    int (*after_step)(struct trainer *t, double loss, bool ends_epoch, struct snug_err *err);
    int (*stop)(struct trainer *t, struct snug_err *err); /* a signal: gives SNUG_STOPPED or a failure */
    int (*finish)(struct trainer *t, struct snug_summary *out, struct snug_err *err); /* behind the last step */
};

struct trainer {
    const struct purpose *purpose;
    struct rate_test *rates; /* of a rate search, else NULL */
    struct session *s;
    const struct options *o;
    struct train_events events;
    struct train_state state;
    struct schedule schedule;
    struct average_rule averaging;
    int64_t total; /* steps of the whole run */
    struct position position;
    struct order order;
    struct loader *loader;
    struct ckpt_saver *saver;
    struct run_log log;
    struct tensorboard board;
    struct metrics metrics;
    double started, trained_since; /* seconds on the monotonic clock; the second without loading */
    double evaluating;             /* seconds spent in evaluations */
    double data_wait; /* seconds from asking for a step's data until they were on their way to the device */
    int64_t first_step, first_samples, first_tokens;
    int64_t saved_step; /* whose whole state is in the output folder, or being written; -1: none */
    double grad_norm, learning_rate;
    double expert_shares[2];                  /* as a step's result has them */
    int64_t metrics_step;                     /* the step whose evaluation is in `metrics`; -1: none */
    struct op_times op_times;                 /* of the first steps but one */
    bool lacks_environment, lacks_evaluation; /* the user knows that the page does not show them */
    double reported, report_seconds;          /* when report.html was written last, and how long that took */
    struct live *live;                        /* the page in the browser; NULL: none is wanted */
    int64_t memory_bytes;                     /* in use when somebody looked last */
    double looked;                            /* when that was */
};

/* ---- train.c ---- */

struct moment trainer_moment(const struct trainer *t, bool ends_epoch);

/* ---- reports.c ---- */

int64_t trainer_memory(const struct trainer *t);
double trainer_seconds(const struct trainer *t); /* since the first step, without evaluations; above 0 */
int trainer_open_board(struct trainer *t, struct snug_err *err); /* the event file, if one is wanted */
void trainer_log_summary(struct trainer *t, const struct snug_summary *s);
int trainer_log_step(struct trainer *t, struct snug_err *err);
int trainer_follow_log(struct trainer *t, struct snug_err *err); /* the same of a process that follows */
/* `value`: of the metric for the best model. */
int trainer_evaluate(struct trainer *t, double *value, struct snug_err *err);
/* report.html, unless it is refused; at an evaluation only if that costs next to nothing of the run's time. */
void trainer_report(struct trainer *t, bool last);
void trainer_progress(struct trainer *t, double loss);
/* An object of log.jsonl: opened with the step and the epoch; closed, written and shown. */
void trainer_begin_line(const struct trainer *t, struct str *line);
void trainer_end_line(struct trainer *t, struct str *line);

/* ---- samples.c ---- */

/* Writes a line of the log for each row that --eval-samples shows. */
struct generated_rows trainer_samples(struct trainer *t);
/* --eval-samples: what the model answers now, unless the evaluation has told it. SNUG_STOPPED when a signal came. */
int trainer_answer_samples(struct trainer *t, struct snug_err *err);

/* ---- saving.c ---- */

bool trainer_save_due(const struct trainer *t, bool ends_epoch);
bool trainer_has_step(const struct trainer *t, int64_t step);
int trainer_save(struct trainer *t, bool stopping, struct snug_err *err);
int trainer_stop(struct trainer *t, struct snug_err *err);
void trainer_keep_best(struct trainer *t, double value, bool ends_epoch);
/* The step whose weights are the result: the last, or the best. */
int64_t trainer_result_step(const struct trainer *t);
int trainer_load_best(struct trainer *t, struct snug_err *err);
int trainer_device_lost(struct trainer *t, int code, struct snug_err *err);

#endif
