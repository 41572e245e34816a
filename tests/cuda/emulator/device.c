/* What the device says of itself. There is one. An error of a kernel or of memory ends the program (fault, emulator_stop), so few calls
 * can fail. */
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

/* snug sets the size of stacks. Here each thread has the local memory that its functions declare (grid.c), so none is too small. */
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    (void)limit, (void)value;
    return cudaSuccess;
}

/* One device has no peers. */
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device, (void)peer;
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return cudaErrorInvalidDevice;
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
