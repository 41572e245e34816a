/* Which devices this build has kernels for. */
#include "cuda/arch.h"

#include "backend/backend.h"
#include "cuda/kernels.h"

#include <cuda_runtime_api.h>

enum { OLDEST_ARCH = 80 };

/* Compute capabilities, times ten, that kernels were compiled for (src/cuda/meson.build). */
static const int built_for[] = {SNUG_GPU_ARCH};
enum { N_BUILT_FOR = sizeof built_for / sizeof *built_for };

int backend_cuda_arch(int i)
{
    return i < N_BUILT_FOR ? built_for[i] : 0;
}

/* Which of them a device runs: machine code runs on its own generation, if the device is not older; the last one's PTX on
 * all that are newer. 0: none. */
int cuda_arch_code(int arch)
{
    int last = built_for[N_BUILT_FOR - 1], found = arch > last ? last : 0;
    for (int i = 0; i < N_BUILT_FOR; i++)
        if (arch / 10 == built_for[i] / 10 && arch >= built_for[i])
            found = built_for[i];
    return found;
}

int cuda_arch_read(int device, int *arch)
{
    int major = 0, minor = 0, code = (int)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (!code)
        code = (int)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    *arch = 10 * major + minor;
    return code;
}

/* Their instructions are in no PTX for later GPUs. */
bool cuda_arch_sm90(int arch)
{
    return arch == 90 && cuda_arch_code(arch) == 90;
}

int cuda_call_device(struct cuda_call *c, int device)
{
    int arch, code = cuda_arch_read(device, &arch);
    c->sm90 = cuda_arch_sm90(arch);
    return code ? code : (int)cudaDeviceGetAttribute(&c->sms, cudaDevAttrMultiProcessorCount, device);
}

int cuda_arch_check(int arch, struct snug_err *err)
{
    if (arch < OLDEST_ARCH)
        return err_set(err, SNUG_ERR_ENV,
                       "--device cuda: compute capability %d.%d is older than 8.0 (Ampere); use --device cpu",
                       arch / 10, arch % 10);
    if (!cuda_arch_code(arch))
        return err_set(err, SNUG_ERR_ENV,
                       "--device cuda: this build has no kernels for compute capability %d.%d; build with "
                       "-Dgpu_arch=%d or all, or use --device cpu",
                       arch / 10, arch % 10, arch);
    return SNUG_OK;
}

int backend_cuda_count(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

bool backend_cuda_reach(const int *gpus, int n)
{
    bool all = true;
    for (int i = 0; i < n * n && all; i++) {
        int from = gpus[i / n], to = gpus[i % n], can = from == to;
        all = can || (cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess && can);
    }
    return all;
}

bool backend_cuda_present(void)
{
    int arch;
    return backend_cuda_count() > 0 && !cuda_arch_read(0, &arch) && arch >= OLDEST_ARCH;
}
