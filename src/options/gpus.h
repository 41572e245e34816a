/* gpus.h: --gpus: which GPUs a run has, one for each rank. */
#ifndef OPTIONS_GPUS_H
#define OPTIONS_GPUS_H

#include "backend/backend.h"
#include "options/options.h"

struct gpus {
    int n; /* 0: not asked for */
    int of
        [BACKEND_GPUS]; /* ordinals, as CUDA counts them; the same one may come twice. 0 in a plan for GPUs elsewhere */
};

/* "2": the first two; "all"; "0,2": these, and "2,": this one. In a plan for GPUs that are elsewhere only their number counts. */
int options_gpus(const struct options *o, struct gpus *out, struct snug_err *err);

#endif
