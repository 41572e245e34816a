#include "schedule/rate_test.h"

#include <math.h>

static const double lowest_rate = 1e-8, highest_rate = 1, decay = 0.98, too_much = 4;

double rate_test_rate(int64_t s)
{
    return lowest_rate * pow(highest_rate / lowest_rate, (double)s / (RATE_TEST_STEPS - 1));
}

/* The mean starts at 0; the division takes back what that pulls it down. */
void rate_test_add(struct rate_test *t, double loss)
{
    if (!isfinite(loss)) {
        t->diverged = true;
        return;
    }
    t->sum = decay * t->sum + (1 - decay) * loss;
    double smoothed = t->sum / (1 - pow(decay, t->n + 1));
    t->lowest = t->n ? fmin(t->lowest, smoothed) : smoothed;
    t->diverged = smoothed > too_much * t->lowest;
    t->rate[t->n] = rate_test_rate(t->n);
    t->loss[t->n] = loss;
    t->smoothed[t->n++] = smoothed;
}

int rate_test_suggest(const struct rate_test *t)
{
    int length[RATE_TEST_STEPS], end = RATE_TEST_BEGIN,
                                 last = t->n - 1 - RATE_TEST_END; /* of the longest fall that ends there */
    for (int i = RATE_TEST_BEGIN; i <= last; i++) {
        length[i] = 1;
        for (int k = RATE_TEST_BEGIN; k < i; k++)
            if (t->smoothed[i] < t->smoothed[k] && length[i] <= length[k])
                length[i] = length[k] + 1;
        end = length[i] > length[end] ? i : end;
    }
    if (last < RATE_TEST_BEGIN || length[end] < 2)
        return -1;
    int third = length[end] / 3, sixth = third / 2, middle = end - length[end] + third + sixth;
    return middle > RATE_TEST_BEGIN ? middle : RATE_TEST_BEGIN;
}
