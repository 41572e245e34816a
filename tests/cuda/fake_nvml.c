/* NVML of a machine with two devices, 24 GB and 48 GB, the second in use by processes 41 and 42; written from NVIDIA's
 * reference manual. FAKE_NVML_FAILS names a call that fails. */
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, UNKNOWN = 999 };

typedef struct nvmlDevice_st {
    const char *name, *uuid;
    unsigned long long total, used;
} * nvmlDevice_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

static struct nvmlDevice_st devices[2] = {
    {"NVIDIA First", "GPU-11111111-0000-0000-0000-000000000001", 24000000000u, 500000000u},
    {"NVIDIA Second", "GPU-22222222-0000-0000-0000-000000000002", 48000000000u, 7000000000u},
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned int *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);
int nvmlSystemGetDriverVersion(char *version, unsigned int length);

static int fails(const char *call)
{
    const char *name = getenv("FAKE_NVML_FAILS");
    return name && !strcmp(name, call) ? UNKNOWN : SUCCESS;
}

int nvmlInit_v2(void)
{
    return fails("init");
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = 2;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    if (index >= 2)
        return INVALID_ARGUMENT;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    for (int i = 0; i < 2; i++)
        if (!strcmp(devices[i].uuid, uuid)) {
            *device = &devices[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    strncpy(name, device->name, length);
    return fails("name");
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    *memory = (nvmlMemory_t){device->total, device->total - device->used, device->used};
    return fails("memory");
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    if (device == &devices[0] || *count < 2) {
        *count = 0;
        return SUCCESS;
    }
    *count = 2;
    infos[0] = (nvmlProcessInfo_t){41, 2000000000u, 0, 0};
    infos[1] = (nvmlProcessInfo_t){42, ~0ull, 0, 0};
    return fails("processes");
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    strncpy(version, "999.12.34", length);
    return fails("driver");
}
