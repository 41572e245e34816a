/* metrics.h: what an evaluation reports. docs/metrics.md has every formula.
 *
 *     metrics_open     memory for all rows of the data, once
 *     metrics_reset    before each evaluation
 *     metrics_add_...  batch by batch, the rows in any order
 *     metrics_finish   sums, averages and ranks
 *     metrics_report   the numbers
 *
 * What depends on rows is kept for each of them and summed in the order of the data, in double. So results are the same
 * bits however the rows are cut into batches. Only the loss of language models and tags is summed batch by batch.
 *
 * A new metric is a row in table.c. A task names the kind of its metrics. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "base/err.h"
#include "metrics/texts.h"
#include "model/task.h"

#include <stdbool.h>
#include <stdint.h>

struct metrics_setup {
    enum metrics_kind kind;
    int64_t
        rows; /* of the data; METRICS_TOKENS, METRICS_TEXTS, METRICS_ENTITIES: 0, no row is kept; METRICS_ANSWERS: tokens, 0 where they have no texts */
    int64_t width; /* classes, labels or numbers of a row or token */
    const char *const
        *names;       /* METRICS_ENTITIES: (width) of the labels; they outlive the metrics. NULL: for sizes only */
    double threshold; /* METRICS_MULTI_LABEL: a label is predicted where its probability is greater */
    double smoothing; /* METRICS_SINGLE_LABEL: share of the loss's target that is spread over all classes */
};

/* Of one class, one label of several, or entities of one type. */
struct label_counts {
    int64_t true_positive, predicted, actual;
    double roc_auc; /* against all others; NaN where all rows are of it, or none */
};

/* Of one output of a regression. */
struct output_moments {
    double mse, mae, r2, pearson, spearman;
};

struct metrics {
    struct metrics_setup setup;
    int64_t n;         /* rows with a label, or targets that are not ignored */
    int64_t right;     /* of those: predicted as they are, with all labels */
    double loss_sum;   /* of n terms */
    int64_t questions; /* METRICS_ANSWERS: whose answers were compared; exact and f1 are sums over them */
    double exact, f1;
    struct text_sums texts; /* METRICS_TEXTS */

    void *block; /* owns what follows */
    /* For each row of the data, in its order. */
    double *row_loss;
    int32_t *label, *guess;     /* (rows), METRICS_SINGLE_LABEL; label -1: not counted */
    float *scores;              /* (score_columns, rows): what AUC ranks the rows by */
    uint8_t *marks;             /* (width, rows), METRICS_MULTI_LABEL: MARK_ACTUAL, MARK_PREDICTED */
    double *predicted, *actual; /* (width, rows), METRICS_REGRESSION */
    double *logits;             /* (rows, width), METRICS_ANSWERS: room for whoever chooses the answers */
    void *scratch;              /* of metrics_finish */
    const char **types;         /* (n_labels), METRICS_ENTITIES: their names */
    struct tag *tags;           /* (width), METRICS_ENTITIES */
    /* After metrics_finish. */
    struct label_counts *labels;    /* (n_labels) */
    int64_t n_labels;               /* width; METRICS_ENTITIES: types of entities */
    struct output_moments *outputs; /* (width), METRICS_REGRESSION */
};
enum { MARK_ACTUAL = 1, MARK_PREDICTED = 2 };

int64_t metrics_bytes(const struct metrics_setup *s); /* that metrics_open allocates */
int metrics_open(struct metrics *m, const struct metrics_setup *s, struct snug_err *err);
void metrics_reset(struct metrics *m);
void metrics_close(struct metrics *m);

/* Language models: what is predicted, and the targets; negative ones are left out. loss_sum: of the others. */
void metrics_add_tokens(struct metrics *m, const int32_t *predictions, const int32_t *targets, int64_t tokens,
                        double loss_sum);
/* Tags: predictions and targets of `rows` sequences of tokens, of which row r is [cu[r], cu[r + 1]). Negative targets are left out;
 * loss_sum: of the others. */
void metrics_add_tags(struct metrics *m, const int32_t *predictions, const int32_t *targets, const int32_t *cu,
                      int64_t rows, double loss_sum);
/* `n` rows of the data, rows[i] their places in it, with logits (n, width). labels: class ids (negative ones are left
 * out), or values (n, width). */
void metrics_add_classes(struct metrics *m, const int64_t *rows, const double *logits, const int32_t *labels,
                         int64_t n);
void metrics_add_values(struct metrics *m, const int64_t *rows, const double *logits, const float *labels, int64_t n);

/* Question answering: `n` rows, and of a question how its answer compares with the right ones, 0 to 1. */
void metrics_add_rows(struct metrics *m, int64_t n, double loss_sum);
void metrics_add_answer(struct metrics *m, double exact, double f1);
/* METRICS_TEXTS, beside metrics_add_tokens: a row's generated text, and the expected one. */
int metrics_add_text(struct metrics *m, const char *text, size_t bytes, const char *expected, size_t expected_bytes,
                     struct snug_err *err);

void metrics_finish(struct metrics *m);

/* ---- The table. -------------------------------------------------------------------------------------------------- */

/* One number of an evaluation. */
struct metric {
    const char *name;
    double (*value)(const struct metrics *m); /* NaN: not defined */
    int64_t width;                            /* of data that it is for; 0: any */
    bool lower_is_better;
};

/* One number of a class, a label or an output. */
struct label_metric {
    const char *name;
    double (*value)(const struct metrics *m, int64_t label);
};

/* Those of a kind, the more important first. */
struct metric_list {
    const struct metric *metrics;
    int n;
    const struct label_metric *by_label;
    int n_by_label;
};
extern const struct metric_list metric_lists[METRICS_KINDS];

/* Calls `report` with each name and value: loss first. */
typedef void metric_fn(void *ctx, const char *name, double value);
void metrics_report(const struct metrics *m, metric_fn *report, void *ctx);
void metrics_report_label(const struct metrics *m, int64_t label, metric_fn *report, void *ctx);

/* Row i of the list of a kind, for data of that width; NULL behind the last. */
const struct metric *metric_at(enum metrics_kind kind, int64_t width, int i);
/* Whether smaller is better. As the Trainer has it, that is so for names that end in "loss"; and for those of the table
 * that say so, which the Trainer does not know. `name`: with or without "eval_". */
bool metric_lower_is_better(const char *name);

/* ---- What was taken for what. ------------------------------------------------------------------------------------ */

/* The cells of the confusion matrix that are not 0, by actual, then by predicted class; mem_free's by the caller. */
struct confusion {
    int32_t actual, predicted;
    int64_t rows;
};
int metrics_confusions(const struct metrics *m, struct confusion **cells, size_t *n, struct snug_err *err);

/* Rows that were predicted wrong, the highest loss first, of equal ones the first row: at most `most`; how many. None where no row is
 * kept: language models, tags, answers. Of a regression every row that is not exact. */
struct mistake {
    int64_t row; /* of the data */
    double loss;
};
int metrics_mistakes(const struct metrics *m, struct mistake *list, int most);

int64_t metrics_argmax(const double *x, int64_t n); /* the first of the largest */
double metrics_probability(double logit);           /* of a label by itself: 1 / (1 + exp(-logit)) */

#endif
