/* clip.h: what one optimizer step makes of the sum of squares of all gradients; every backend's clip calls this.
 *
 *     norm = sqrt(sum) / scale                     of the gradients as they would be without loss scaling
 *     coef = min(1, max_norm / (norm + 1e-6)) / scale    (max_norm 0: 1 / scale); -1, skip, where norm is not finite
 *
 * Dynamic loss scaling (torch.amp.GradScaler): the scale halves after a step that is skipped, and doubles after
 * LOSS_SCALE_INTERVAL good ones in a row. That a step is skipped does not count as an update: the host knows it from the
 * norm, before it gives the next step's learning rate and number. */
#ifndef OP_CLIP_H
#define OP_CLIP_H

#include "base/philox.h"
#include "graph/op.h"

#include <float.h>
#include <math.h>

enum { LOSS_SCALE_INTERVAL = 2000 };

/* scaler NULL: no loss scaling. */
ON_DEVICE static inline void clip_decide(double sum, double max_norm, double *scaler, double *norm, double *coef)
{
    double scale = scaler ? scaler[SCALER_SCALE] : 1;
    *norm = sqrt(sum) / scale;
    bool finite = *norm - *norm == 0;
    double share = max_norm > 0 ? max_norm / (*norm + 1e-6) : 1;
    *coef = finite ? (share < 1 ? share : 1) / scale : -1;
    if (!scaler)
        return;
    if (!finite) {
        scaler[SCALER_SCALE] = scale * 0.5;
        scaler[SCALER_GOOD] = 0;
        scaler[SCALER_SKIPPED]++;
    } else if (++scaler[SCALER_GOOD] >= LOSS_SCALE_INTERVAL) {
        if (scale * 2 <= FLT_MAX) /* kernels take it as a float */
            scaler[SCALER_SCALE] = scale * 2;
        scaler[SCALER_GOOD] = 0;
    }
}

#endif
