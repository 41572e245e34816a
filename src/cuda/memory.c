#include "cuda/memory.h"

#include "cuda/errors.h"
#include "cuda/libraries/nvml.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <unistd.h>

static bool memory_of_device(size_t *room, size_t *total)
{
    return !cuda_check(cudaMemGetInfo(room, total), "memory", NULL);
}

int64_t cuda_free_bytes(void)
{
    size_t room = 0, total;
    return memory_of_device(&room, &total) ? (int64_t)room : 0;
}

int64_t cuda_used_bytes(const struct nvml *nvml, int device)
{
    struct nvml_memory m;
    size_t room, total;
    if (nvml && !nvml_read(nvml, device, getpid(), &m))
        return m.used_bytes;
    return memory_of_device(&room, &total) ? (int64_t)(total - room) : 0;
}
