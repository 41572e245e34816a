#include "metrics/metrics.h"

#include "base/mem.h"
#include "metrics/entities.h"
#include "metrics/moments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

/* Of two classes the scores of one are those of the other, turned round. */
static int64_t score_columns(const struct metrics_setup *s)
{
    return s->kind == METRICS_SINGLE_LABEL && s->width == 2 ? 1 : s->width;
}

/* Takes `bytes` from the block behind the *at bytes that are taken; with block NULL it only counts. */
static void *take(char *block, int64_t *at, int64_t bytes)
{
    void *p = block ? block + *at : NULL;
    *at += (bytes + 15) / 16 * 16;
    return p;
}

/* Lays everything into the block; the bytes that it must have. */
static int64_t lay_out(struct metrics *m, char *block)
{
    const struct metrics_setup *s = &m->setup;
    int64_t at = 0, rows = s->rows, cells = s->width * rows;
    if (s->kind == METRICS_TOKENS || s->kind == METRICS_TEXTS)
        return 0;
    if (s->kind == METRICS_ANSWERS) {
        m->logits = take(block, &at, cells * (int64_t)sizeof *m->logits);
        return at;
    }
    if (s->kind == METRICS_ENTITIES) {
        m->types = take(block, &at, s->width * (int64_t)sizeof *m->types);
        m->tags = take(block, &at, s->width * (int64_t)sizeof *m->tags);
        m->labels = take(block, &at, s->width * (int64_t)sizeof *m->labels);
        return at;
    }
    if (s->kind == METRICS_REGRESSION) {
        m->predicted = take(block, &at, cells * (int64_t)sizeof *m->predicted);
        m->actual = take(block, &at, cells * (int64_t)sizeof *m->actual);
        m->outputs = take(block, &at, s->width * (int64_t)sizeof *m->outputs);
        m->scratch = take(block, &at, rows * (int64_t)(sizeof(struct ranked) + 2 * sizeof(double)));
        return at;
    }
    m->row_loss = take(block, &at, rows * (int64_t)sizeof *m->row_loss);
    m->labels = take(block, &at, s->width * (int64_t)sizeof *m->labels);
    m->scores = take(block, &at, score_columns(s) * rows * (int64_t)sizeof *m->scores);
    m->scratch = take(block, &at, rows * (int64_t)sizeof *m->scores);
    if (s->kind == METRICS_MULTI_LABEL) {
        m->marks = take(block, &at, cells);
        return at;
    }
    m->label = take(block, &at, rows * (int64_t)sizeof *m->label);
    m->guess = take(block, &at, rows * (int64_t)sizeof *m->guess);
    return at;
}

int64_t metrics_bytes(const struct metrics_setup *s)
{
    struct metrics m = {.setup = *s};
    return lay_out(&m, NULL);
}

int metrics_open(struct metrics *m, const struct metrics_setup *s, struct snug_err *err)
{
    *m = (struct metrics){.setup = *s};
    int64_t bytes = metrics_bytes(s);
    m->block = mem_map((size_t)bytes + 1);
    if (!m->block)
        return err_no_memory(err, (unsigned long long)bytes);
    lay_out(m, m->block);
    m->n_labels = s->width;
    if (s->kind == METRICS_ENTITIES)
        m->n_labels = !s->names ? 0 : entity_types(s->names, (int32_t)s->width, m->types, m->tags);
    metrics_reset(m);
    return SNUG_OK;
}

void metrics_reset(struct metrics *m)
{
    m->n = m->right = 0;
    m->loss_sum = m->exact = m->f1 = 0;
    m->questions = 0;
    m->texts = (struct text_sums){0};
    for (int64_t r = 0; m->label && r < m->setup.rows; r++)
        m->label[r] = -1;
    if (m->tags && m->n_labels)
        memset(m->labels, 0, (size_t)m->n_labels * sizeof *m->labels);
}

void metrics_close(struct metrics *m)
{
    mem_unmap(m->block);
    *m = (struct metrics){0};
}

/* ---- rows ---- */

int64_t metrics_argmax(const double *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

double metrics_probability(double logit)
{
    return 1 / (1 + exp(-logit));
}

void metrics_add_tokens(struct metrics *m, const int32_t *predictions, const int32_t *targets, int64_t tokens,
                        double loss_sum)
{
    for (int64_t t = 0; t < tokens; t++) {
        m->n += targets[t] >= 0;
        m->right += targets[t] >= 0 && predictions[t] == targets[t];
    }
    m->loss_sum += loss_sum;
}

void metrics_add_tags(struct metrics *m, const int32_t *predictions, const int32_t *targets, const int32_t *cu,
                      int64_t rows, double loss_sum)
{
    metrics_add_tokens(m, predictions, targets, cu[rows], loss_sum);
    for (int64_t r = 0; r < rows; r++)
        entities_count(m->tags, targets + cu[r], predictions + cu[r], cu[r + 1] - cu[r], m->labels);
}

void metrics_add_rows(struct metrics *m, int64_t n, double loss_sum)
{
    m->n += n;
    m->loss_sum += loss_sum;
}

void metrics_add_answer(struct metrics *m, double exact, double f1)
{
    m->questions++;
    m->exact += exact;
    m->f1 += f1;
}

int metrics_add_text(struct metrics *m, const char *text, size_t bytes, const char *expected, size_t expected_bytes,
                     struct snug_err *err)
{
    return texts_add(&m->texts, text, bytes, expected, expected_bytes, err);
}

/* log sum exp z */
static double log_sum(const double *z, int64_t n)
{
    double max = z[metrics_argmax(z, n)], sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp(z[i] - max);
    return max + log(sum);
}

/* As op/loss.c has it. */
static double cross_entropy(const double *z, int64_t n, int32_t label, double lse, double smoothing)
{
    double all = 0;
    for (int64_t i = 0; smoothing > 0 && i < n; i++)
        all += lse - z[i];
    return (1 - smoothing) * (lse - z[label]) + smoothing * all / (double)n;
}

void metrics_add_classes(struct metrics *m, const int64_t *rows, const double *logits, const int32_t *labels, int64_t n)
{
    const struct metrics_setup *s = &m->setup;
    for (int64_t i = 0; i < n; i++) {
        const double *z = logits + i * s->width;
        int64_t r = rows[i];
        m->label[r] = labels[i];
        if (labels[i] < 0)
            continue;
        double lse = log_sum(z, s->width);
        m->guess[r] = (int32_t)metrics_argmax(z, s->width);
        m->row_loss[r] = cross_entropy(z, s->width, labels[i], lse, s->smoothing);
        /* In the order of the probabilities, and different where those are rounded to 1. */
        if (s->width == 2)
            m->scores[r] = (float)(z[1] - z[0]);
        for (int64_t c = 0; s->width != 2 && c < s->width; c++)
            m->scores[c * s->rows + r] = (float)(z[c] - lse);
    }
}

static double binary_cross_entropy(double z, double y)
{
    return fmax(z, 0) - z * y + log1p(exp(-fabs(z)));
}

void metrics_add_values(struct metrics *m, const int64_t *rows, const double *logits, const float *labels, int64_t n)
{
    const struct metrics_setup *s = &m->setup;
    for (int64_t i = 0; i < n; i++) {
        double loss = 0;
        for (int64_t c = 0; c < s->width; c++) {
            double z = logits[i * s->width + c], y = (double)labels[i * s->width + c];
            int64_t at = c * s->rows + rows[i];
            if (s->kind == METRICS_REGRESSION) {
                m->predicted[at] = z;
                m->actual[at] = y;
                continue;
            }
            loss += binary_cross_entropy(z, y);
            m->scores[at] = (float)z;
            m->marks[at] =
                (uint8_t)((y > 0.5) * MARK_ACTUAL + (metrics_probability(z) > s->threshold) * MARK_PREDICTED);
        }
        if (m->row_loss)
            m->row_loss[rows[i]] = loss / (double)s->width;
    }
}

/* ---- all rows ---- */

static double class_auc(const struct metrics *m, int64_t class)
{
    const struct metrics_setup *s = &m->setup;
    bool binary = s->width == 2;
    const float *scores = m->scores + (binary ? 0 : class * s->rows);
    float *sorted = m->scratch;
    int64_t positives = 0, negatives = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        float score = binary && !class ? -scores[r] : scores[r];
        if (m->label[r] == class)
            sorted[positives++] = score;
        else if (m->label[r] >= 0)
            sorted[s->rows - ++negatives] = score;
    }
    return roc_auc(sorted, positives, sorted + s->rows - negatives, negatives);
}

static double label_auc(const struct metrics *m, int64_t label)
{
    const struct metrics_setup *s = &m->setup;
    float *sorted = m->scratch;
    int64_t positives = 0, negatives = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        float score = m->scores[label * s->rows + r];
        if (m->marks[label * s->rows + r] & MARK_ACTUAL)
            sorted[positives++] = score;
        else
            sorted[s->rows - ++negatives] = score;
    }
    return roc_auc(sorted, positives, sorted + s->rows - negatives, negatives);
}

static void finish_classes(struct metrics *m)
{
    const struct metrics_setup *s = &m->setup;
    memset(m->labels, 0, (size_t)s->width * sizeof *m->labels);
    for (int64_t r = 0; r < s->rows; r++) {
        if (m->label[r] < 0)
            continue;
        bool right = m->label[r] == m->guess[r];
        m->n++;
        m->right += right;
        m->loss_sum += m->row_loss[r];
        m->labels[m->label[r]].actual++;
        m->labels[m->guess[r]].predicted++;
        m->labels[m->guess[r]].true_positive += right;
    }
    for (int64_t c = 0; c < s->width; c++)
        m->labels[c].roc_auc = class_auc(m, c);
}

static void finish_labels(struct metrics *m)
{
    const struct metrics_setup *s = &m->setup;
    memset(m->labels, 0, (size_t)s->width * sizeof *m->labels);
    m->n = s->rows;
    for (int64_t r = 0; r < s->rows; r++) {
        bool right = true;
        for (int64_t l = 0; l < s->width; l++) {
            bool actual = m->marks[l * s->rows + r] & MARK_ACTUAL;
            bool predicted = m->marks[l * s->rows + r] & MARK_PREDICTED;
            right &= actual == predicted;
            m->labels[l].actual += actual;
            m->labels[l].predicted += predicted;
            m->labels[l].true_positive += actual && predicted;
        }
        m->right += right;
        m->loss_sum += m->row_loss[r];
    }
    for (int64_t l = 0; l < s->width; l++)
        m->labels[l].roc_auc = label_auc(m, l);
}

static void finish_outputs(struct metrics *m)
{
    const struct metrics_setup *s = &m->setup;
    struct ranked *sorted = m->scratch;
    double mse = 0;
    for (int64_t o = 0; o < s->width; o++) {
        int64_t at = o * s->rows;
        m->outputs[o] =
            output_moments(m->predicted + at, m->actual + at, s->rows, sorted, (double *)(sorted + s->rows));
        mse += m->outputs[o].mse;
    }
    m->n = s->rows;
    m->loss_sum = mse / (double)s->width * (double)m->n;
}

void metrics_finish(struct metrics *m)
{
    switch (m->setup.kind) {
    case METRICS_SINGLE_LABEL:
        finish_classes(m);
        break;
    case METRICS_MULTI_LABEL:
        finish_labels(m);
        break;
    case METRICS_REGRESSION:
        finish_outputs(m);
        break;
    default:
        break;
    }
}

/* ---- confusions ---- */

static int compare_cells(const void *a, const void *b)
{
    const struct confusion *x = a, *y = b;
    if (x->actual != y->actual)
        return x->actual < y->actual ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

int metrics_confusions(const struct metrics *m, struct confusion **cells, size_t *n, struct snug_err *err)
{
    *n = 0;
    *cells = NULL;
    if (m->setup.kind != METRICS_SINGLE_LABEL)
        return SNUG_OK;
    struct confusion *c = *cells = mem_alloc(((size_t)m->n + 1) * sizeof *c);
    if (!c)
        return err_no_memory(err, (unsigned long long)m->n * sizeof *c);
    size_t rows = 0;
    for (int64_t r = 0; r < m->setup.rows; r++)
        if (m->label[r] >= 0)
            c[rows++] = (struct confusion){.actual = m->label[r], .predicted = m->guess[r], .rows = 1};
    qsort(c, rows, sizeof *c, compare_cells);
    for (size_t i = 0; i < rows; i++) {
        if (*n && !compare_cells(&c[i], &c[*n - 1]))
            c[*n - 1].rows++;
        else
            c[(*n)++] = c[i];
    }
    return SNUG_OK;
}
