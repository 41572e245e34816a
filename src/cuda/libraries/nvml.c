#include "cuda/libraries/nvml.h"

#include "base/mem.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The parts of NVML's interface that are used, as its reference manual has them ("NVML API Reference Guide"): every
 * call gives 0 for success. The names with _v2 and _v3 are those that nvml.h makes of the plain ones. */
typedef struct nvmlDevice_st *nvml_device;

struct nvml_memory_info {
    unsigned long long total, free, used;
};

struct nvml_process_info {
    unsigned pid;
    unsigned long long used; /* all ones: not told */
    unsigned gpu_instance, compute_instance;
};

#define NVML_CALLS(X)                                                                                                  \
    X(init, "nvmlInit_v2", (void))                                                                                     \
    X(shutdown, "nvmlShutdown", (void))                                                                                \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *))                                                                    \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))                                            \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *, nvml_device *))                                             \
    X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                                                      \
    X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory_info *))                                     \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3", (nvml_device, unsigned *, struct nvml_process_info *))     \
    X(driver, "nvmlSystemGetDriverVersion", (char *, unsigned))

enum { MAX_PROCESSES = 256 };

struct nvml {
    void *library;
#define MEMBER(call, name, arguments) int(*call) arguments;
    NVML_CALLS(MEMBER)
#undef MEMBER
};

static bool find_calls(struct nvml *n)
{
    bool all = true;
    void *at;
#define FIND(call, name, arguments)                                                                                    \
    at = dlsym(n->library, name);                                                                                      \
    memcpy(&n->call, &at, sizeof at); /* ISO C has no cast between the two kinds of pointers */                        \
    all = all && at;
    NVML_CALLS(FIND)
#undef FIND
    return all;
}

int nvml_open(struct nvml **out)
{
    struct nvml *n = *out = NULL;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return SNUG_ERR_ENV;
    n = mem_alloc(sizeof *n);
    if (n)
        n->library = library;
    if (!n || !find_calls(n) || n->init()) {
        dlclose(library);
        mem_free(n);
        return SNUG_ERR_ENV;
    }
    *out = n;
    return SNUG_OK;
}

void nvml_close(struct nvml *n)
{
    if (!n)
        return;
    n->shutdown();
    dlclose(n->library);
    mem_free(n);
}

/* The entry of CUDA_VISIBLE_DEVICES that stands for the device, with its length; NULL: there is none. */
static const char *visible_entry(const char *list, int device, size_t *length)
{
    for (; device > 0; device--) {
        list = strchr(list, ',');
        if (!list)
            return NULL;
        list++;
    }
    list += strspn(list, " ");
    *length = strcspn(list, ", ");
    return *length ? list : NULL;
}

static int find_device(const struct nvml *n, int device, nvml_device *out)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char entry[96];
    size_t length;
    if (device < 0)
        return SNUG_ERR_ENV;
    if (!list)
        return n->by_index((unsigned)device, out) ? SNUG_ERR_ENV : SNUG_OK;
    const char *at = visible_entry(list, device, &length);
    if (!at || length >= sizeof entry)
        return SNUG_ERR_ENV;
    memcpy(entry, at, length);
    entry[length] = 0;
    if (isdigit((unsigned char)*entry))
        return n->by_index((unsigned)strtoul(entry, NULL, 10), out) ? SNUG_ERR_ENV : SNUG_OK;
    return n->by_uuid(entry, out) ? SNUG_ERR_ENV : SNUG_OK; /* GPU-…, MIG-…; -1 ends the list, and is neither */
}

int nvml_devices(const struct nvml *n)
{
    unsigned installed;
    nvml_device ignored;
    int visible = 0;
    if (!n || n->count(&installed))
        return 0;
    while (visible < (int)installed && !find_device(n, visible, &ignored))
        visible++;
    return visible;
}

static int64_t bytes_of_process(const struct nvml *n, nvml_device device, pid_t process)
{
    struct nvml_process_info list[MAX_PROCESSES];
    unsigned count = MAX_PROCESSES;
    if (n->processes(device, &count, list))
        return -1;
    for (unsigned i = 0; i < count && i < MAX_PROCESSES; i++)
        if (list[i].pid == (unsigned)process && list[i].used != ~0ull)
            return (int64_t)list[i].used;
    return -1;
}

int nvml_read(const struct nvml *n, int device, pid_t process, struct nvml_memory *out)
{
    struct nvml_memory_info memory;
    nvml_device handle;
    *out = (struct nvml_memory){0};
    if (!n || find_device(n, device, &handle) || n->memory(handle, &memory))
        return SNUG_ERR_ENV;
    out->total_bytes = (int64_t)memory.total;
    out->used_bytes = (int64_t)memory.used;
    out->process_bytes = bytes_of_process(n, handle, process);
    if (n->name(handle, out->name, sizeof out->name))
        *out->name = 0;
    if (n->driver(out->driver, sizeof out->driver))
        *out->driver = 0;
    return SNUG_OK;
}

int nvml_memory(int device, struct nvml_memory *out)
{
    struct nvml *n;
    *out = (struct nvml_memory){0};
    TRY(nvml_open(&n));
    int code = nvml_read(n, device, getpid(), out);
    nvml_close(n);
    return code;
}
