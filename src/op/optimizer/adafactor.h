/* adafactor.h: what the kernels of adafactor share: how a tensor is cut into matrices, and the factors of a step. */
#ifndef OP_ADAFACTOR_H
#define OP_ADAFACTOR_H

#include "base/philox.h"
#include "graph/op.h"

#include <math.h>

/* A tensor of two or more dimensions is `lead` matrices (rows, columns); one of fewer is not factored. */
struct adafactor_shape {
    int64_t lead, rows, columns, n;
    bool factored;
};

static inline struct adafactor_shape adafactor_shape(const struct tensor *p)
{
    struct adafactor_shape s = {.lead = 1, .rows = 1, .columns = 1, .factored = p->ndim >= 2};
    for (int i = 0; i < p->ndim - 2; i++)
        s.lead *= p->shape[i];
    if (s.factored)
        s.rows = p->shape[p->ndim - 2];
    if (p->ndim >= 1)
        s.columns = p->shape[p->ndim - 1];
    s.n = s.lead * s.rows * s.columns;
    return s;
}

/* beta2_t = 1 - t^decay_rate, and the step size but for max(1, rms(U) / clip_threshold). rms_p: of the parameter, before
 * the update; not looked at without scale_parameter. */
ON_DEVICE static inline double adafactor_beta2(double decay_rate, double t)
{
    return 1 - pow(t, decay_rate);
}

ON_DEVICE static inline double adafactor_rate(double lr, double t, double rms_p, double eps2, bool scale_parameter,
                                              bool relative_step, bool warmup_init)
{
    double most = warmup_init ? 1e-6 * t : 1e-2, a = relative_step ? fmin(most, 1 / sqrt(t)) : lr;
    return scale_parameter ? a * fmax(eps2, rms_p) : a;
}

#endif
