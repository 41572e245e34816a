#include "metrics/moments.h"

#include <math.h>

static double mean(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static bool is_constant(const double *x, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (x[i] != x[0])
            return false;
    return true;
}

/* NaN where one of the two is constant, as in scipy.stats.pearsonr; and where something is NaN. */
static double correlation(const double *x, const double *y, int64_t n)
{
    double mx = mean(x, n), my = mean(y, n), xx = 0, yy = 0, xy = 0;
    if (n < 2 || is_constant(x, n) || is_constant(y, n))
        return NAN;
    for (int64_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    double r = xy / (sqrt(xx) * sqrt(yy));
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

/* 1 - (sum of squared errors) / (sum of squared distances of the labels from their mean). Labels that are all equal: 1
 * where every prediction is right, else 0, as in sklearn.metrics.r2_score; NaN for a single row. */
static double determination(const double *actual, int64_t n, double squared_errors)
{
    double m = mean(actual, n), total = 0;
    if (n < 2)
        return NAN;
    if (is_constant(actual, n))
        return squared_errors > 0 ? 0 : squared_errors == 0 ? 1 : NAN;
    for (int64_t i = 0; i < n; i++)
        total += (actual[i] - m) * (actual[i] - m);
    return 1 - squared_errors / total;
}

struct output_moments output_moments(const double *predicted, const double *actual, int64_t n, struct ranked *sorted,
                                     double *ranks)
{
    double squares = 0, distances = 0;
    bool nan = false;
    for (int64_t i = 0; i < n; i++) {
        double e = predicted[i] - actual[i];
        squares += e * e;
        distances += fabs(e);
        nan |= isnan(e);
    }
    struct output_moments o = {.mse = squares / (double)n,
                               .mae = distances / (double)n,
                               .r2 = determination(actual, n, squares),
                               .pearson = correlation(predicted, actual, n),
                               .spearman = NAN};
    if (nan)
        return o;
    midranks(predicted, n, sorted, ranks);
    midranks(actual, n, sorted, ranks + n);
    o.spearman = correlation(ranks, ranks + n, n);
    return o;
}
