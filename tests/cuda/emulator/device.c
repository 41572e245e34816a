/* What a device says of itself. There is one, or as many as SNUG_EMULATED_GPUS says, of one memory. An error of a kernel or of memory
 * ends the program (fault, emulator_stop), so few calls can fail. */
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local int current;

cudaError_t cudaGetDeviceCount(int *n)
{
    const char *several = getenv("SNUG_EMULATED_GPUS");
    *n = several ? atoi(several) : 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    int n;
    cudaGetDeviceCount(&n);
    if (device < 0 || device >= n)
        return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = 8;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value = 4; /* so that grids cut by it have several parts */
        return cudaSuccess;
    case cudaDevAttrL2CacheSize:
        *value = 1 << 20;
        return cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    const pid_t process = getpid(); /* each has devices of its own */
    *p = (struct cudaDeviceProp){
        .name = "emulated", .major = 8, .multiProcessorCount = 4, .totalGlobalMem = (size_t)8 << 30};
    memcpy(p->uuid.bytes, &process, sizeof process);
    memcpy(p->uuid.bytes + 8, &device, sizeof device);
    return cudaSuccess;
}

/* snug sets the size of stacks. Here each thread has the local memory that its functions declare (grid.c), so none is too small. */
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    (void)limit, (void)value;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer && !getenv("SNUG_EMULATED_APART");
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)flags;
    return peer == current ? cudaErrorInvalidDevice : cudaSuccess;
}

/* What was enqueued is done already (emulator_enqueue). */
cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

/* What a launch leaves behind as an error on a GPU ends the program here. */
cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code ? "an error of the emulator" : "no error";
}

const char *cudaGetErrorName(cudaError_t code)
{
    return code ? "cudaErrorEmulator" : "cudaSuccess";
}

/* There is no driver. snug asks for its tensor maps alone, which are for compute capability 9.0 and more. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *why)
{
    (void)name, (void)version, (void)flags, (void)why;
    *out = NULL;
    return cudaErrorNotSupported;
}
