/* memory.h: how much of the current device's memory is free. */
#ifndef CUDA_MEMORY_H
#define CUDA_MEMORY_H

#include <stdint.h>

struct nvml;

/* Bytes; 0 where nothing is known. */
int64_t cuda_free_bytes(void);

/* Bytes in use on a device, by whomever: as NVML counts, or as CUDA does where there is no NVML (NULL). */
int64_t cuda_used_bytes(const struct nvml *nvml, int device);

#endif
