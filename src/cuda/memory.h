/* memory.h: how much of the current device's memory is free. */
#ifndef CUDA_MEMORY_H
#define CUDA_MEMORY_H

#include <stdint.h>

struct nvml;

int64_t cuda_free_bytes(void); /* 0 where nothing is known */
int64_t cuda_used_bytes(const struct nvml *nvml,
                        int device); /* as NVML counts; as CUDA does where there is none (NULL) */

#endif
