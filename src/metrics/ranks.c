#include "metrics/ranks.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static int compare_scores(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static bool any_nan(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i]))
            return true;
    return false;
}

/* How many of the n > 0 sorted x are less than `limit`, or not greater. Without branches, which a random model's scores
 * would have mispredicted. */
static int64_t count_below(const float *x, int64_t n, float limit, bool or_equal)
{
    const float *from = x;
    while (n > 1) {
        int64_t half = n / 2;
        float v = from[half - 1];
        from += ((v < limit) | ((v == limit) & or_equal)) * half;
        n -= half;
    }
    return from - x + ((*from < limit) | ((*from == limit) & or_equal));
}

double roc_auc(float *positives, int64_t n_positives, const float *negatives, int64_t n_negatives)
{
    int64_t twice = 0; /* the pairs, a half counts one */
    if (!n_positives || !n_negatives || any_nan(positives, n_positives) || any_nan(negatives, n_negatives))
        return NAN;
    qsort(positives, (size_t)n_positives, sizeof *positives, compare_scores);
    for (int64_t i = 0; i < n_negatives; i++) {
        float x = negatives[i];
        if (x < positives[0]) { /* nearly all, of a good model */
            twice += 2 * n_positives;
            continue;
        }
        int64_t less = count_below(positives, n_positives, x, false), not_greater = less;
        if (less < n_positives && positives[less] == x)
            not_greater = count_below(positives, n_positives, x, true);
        twice += 2 * (n_positives - not_greater) + (not_greater - less);
    }
    return (double)twice / (2 * (double)n_positives * (double)n_negatives);
}

static int compare_values(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value) : (x->at > y->at) - (x->at < y->at);
}

void midranks(const double *x, int64_t n, struct ranked *sorted, double *ranks)
{
    for (int64_t i = 0; i < n; i++)
        sorted[i] = (struct ranked){.value = x[i], .at = i};
    qsort(sorted, (size_t)n, sizeof *sorted, compare_values);
    for (int64_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && sorted[to].value == sorted[from].value;)
            to++;
        for (int64_t i = from; i < to; i++)
            ranks[sorted[i].at] = (double)(from + to + 1) / 2;
    }
}
