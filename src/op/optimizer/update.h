/* update.h: what the updates of single elements share in the reference (optimizer.c: t, lr, coef, copy). */
#ifndef OP_UPDATE_H
#define OP_UPDATE_H

#include "op/optimizer/rounding.h"

#include <string.h>

/* What the gradient is multiplied with; negative: change nothing. */
static inline double update_coefficient(const struct tensor *coef)
{
    return coef->data ? *(const double *)coef->data : 1;
}

/* Elements from `from` on of a tensor, as they are stored. */
static inline void update_round(const double *step, int64_t noise, enum rounding_part part, int64_t from, int64_t n,
                                double *x)
{
    for (int64_t i = 0; noise && x && i < n; i++)
        x[i] = rounding_store(step, noise, part, from + i, x[i]);
}

static inline void update_write_copy(const struct tensor *copy, const struct tensor *p)
{
    if (copy->data)
        memcpy(copy->data, p->data, sizeof(double) * (size_t)tensor_elements(p));
}

#endif
