/* ademamix.h: the factors of a step that all kernels of ademamix share. */
#ifndef OP_ADEMAMIX_H
#define OP_ADEMAMIX_H

#include "base/philox.h"

#include <math.h>

/* alpha grows to its value in t_alpha steps, beta3 from beta1 to its value in t_beta3 steps (0: no warm-up); t counts from
 * 1. The half-life of beta3's average grows linearly: ln b1 ln b3 / ((1-s) ln b3 + s ln b1), s = t / t_beta3. */
ON_DEVICE static inline double ademamix_alpha(double alpha, double t_alpha, double t)
{
    return t_alpha > 0 && t < t_alpha ? alpha * t / t_alpha : alpha;
}

ON_DEVICE static inline double ademamix_beta3(double beta1, double beta3, double t_beta3, double t)
{
    if (!(t_beta3 > 0) || t >= t_beta3)
        return beta3;
    double l1 = log(fmax(beta1, 1e-300)), l3 = log(beta3), s = t / t_beta3; /* beta1 may be 0 */
    return fmin(exp(l1 * l3 / ((1 - s) * l3 + s * l1)), beta3);
}

#endif
