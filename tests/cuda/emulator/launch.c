/* Kernels. nvcc compiles each to a function of the host that launches it, and registers that function's address with the kernel's name.
 * From then on the address stands for the kernel. */
#include "enqueue.h"
#include "ptx.h"
#include "runtime.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <string.h>

enum { DEVICES = 16 };

static struct kernel {
    const void *host; /* the function that launches it */
    const char *name;
    bool loaded[DEVICES];
} kernels[8192];
static size_t n_kernels;

void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, uint3 *tid,
                            uint3 *bid, dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);

/* What nvcc puts into an object file, as its own headers and the file itself tell: entries of machine code and of PTX. */
struct fat_wrapper {
    uint32_t magic, version;
    const uint8_t *data;
};

struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all entries */
};

struct fat_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t unused[6];
    uint64_t flags;
};

enum { FAT_PTX = 1, FAT_COMPRESSED = 0xa000 };

static struct {
    const char *text;
    size_t n;
} modules[128];
static size_t n_modules, n_read;

void **__cudaRegisterFatBinary(void *image)
{
    const struct fat_header *h = (const void *)((const struct fat_wrapper *)image)->data;
    const uint8_t *at = (const uint8_t *)h + h->header_bytes, *end = at + h->bytes;
    for (const struct fat_entry *e; at < end; at += e->header_bytes + e->bytes) {
        e = (const void *)at;
        if (e->kind != FAT_PTX)
            continue;
        if (e->flags & FAT_COMPRESSED)
            emulator_stop("the kernels' PTX is compressed; configure with -Demulated_gpu=true");
        if (n_modules == sizeof modules / sizeof *modules)
            emulator_stop("too many modules");
        modules[n_modules].text = (const char *)at + e->header_bytes;
        modules[n_modules++].n = e->bytes;
    }
    return image;
}

/* The text of all modules is read when the first kernel is launched (kernel_of). */
void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

/* A program does this at its end, and the modules live as long. */
void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, uint3 *tid,
                            uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (n_kernels == sizeof kernels / sizeof *kernels)
        emulator_stop("too many kernels");
    kernels[n_kernels].host = host;
    kernels[n_kernels++].name = name;
}

/* The host reaches no variable of a kernel. */
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)bytes, (void)constant, (void)global;
}

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    pushed.grid = grid;
    pushed.block = block;
    pushed.shared = shared;
    pushed.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    memcpy(stream, &pushed.stream, sizeof pushed.stream);
    return cudaSuccess;
}

static struct kernel *kernel_of(const void *host)
{
    for (; n_read < n_modules; n_read++) {
        char *text = strndup(modules[n_read].text, modules[n_read].n);
        if (!text)
            emulator_stop("no memory");
        ptx_read(text); /* it lives as long as the program */
    }
    for (size_t i = 0; i < n_kernels; i++)
        if (kernels[i].host == host)
            return &kernels[i];
    emulator_stop("a kernel that was not registered");
}

/* A GPU gets a kernel's code when it is first launched or captured there. */
static void load(struct kernel *k)
{
    int device;
    cudaGetDevice(&device);
    if (device >= DEVICES)
        emulator_stop("too many devices");
    if (!k->loaded[device] && paused_grids())
        emulator_stop("code is loaded while a kernel waits for another one: a driver may let both wait for ever");
    k->loaded[device] = true;
}

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host)
{
    *out = (cudaKernel_t)(uintptr_t)host;
    return cudaSuccess;
}

struct started {
    struct launch launch;
    size_t param_bytes;
    uint8_t params[PARAM_BYTES];
};

static void run_started(const void *data)
{
    const struct started *s = data;
    memcpy(param_memory, s->params, s->param_bytes);
    run_grid(&s->launch);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream)
{
    static _Thread_local struct started s;
    emulator_lock();
    struct kernel *k = kernel_of((const void *)(uintptr_t)kernel);
    const struct function *f = ptx_kernel(k->name);
    load(k);
    emulator_unlock();
    s.launch = (struct launch){
        .kernel = f, .grid = {grid.x, grid.y, grid.z}, .block = {block.x, block.y, block.z}, .shared_bytes = shared};
    s.param_bytes = f->param_bytes;
    for (uint32_t i = 0; i < f->n_params; i++)
        memcpy(s.params + f->param_offset[i], args[i], f->param_size[i]);
    emulator_enqueue(stream, run_started, &s, offsetof(struct started, params) + s.param_bytes);
    return cudaSuccess;
}

/* ---- Clusters of blocks. Devices have them from compute capability 9.0 on. This one says 8.0 (device.c), and there snug takes kernels
 * without clusters: a call is a mistake. */

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *host, void **args)
{
    (void)config, (void)host, (void)args;
    return cudaErrorNotSupported;
}

cudaError_t cudaOccupancyMaxActiveClusters(int *n, const void *host, const cudaLaunchConfig_t *config)
{
    (void)host, (void)config;
    *n = 0;
    return cudaErrorNotSupported;
}

/* Kernels ask for shared memory beyond 48 KiB with this. A block has SHARED_BYTES here unasked, and run_grid refuses more. */
cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute attribute, int value)
{
    (void)host, (void)attribute, (void)value;
    return cudaSuccess;
}
