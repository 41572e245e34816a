/* evaluate.h: a pass over held-out data: metrics, or the logits of every row for predictions. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "data/questions/questions.h"
#include "metrics/metrics.h"
#include "train/generate/rows.h"
#include "train/session/session.h"

/* Runs the evaluation program over session->data, which has labels, into `m`. SNUG_STOPPED when a signal came: what was
 * counted is no result. SNUG_ERR_NUMERIC where logits (of a language model, the loss) are not finite, with the row and the
 * first tensor that is not, unless --nan-policy skip. --predict-with-generate: `also` gets each row's text; NULL: nobody does. */
int evaluate(struct session *s, struct metrics *m, const struct generated_rows *also, double *seconds,
             struct snug_err *err);

/* The same over the rows of any loader of `d` whose batches the plan has room for; logits (n_rows, num_labels), or with
 * a task of tokens (n_tokens, num_labels): where each row's are written; errors call the first of them row `first`. */
int evaluate_logits(struct session *s, struct eval_loader *loader, const struct dataset *d, int64_t first,
                    double *logits, struct snug_err *err);

/* How answers are chosen, ANSWERS_MOST of them. */
enum { ANSWERS_MOST = 20 };
struct answer_settings evaluate_answer_settings(const struct session *s);

/* What the metrics of the session's task are of; and opens them. */
struct metrics_setup evaluate_setup(const struct session *s);
int evaluate_metrics(const struct session *s, struct metrics *m, struct snug_err *err);

#endif
