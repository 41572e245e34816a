/* stable_adamw.h: the factors of a step that all kernels of stable_adamw share. */
#ifndef OP_STABLE_ADAMW_H
#define OP_STABLE_ADAMW_H

#include "base/philox.h"

#include <math.h>

/* 1 - b at step t, which counts from 1: the share of the new gradient in a moment that needs no correction of its bias. */
ON_DEVICE static inline double stable_adamw_rest(double beta, double t)
{
    return (1 - beta) / (1 - pow(beta, t));
}

/* The rate of a tensor of n elements; `sum` is that of g^2 / max(v, eps^2). */
ON_DEVICE static inline double stable_adamw_rate(double learning_rate, double sum, double n)
{
    double rms = sqrt(sum / n);
    return learning_rate / (rms > 1 ? rms : 1);
}

#endif
