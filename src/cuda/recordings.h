/* recordings.h: sequences of nodes as CUDA graphs: what is given for the second time is captured, and launched whole from then
 * on. Each belongs to the buffers of one arena.
 *
 * A sequence in which ranks exchange something is captured at once, and all ranks meet before and behind its launch. For while a rank waits
 * on its GPU, another must not load code or allocate: the driver may hold that until the GPU is idle, and so for ever. What is given node
 * by node is captured, too, the first time, because that loads the code. */
#ifndef CUDA_RECORDINGS_H
#define CUDA_RECORDINGS_H

#include "backend/backend.h"
#include "cuda/kernels.h"
#include "cuda/lanes.h"

#include <cuda_runtime_api.h>

/* A sequence that was given at least once; from the second time on it is a CUDA graph. */
struct recording {
    struct sequence of;
    cudaGraphExec_t graph; /* NULL: given once so far */
    bool exchanges;        /* with other ranks */
};

struct recordings {
    struct cuda_lanes *lanes; /* what work is given to; the owner's */
    struct recording *items;
    size_t n, cap;
    int forget;     /* where the next place of a sequence that was given once is looked for */
    int place;      /* index + 1 of the recording of what recordings_run gets next, 0 for none */
    bool capturing; /* that shall make it */
    bool no_more;   /* since the device had no memory for one */
    int made;       /* graphs, */
    int64_t bytes;  /* the device's memory that they took, */
    double seconds; /* and how long making them took */
};

/* As replay of struct backend; `what`: of what an error then is. */
int recordings_replay(struct recordings *r, const struct sequence *s, const struct cuda_call *c, const char *what,
                      bool *known, struct snug_err *err);

/* Runs n nodes, which recordings_replay has just not known. */
int recordings_run(struct recordings *r, const struct cuda_call *c, const struct work *work, int n,
                   struct snug_err *err);

/* As run_on of struct backend. */
int recordings_run_on(struct recordings *r, const struct sequence *s, const struct cuda_call *c,
                      const struct work *work, int n, struct snug_err *err);

/* Destroys all graphs: their arena goes. */
void recordings_forget(struct recordings *r);

#endif
