/* evaluation.h: OUT/last_evaluation.json (own_json.h), what the last evaluation found of each class, for the report:
 *     {"snug_version": …, "step": 40, "eval_loss": 0.31,
 *      "by_label": [{"label": "yes", "precision": …, "recall": …, "f1": …, "support": …, …}, …],
 *      "confusions": [[actual, predicted, rows], …]}
 * Classes are numbered as in by_label; confusions are the cells of the matrix that are not 0, of single-label classification. */
#ifndef OUTPUT_EVALUATION_H
#define OUTPUT_EVALUATION_H

#include "base/str.h"
#include "metrics/metrics.h"

/* Whether the evaluation has numbers of single labels, outputs or types of entities: else there is nothing to write. */
bool evaluation_has_labels(const struct metrics *m);

/* After metrics_finish. names (m->n_labels): NULL, or an array with NULL in it: they are LABEL_0, LABEL_1 … */
int evaluation_text(const struct metrics *m, const char *const *names, int64_t step, struct str *out,
                    struct snug_err *err);

#endif
