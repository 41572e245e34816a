/* The rows that a model got wrong with the highest loss. */
#include "metrics/metrics.h"

#include <math.h>

/* As the loss of the row has it: of a regression the mean of the squared errors. What is NaN is worse than all else. */
static double row_loss(const struct metrics *m, int64_t r)
{
    double sum = 0;
    if (m->row_loss)
        return isnan(m->row_loss[r]) ? INFINITY : m->row_loss[r];
    for (int64_t c = 0; c < m->setup.width; c++) {
        double d = m->predicted[c * m->setup.rows + r] - m->actual[c * m->setup.rows + r];
        sum += d * d;
    }
    return isnan(sum) ? INFINITY : sum / (double)m->setup.width;
}

static bool is_wrong(const struct metrics *m, int64_t r)
{
    if (m->setup.kind == METRICS_SINGLE_LABEL)
        return m->label[r] >= 0 && m->label[r] != m->guess[r];
    if (m->setup.kind == METRICS_REGRESSION)
        return row_loss(m, r) > 0;
    for (int64_t l = 0; l < m->setup.width; l++) {
        uint8_t marks = m->marks[l * m->setup.rows + r];
        if (!(marks & MARK_ACTUAL) != !(marks & MARK_PREDICTED))
            return true;
    }
    return false;
}

int metrics_mistakes(const struct metrics *m, struct mistake *list, int most)
{
    int n = 0;
    bool by_rows = m->row_loss || m->predicted;
    for (int64_t r = 0; by_rows && r < m->setup.rows; r++) {
        if (!is_wrong(m, r))
            continue;
        struct mistake new = {.row = r, .loss = row_loss(m, r)};
        int at = n;
        while (at && list[at - 1].loss < new.loss)
            at--;
        if (at == most)
            continue;
        n += n < most;
        for (int k = n - 1; k > at; k--)
            list[k] = list[k - 1];
        list[at] = new;
    }
    return n;
}
