/* facts.h: what a run left in its output folder, as a report shows it. */
#ifndef REPORT_FACTS_H
#define REPORT_FACTS_H

#include "format/json.h"

struct facts {
    char *dir;           /* as it was named */
    json_t *log;         /* the objects of log.jsonl, in order */
    json_t *evaluation;  /* last_evaluation.json; NULL where the log has not this evaluation */
    json_t *environment; /* environment.json; NULL where there is none */
    json_t *options;     /* those of training_args.json; an empty object where the run has not written it yet */
};

/* SNUG_ERR_INPUT where the folder has no log with a line in it. A line that is cut short is left out: a run may be writing it. */
int facts_read(const struct io *io, const char *dir, struct facts *f, struct snug_err *err);
void facts_free(struct facts *f);

/* The name of a metric of evaluations, "accuracy" of "eval_accuracy"; NULL for times and for what is not of an evaluation. */
const char *facts_metric(const char *member);
const json_t *facts_last_evaluation(const struct facts *f); /* borrowed; NULL: there is none */

/* The points of a member of the log over steps, those that are numbers, in memory for mem_free; *n may be 0. */
int facts_points(const struct facts *f, const char *member, double **x, double **y, size_t *n, struct snug_err *err);

#endif
