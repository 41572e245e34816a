/* The table of metrics: for each kind of labels, what is reported of all rows, and of each class, label or output. */
#include "metrics/metrics.h"

#include <math.h>
#include <string.h>

/* ---- a class or a label ---- */

/* a / b; 0 where nothing is divided by nothing, which is scikit-learn's zero_division. */
static double ratio(int64_t a, int64_t b)
{
    return b ? (double)a / (double)b : 0;
}

typedef double label_score(const struct label_counts *l);

static double precision(const struct label_counts *l)
{
    return ratio(l->true_positive, l->predicted);
}

static double recall(const struct label_counts *l)
{
    return ratio(l->true_positive, l->actual);
}

static double f1(const struct label_counts *l)
{
    return ratio(2 * l->true_positive, l->predicted + l->actual);
}

/* ---- averages over classes or labels ---- */

/* The mean. Of classes and types those count that occur among labels or predictions, of labels all. */
static double macro(const struct metrics *m, label_score *score)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_labels; i++) {
        const struct label_counts *l = &m->labels[i];
        if (m->setup.kind != METRICS_MULTI_LABEL && !l->predicted && !l->actual)
            continue;
        sum += score(l);
        n++;
    }
    return n ? sum / (double)n : 0;
}

/* The mean, where each has the weight of its rows. */
static double weighted(const struct metrics *m, label_score *score)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_labels; i++) {
        sum += (double)m->labels[i].actual * score(&m->labels[i]);
        n += m->labels[i].actual;
    }
    return n ? sum / (double)n : 0;
}

/* Of all together. */
static double micro(const struct metrics *m, label_score *score)
{
    struct label_counts all = {0};
    for (int64_t i = 0; i < m->n_labels; i++) {
        all.true_positive += m->labels[i].true_positive;
        all.predicted += m->labels[i].predicted;
        all.actual += m->labels[i].actual;
    }
    return score(&all);
}

/* Of the class 1 of two. */
static double positive(const struct metrics *m, label_score *score)
{
    return score(&m->labels[1]);
}

#define AVERAGE(average, score)                                                                                        \
    static double average##_##score(const struct metrics *m)                                                           \
    {                                                                                                                  \
        return average(m, score);                                                                                      \
    }
AVERAGE(macro, precision)
AVERAGE(macro, recall)
AVERAGE(macro, f1)
AVERAGE(weighted, precision)
AVERAGE(weighted, recall)
AVERAGE(weighted, f1)
AVERAGE(micro, precision)
AVERAGE(micro, recall)
AVERAGE(micro, f1)
AVERAGE(positive, precision)
AVERAGE(positive, recall)
AVERAGE(positive, f1)

/* The mean over rows of the F1 of their labels. */
static double samples_f1(const struct metrics *m)
{
    double sum = 0;
    for (int64_t r = 0; r < m->setup.rows; r++) {
        struct label_counts row = {0};
        for (int64_t l = 0; l < m->setup.width; l++) {
            bool actual = m->marks[l * m->setup.rows + r] & MARK_ACTUAL;
            bool predicted = m->marks[l * m->setup.rows + r] & MARK_PREDICTED;
            row.actual += actual;
            row.predicted += predicted;
            row.true_positive += actual && predicted;
        }
        sum += f1(&row);
    }
    return m->n ? sum / (double)m->n : 0;
}

/* The mean over the classes or labels that have one. */
static double roc_auc(const struct metrics *m)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < m->setup.width; i++) {
        if (isnan(m->labels[i].roc_auc))
            continue;
        sum += m->labels[i].roc_auc;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

/* Gorodkin 2004; 0 where labels or predictions are all of one class. */
static double matthews_correlation(const struct metrics *m)
{
    double n = (double)m->n, both = 0, actual = 0, predicted = 0;
    for (int64_t i = 0; i < m->setup.width; i++) {
        double a = (double)m->labels[i].actual, p = (double)m->labels[i].predicted;
        both += a * p;
        actual += a * a;
        predicted += p * p;
    }
    double product = (n * n - predicted) * (n * n - actual);
    return product > 0 ? ((double)m->right * n - both) / sqrt(product) : 0;
}

/* ---- rows and outputs ---- */

static double loss(const struct metrics *m)
{
    return m->loss_sum / (double)(m->n ? m->n : 1);
}

static double accuracy(const struct metrics *m)
{
    return ratio(m->right, m->n);
}

/* The share of labels, over all rows, that are wrong. */
static double hamming_loss(const struct metrics *m)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < m->setup.width; i++)
        wrong += m->labels[i].predicted + m->labels[i].actual - 2 * m->labels[i].true_positive;
    return ratio(wrong, m->n * m->setup.width);
}

static double perplexity(const struct metrics *m)
{
    return exp(loss(m));
}

/* The mean over outputs. */
#define OUTPUT(name)                                                                                                   \
    static double name(const struct metrics *m)                                                                        \
    {                                                                                                                  \
        double sum = 0;                                                                                                \
        for (int64_t i = 0; i < m->setup.width; i++)                                                                   \
            sum += m->outputs[i].name;                                                                                 \
        return sum / (double)m->setup.width;                                                                           \
    }                                                                                                                  \
    static double output_##name(const struct metrics *m, int64_t output)                                               \
    {                                                                                                                  \
        return m->outputs[output].name;                                                                                \
    }
OUTPUT(mse)
OUTPUT(mae)
OUTPUT(r2)
OUTPUT(pearson)
OUTPUT(spearman)

static double rmse(const struct metrics *m)
{
    double sum = 0;
    for (int64_t i = 0; i < m->setup.width; i++)
        sum += sqrt(m->outputs[i].mse);
    return sum / (double)m->setup.width;
}

/* ---- of a class or label by itself ---- */

#define OF_LABEL(name, expression)                                                                                     \
    static double label_##name(const struct metrics *m, int64_t label)                                                 \
    {                                                                                                                  \
        const struct label_counts *l = &m->labels[label];                                                              \
        return expression;                                                                                             \
    }
OF_LABEL(precision, precision(l))
OF_LABEL(recall, recall(l))
OF_LABEL(f1, f1(l))
OF_LABEL(roc_auc, l->roc_auc)
OF_LABEL(accuracy, 1 - ratio(l->predicted + l->actual - 2 * l->true_positive, m->n))
OF_LABEL(support, (double)l->actual)
OF_LABEL(predicted, (double)l->predicted)

/* ---- of answers: percentages, as SQuAD's script has them; NaN where the data have no texts ---- */

static double exact_match(const struct metrics *m)
{
    return m->questions ? 100 * m->exact / (double)m->questions : NAN;
}

static double answers_f1(const struct metrics *m)
{
    return m->questions ? 100 * m->f1 / (double)m->questions : NAN;
}

/* ---- of generated texts: percentages ---- */

static double same_text(const struct metrics *m)
{
    return m->texts.rows ? 100 * (double)m->texts.exact / (double)m->texts.rows : NAN;
}

static double rouge(const struct metrics *m)
{
    return m->texts.rows ? 100 * m->texts.rouge / (double)m->texts.rows : NAN;
}

static double chrf(const struct metrics *m)
{
    return m->texts.rows ? 100 * texts_chrf(&m->texts) : NAN;
}

/* ---- the table ---- */

static const struct metric of_classes[] = {
    {"loss", loss, 0, true},
    {"accuracy", accuracy, 0, false},
    {"f1", positive_f1, 2, false},
    {"precision", positive_precision, 2, false},
    {"recall", positive_recall, 2, false},
    {"macro_f1", macro_f1, 0, false},
    {"weighted_f1", weighted_f1, 0, false},
    {"micro_f1", micro_f1, 0, false},
    {"macro_precision", macro_precision, 0, false},
    {"macro_recall", macro_recall, 0, false},
    {"weighted_precision", weighted_precision, 0, false},
    {"weighted_recall", weighted_recall, 0, false},
    {"roc_auc", roc_auc, 0, false},
    {"matthews_correlation", matthews_correlation, 0, false},
};
static const struct metric of_labels[] = {
    {"loss", loss, 0, true},
    {"accuracy", accuracy, 0, false},
    {"macro_f1", macro_f1, 0, false},
    {"micro_f1", micro_f1, 0, false},
    {"weighted_f1", weighted_f1, 0, false},
    {"samples_f1", samples_f1, 0, false},
    {"macro_precision", macro_precision, 0, false},
    {"macro_recall", macro_recall, 0, false},
    {"micro_precision", micro_precision, 0, false},
    {"micro_recall", micro_recall, 0, false},
    {"roc_auc", roc_auc, 0, false},
    {"hamming_loss", hamming_loss, 0, true},
};
static const struct metric of_outputs[] = {
    {"loss", loss, 0, true}, {"mse", mse, 0, true},          {"rmse", rmse, 0, true},          {"mae", mae, 0, true},
    {"r2", r2, 0, false},    {"pearson", pearson, 0, false}, {"spearman", spearman, 0, false},
};
static const struct metric of_tokens[] = {
    {"loss", loss, 0, true},
    {"accuracy", accuracy, 0, false},
    {"perplexity", perplexity, 0, true},
};
static const struct metric of_texts[] = {
    {"loss", loss, 0, true},          {"rougeL", rouge, 0, false},
    {"chrf", chrf, 0, false},         {"exact_match", same_text, 0, false},
    {"accuracy", accuracy, 0, false}, {"perplexity", perplexity, 0, true},
};
static const struct metric of_tags[] = {
    {"loss", loss, 0, true},
    {"accuracy", accuracy, 0, false},
    {"f1", micro_f1, 0, false},
    {"precision", micro_precision, 0, false},
    {"recall", micro_recall, 0, false},
    {"macro_f1", macro_f1, 0, false},
    {"weighted_f1", weighted_f1, 0, false},
};
static const struct metric of_answers[] = {
    {"loss", loss, 0, true},
    {"f1", answers_f1, 0, false},
    {"exact_match", exact_match, 0, false},
};
static const struct label_metric by_type[] = {
    {"precision", label_precision}, {"recall", label_recall},       {"f1", label_f1},
    {"support", label_support},     {"predicted", label_predicted},
};
static const struct label_metric by_class[] = {
    {"precision", label_precision}, {"recall", label_recall},   {"f1", label_f1},
    {"support", label_support},     {"roc_auc", label_roc_auc}, {"predicted", label_predicted},
};
static const struct label_metric by_label[] = {
    {"precision", label_precision}, {"recall", label_recall},     {"f1", label_f1},
    {"support", label_support},     {"accuracy", label_accuracy}, {"roc_auc", label_roc_auc},
    {"predicted", label_predicted},
};
static const struct label_metric by_output[] = {
    {"mse", output_mse},         {"mae", output_mae},           {"r2", output_r2},
    {"pearson", output_pearson}, {"spearman", output_spearman},
};

#define LIST(rows) .metrics = rows, .n = sizeof rows / sizeof *rows
#define BY_LABEL(rows) .by_label = rows, .n_by_label = sizeof rows / sizeof *rows
const struct metric_list metric_lists[METRICS_KINDS] = {
    [METRICS_SINGLE_LABEL] = {LIST(of_classes), BY_LABEL(by_class)},
    [METRICS_MULTI_LABEL] = {LIST(of_labels), BY_LABEL(by_label)},
    [METRICS_REGRESSION] = {LIST(of_outputs), BY_LABEL(by_output)},
    [METRICS_TOKENS] = {LIST(of_tokens)},
    [METRICS_ENTITIES] = {LIST(of_tags), BY_LABEL(by_type)},
    [METRICS_ANSWERS] = {LIST(of_answers)},
    [METRICS_TEXTS] = {LIST(of_texts)},
};

/* ---- looking into it ---- */

const struct metric *metric_at(enum metrics_kind kind, int64_t width, int i)
{
    const struct metric_list *l = &metric_lists[kind];
    for (int k = 0; k < l->n; k++)
        if ((!l->metrics[k].width || l->metrics[k].width == width) && i-- == 0)
            return &l->metrics[k];
    return NULL;
}

void metrics_report(const struct metrics *m, metric_fn *report, void *ctx)
{
    const struct metric *row;
    for (int i = 0; (row = metric_at(m->setup.kind, m->setup.width, i)); i++)
        report(ctx, row->name, row->value(m));
}

void metrics_report_label(const struct metrics *m, int64_t label, metric_fn *report, void *ctx)
{
    const struct metric_list *l = &metric_lists[m->setup.kind];
    for (int i = 0; i < l->n_by_label; i++)
        report(ctx, l->by_label[i].name, l->by_label[i].value(m, label));
}

bool metric_lower_is_better(const char *name)
{
    size_t n = strlen(name);
    const char *bare = strncmp(name, "eval_", 5) ? name : name + 5;
    for (int kind = 0; kind < METRICS_KINDS; kind++)
        for (int i = 0; i < metric_lists[kind].n; i++)
            if (!strcmp(metric_lists[kind].metrics[i].name, bare))
                return metric_lists[kind].metrics[i].lower_is_better;
    return n >= 4 && !strcmp(name + n - 4, "loss");
}
