/* bias_bucket.h: which entry of a table of biases a query and a key have, by how far apart they are: T5's buckets (Raffel et al.,
 * arXiv 1910.10683). In both directions half of them is for keys behind the query; one way all are for keys before it. Of those for a
 * direction, the first half has a bucket for each distance; the others grow with the logarithm of the distance, up to `furthest`. */
#ifndef OP_BIAS_BUCKET_H
#define OP_BIAS_BUCKET_H

#include "base/philox.h"

#include <math.h>
#include <stdbool.h>

/* The border between two buckets is a whole distance, where the logarithms of two machines could differ in the last bit: a little is
 * added, less than what the next distance adds. */
ON_DEVICE static inline int32_t bias_bucket(int64_t query, int64_t key, int64_t buckets, int64_t furthest, bool one_way)
{
    int32_t own = (int32_t)(one_way ? buckets : buckets / 2), exact = own / 2;
    int32_t before = key > query && !one_way ? own : 0; /* buckets of the other direction */
    int64_t apart = query >= key ? query - key : one_way ? 0 : key - query;
    if (apart < exact)
        return before + (int32_t)apart;
    float share = logf((float)apart / (float)exact) / logf((float)furthest / (float)exact);
    int32_t far = exact + (int32_t)(share * (float)(own - exact) + 1e-4f);
    return before + (far < own ? far : own - 1);
}

#endif
