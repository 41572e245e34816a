#include "model/relative.h"

#include <math.h>

/* He et al., arXiv 2006.03654, section 3.2, and transformers' make_log_bucket_position, in floats as there: some bucket's border is
 * nearer to a whole distance than they can tell. */
static int64_t bucket(const struct relative *r, int64_t distance)
{
    int64_t apart = distance < 0 ? -distance : distance, half = r->buckets / 2;
    if (!r->buckets || apart <= half)
        return distance;
    float last = (float)((double)(r->furthest - 1) / (double)half);
    float share = logf((float)apart / (float)half) / logf(last);
    int64_t far = half + (int64_t)ceilf(share * (float)(half - 1));
    return distance < 0 ? -far : far;
}

void relative_rows(const struct relative *r, int64_t longest, int32_t *rows)
{
    for (int64_t distance = 1 - longest; distance < longest; distance++) {
        int64_t row = bucket(r, distance) + r->rows / 2;
        rows[distance + longest - 1] = (int32_t)(row < 0 ? 0 : row >= r->rows ? r->rows - 1 : row);
    }
}
