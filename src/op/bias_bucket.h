/* bias_bucket.h: which entry of a table of biases a query and a key have, by how far apart they are: T5's buckets (Raffel et al.,
 * arXiv 1910.10683) in both directions. Half of them is for keys behind the query. Of a half, the first half has a bucket for each
 * distance; the others grow with the logarithm of the distance, up to `furthest`. */
#ifndef OP_BIAS_BUCKET_H
#define OP_BIAS_BUCKET_H

#include "base/philox.h"

#include <math.h>

/* The border between two buckets is a whole distance, where the logarithms of two machines could differ in the last bit: a little is
 * added, less than what the next distance adds. */
ON_DEVICE static inline int32_t bias_bucket(int64_t query, int64_t key, int64_t buckets, int64_t furthest)
{
    int32_t half = (int32_t)(buckets / 2), exact = half / 2, behind = key > query ? half : 0;
    int64_t apart = key > query ? key - query : query - key;
    if (apart < exact)
        return behind + (int32_t)apart;
    float share = logf((float)apart / (float)exact) / logf((float)furthest / (float)exact);
    int32_t far = exact + (int32_t)(share * (float)(half - exact) + 1e-4f);
    return behind + (far < half ? far : half - 1);
}

#endif
