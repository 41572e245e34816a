#include "train/metrics.h"

#include "base/mem.h"

#include <math.h>

int metrics_open(struct metrics *m, enum metrics_kind kind, int64_t classes, struct snug_err *err)
{
    *m = (struct metrics){.kind = kind, .classes = classes};
    if (kind == METRICS_TOKENS || kind == METRICS_REGRESSION)
        return SNUG_OK;
    size_t bytes = (size_t)classes * sizeof(int64_t);
    m->true_positive = mem_alloc(bytes);
    m->predicted = mem_alloc(bytes);
    m->actual = mem_alloc(bytes);
    if (m->true_positive && m->predicted && m->actual)
        return SNUG_OK;
    metrics_close(m);
    return err_no_memory(err, bytes);
}

void metrics_close(struct metrics *m)
{
    mem_free(m->true_positive);
    mem_free(m->predicted);
    mem_free(m->actual);
    *m = (struct metrics){0};
}

int64_t metrics_argmax(const double *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

void metrics_add_tokens(struct metrics *m, const int32_t *predictions, const int32_t *targets, int64_t tokens)
{
    for (int64_t t = 0; t < tokens; t++) {
        m->n += targets[t] >= 0;
        m->right += targets[t] >= 0 && predictions[t] == targets[t];
    }
}

void metrics_add_classes(struct metrics *m, const double *logits, const int32_t *labels, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) {
        if (labels[r] < 0)
            continue;
        int64_t guess = metrics_argmax(logits + r * m->classes, m->classes);
        m->n++;
        m->right += guess == labels[r];
        m->true_positive[guess] += guess == labels[r];
        m->predicted[guess]++;
        m->actual[labels[r]]++;
    }
}

void metrics_add_values(struct metrics *m, const double *logits, const float *labels, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) {
        bool all_right = true;
        for (int64_t c = 0; c < m->classes; c++) {
            double x = logits[r * m->classes + c], y = (double)labels[r * m->classes + c];
            if (m->kind == METRICS_REGRESSION) {
                m->sum_x += x, m->sum_y += y;
                m->sum_xx += x * x, m->sum_yy += y * y, m->sum_xy += x * y;
                m->squared_error += (x - y) * (x - y);
                continue;
            }
            bool guess = x > 0, actual = y > 0.5; /* a logit above 0 is a probability above 1/2 */
            all_right &= guess == actual;
            m->true_positive[c] += guess && actual;
            m->predicted[c] += guess;
            m->actual[c] += actual;
        }
        m->n++;
        m->right += all_right;
    }
}

void metrics_add_loss(struct metrics *m, double sum)
{
    m->loss_sum += sum;
}

static double macro_f1(const struct metrics *m)
{
    double sum = 0;
    int64_t occurring = 0;
    for (int64_t c = 0; c < m->classes; c++) {
        int64_t both = m->predicted[c] + m->actual[c];
        if (!both && m->kind == METRICS_SINGLE_LABEL)
            continue;
        occurring++;
        sum += both ? 2.0 * (double)m->true_positive[c] / (double)both : 0;
    }
    return occurring ? sum / (double)occurring : 0;
}

/* Over all outputs together; NaN when predictions or labels are all equal. */
static double pearson(const struct metrics *m)
{
    double n = (double)(m->n * m->classes);
    double cov = m->sum_xy - m->sum_x * m->sum_y / n;
    double var = (m->sum_xx - m->sum_x * m->sum_x / n) * (m->sum_yy - m->sum_y * m->sum_y / n);
    return var > 0 ? cov / sqrt(var) : NAN;
}

void metrics_report(const struct metrics *m, void (*report)(void *ctx, const char *name, double value), void *ctx)
{
    double n = m->n ? (double)m->n : 1, loss = m->loss_sum / n;
    report(ctx, "loss", loss);
    switch (m->kind) {
    case METRICS_REGRESSION:
        report(ctx, "mse", m->squared_error / (n * (double)m->classes));
        report(ctx, "pearson", pearson(m));
        break;
    case METRICS_TOKENS:
        report(ctx, "accuracy", (double)m->right / n);
        report(ctx, "perplexity", exp(loss));
        break;
    default:
        report(ctx, "accuracy", (double)m->right / n);
        report(ctx, "macro_f1", macro_f1(m));
    }
}
