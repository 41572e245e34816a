#include "cli/bench/bench.h"

/* The first steps warm caches, clocks and allocators up, so that others report the last two thirds; the log's rates
 * begin at the first step. A rate r at step s means s * samples / r seconds; the rest is differences. */
bool bench_rates(const struct bench_mark *from, const struct bench_mark *to, int64_t samples_per_step,
                 double *samples_per_second, double *tokens_per_second)
{
    if (from->step <= 0 || to->step <= from->step || !(from->samples_per_second > 0) || !(to->samples_per_second > 0))
        return false;
    double samples0 = (double)(from->step * samples_per_step), samples1 = (double)(to->step * samples_per_step);
    double seconds0 = samples0 / from->samples_per_second, seconds1 = samples1 / to->samples_per_second;
    double seconds = seconds1 - seconds0;
    if (!(seconds > 0))
        return false;
    *samples_per_second = (samples1 - samples0) / seconds;
    *tokens_per_second = (to->tokens_per_second * seconds1 - from->tokens_per_second * seconds0) / seconds;
    return true;
}
