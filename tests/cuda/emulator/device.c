/* What the device says of itself, and what it never has to say. */
#include <cuda_runtime_api.h>
#include <stddef.h>

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device ? cudaErrorInvalidDevice : cudaSuccess;
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
    (void)device;
    *p = (struct cudaDeviceProp){
        .name = "emulated", .major = 8, .multiProcessorCount = 4, .totalGlobalMem = (size_t)8 << 30};
    return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    (void)limit, (void)value;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

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

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *why)
{
    (void)name, (void)version, (void)flags, (void)why;
    *out = NULL;
    return cudaErrorNotSupported;
}
