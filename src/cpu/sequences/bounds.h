/* bounds.h: which rows a row's sequence has. */
#ifndef CPU_BOUNDS_H
#define CPU_BOUNDS_H

#include "cpu/kernels.h"

/* Rows [from, to) are those of sequence b. */
struct bounds {
    int64_t b, from, to;
};

/* The sequence that has row n; no rows, and no b, for one behind all sequences. cu (B+1) I32. */
static inline struct bounds bounds_of(const struct tensor *cu, int64_t n)
{
    const int32_t *first = cu->data;
    int64_t low = 0, high = cu->shape[0] - 1; /* first[low] <= n < first[high] */
    if (n >= first[high])
        return (struct bounds){-1, n, n};
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        *(first[middle] <= n ? &low : &high) = middle;
    }
    return (struct bounds){low, first[low], first[low + 1]};
}

#endif
