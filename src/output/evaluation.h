/* evaluation.h: OUT/last_evaluation.json (own_json.h), what the last evaluation found of each class, for the report:
 *     {"snug_version": …, "step": 40, "eval_loss": 0.31,
 *      "by_label": [{"label": "yes", "precision": …, "recall": …, "f1": …, "support": …, …}, …],
 *      "confusions": [[actual, predicted, rows], …],
 *      "mistakes": [{"row": 7, "loss": 4.1, "label": "yes", "predicted": "no", "text": …}, …]}
 * Classes are numbered as in by_label; confusions are the cells of the matrix that are not 0, of single-label classification.
 * Mistakes are the rows with the highest loss among those that were predicted wrong; the first row of the data is 0. */
#ifndef OUTPUT_EVALUATION_H
#define OUTPUT_EVALUATION_H

#include "base/str.h"
#include "metrics/metrics.h"

/* Whether the evaluation knows more than its metrics: of language models and answers there is nothing to write. */
bool evaluation_has_parts(const struct metrics *m);

/* The text of a row of the data; appends nothing where nobody knows it. */
struct row_texts {
    int (*put)(void *ctx, int64_t row, struct str *out, struct snug_err *err);
    void *ctx;
};

/* After metrics_finish. names (m->n_labels): NULL, or an array with NULL in it: they are LABEL_0, LABEL_1 … `texts`: NULL, or of the
 * rows that are mistakes. */
int evaluation_text(const struct metrics *m, const char *const *names, const struct row_texts *texts, int64_t step,
                    struct str *out, struct snug_err *err);

#endif
