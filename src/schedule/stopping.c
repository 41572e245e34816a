#include "schedule/stopping.h"

#include <math.h>

void stopping_count(struct stopping *s, const struct options *o, double metric)
{
    if (!s->begun)
        s->best = o->greater_is_better ? -INFINITY : INFINITY;
    bool better = o->greater_is_better ? metric > s->best : metric < s->best; /* no NaN is */
    bool counts = !s->begun || (better && fabs(metric - s->best) > o->early_stopping_threshold);
    s->failed = counts ? 0 : s->failed + 1;
    s->best = better ? metric : s->best;
    s->begun = true;
}

bool stopping_is_due(const struct stopping *s, const struct options *o)
{
    return option_given(o, early_stopping_patience) && s->failed >= o->early_stopping_patience;
}
