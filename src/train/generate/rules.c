#include "train/generate/rules.h"

#include <math.h>
#include <string.h>

/* Once for each token, however often the text has it. */
static void penalise(const struct rules *r, const int32_t *ids, int64_t n, float *logits)
{
    for (int64_t i = 0; i < n; i++) {
        float *x = &logits[ids[i]];
        if (!r->seen[ids[i]])
            *x = *x < 0 ? *x * (float)r->penalty : *x / (float)r->penalty;
        r->seen[ids[i]] = true;
    }
    for (int64_t i = 0; i < n; i++)
        r->seen[ids[i]] = false;
}

/* Where the last tokens have stood before, what followed them must not. */
static void forbid_repeats(const struct rules *r, const int32_t *ids, int64_t n, float *logits)
{
    int64_t same = r->no_repeat - 1;
    for (int64_t i = 0; i + same < n; i++)
        if (!memcmp(ids + i, ids + n - same, (size_t)same * sizeof *ids))
            logits[ids[i + same]] = -INFINITY;
}

void rules_apply(const struct rules *r, const int32_t *ids, int64_t n, int64_t n_prompt, float *logits)
{
    if (r->penalty != 1)
        penalise(r, ids, n, logits);
    if (r->no_repeat)
        forbid_repeats(r, ids, n, logits);
    for (int i = 0; i < r->n_stops && (n < r->least || n - n_prompt < r->new_least); i++)
        logits[r->stops[i]] = -INFINITY;
}
