/* arena.h: the arena of a device, and the ways into and out of it, as struct backend_arena. */
#ifndef CUDA_ARENA_H
#define CUDA_ARENA_H

#include "cuda/facts.h"

#include <cuda_runtime_api.h>

enum { STAGING = CUDA_STAGING };

struct cuda_arena {
    char *base;
    int64_t bytes, inputs_bytes;
    cudaStream_t copies; /* of inputs */
    /* The inputs' way: image (pinned host memory) -> staging in the arena -> the inputs. Two of each are used alternately. */
    char *image[STAGING];
    cudaEvent_t copied[STAGING]; /* image -> staging is over: the image may be written */
    cudaEvent_t placed[STAGING]; /* staging -> inputs is over: staging may be written */
    int next;                    /* which of the two comes next */
    cudaEvent_t fetched[BACKEND_FLIGHTS];
};

extern const struct backend_arena cuda_arena;
extern const struct backend_arena cuda_arena_absent; /* of a device that is not there: for plans */

/* To be closed even where it fails. */
int cuda_arena_open(struct cuda_arena *a, int device, struct snug_err *err);
void cuda_arena_close(struct cuda_arena *a);

#endif
