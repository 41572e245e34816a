/* device.h: the cuda backend's own state. Each part of it is used by the file that it is named after. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include "backend/backend.h"
#include "cuda/arena.h"
#include "cuda/kernels.h"
#include "cuda/measured.h"
#include "cuda/pages.h"
#include "cuda/peers/peers.h"
#include "cuda/recordings.h"

struct cuda {
    struct backend base;
    struct cuda_call call; /* but for workspace and err */
    struct cuda_arena arena;
    struct cuda_lanes lanes;
    struct recordings recordings;
    struct cuda_measured measured;
    struct cuda_pages pages; /* what call.pages is */
    struct cuda_peers peers; /* what call.peers is */

    struct cuda_settings settings; /* as it was opened */
    int device;                    /* ordinal */
    char name[256];                /* of a device that is there */
    int arch;                      /* its compute capability, times ten */
    int64_t free_bytes;            /* of a device that is not there */
    struct nvml *nvml;             /* NULL: there is no such library */
    int64_t before_bytes;          /* in use on the device before this process began */
};

/* A backend is const to its users; what it keeps for itself is not. */
static inline struct cuda *cuda_of(const struct backend *b)
{
    return (struct cuda *)b;
}

/* Where an error of work that was enqueued long ago shows. */
static inline const char *cuda_whole_program(const struct backend *b)
{
    return b->facts.one_by_one ? "a node" : "a program (CUDA_LAUNCH_BLOCKING=1 names the op)";
}

#endif
