/* rows.h: rows that are sorted by expert, as route leaves them, for the reference and the cpu backend. */
#ifndef OP_EXPERTS_ROWS_H
#define OP_EXPERTS_ROWS_H

#include "graph/graph.h"

#include <math.h>

/* Whether expert e with logit x comes before expert f with logit y: it has the larger one or, of equal ones, is the first. */
static inline bool experts_before(double x, int64_t e, double y, int64_t f)
{
    x = isnan(x) ? -INFINITY : x;
    y = isnan(y) ? -INFINITY : y;
    return x > y || (x == y && e < f);
}

/* From the expert of each of n rows to its place, and to where the E experts' rows begin. */
static inline void experts_sort(int32_t *places, int32_t *offsets, int64_t n, int64_t E)
{
    for (int64_t e = 0; e <= E; e++)
        offsets[e] = 0;
    for (int64_t i = 0; i < n; i++)
        offsets[places[i] + 1]++;
    for (int64_t e = 0; e < E; e++)
        offsets[e + 1] += offsets[e];
    for (int64_t i = 0; i < n;
         i++) /* offsets[e] is then where its next row goes: at the end, where those of e + 1 begin */
        places[i] = offsets[places[i]]++;
    for (int64_t e = E; e > 0; e--)
        offsets[e] = offsets[e - 1];
    offsets[0] = 0;
}

/* The expert that has row `place`. */
static inline int64_t experts_of(const int32_t *offsets, int64_t E, int32_t place)
{
    int64_t low = 0, high = E; /* offsets[low] <= place < offsets[high] */
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (offsets[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Whether `places` has k entries for each of N tokens. */
static inline bool experts_places_fit(const struct value *places, struct dim N, int64_t k)
{
    return places->ndim == 1 && places->dtype == DT_I32 && dim_equal(places->shape[0], dim_plus(DIM(0), k, N));
}

#endif
