/* The device's memory. */
#include "ptx.h"
#include "runtime.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void emulator_stop(const char *what)
{
    fprintf(stderr, "emulator: %s\n", what);
    exit(99);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void emulator_lock(void)
{
    pthread_mutex_lock(&lock);
}

void emulator_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void *emulator_reserve(size_t bytes)
{
    void *p = aligned_alloc(512, (bytes + 511) / 512 * 512);
    if (!p)
        emulator_stop("no memory");
    return p;
}

void *emulator_zeroed(size_t n, size_t bytes)
{
    void *p = calloc(n + !n, bytes);
    if (!p)
        emulator_stop("no memory");
    return p;
}

void *emulator_resize(void *p, size_t n, size_t bytes)
{
    p = realloc(p, n * bytes);
    if (!p)
        emulator_stop("no memory");
    return p;
}

static struct {
    uint64_t from;
    size_t bytes;
} blocks[4096];
static size_t n_blocks;

void global_memory_add(uint64_t address, size_t bytes)
{
    if (n_blocks == sizeof blocks / sizeof *blocks)
        emulator_stop("too many allocations");
    blocks[n_blocks].from = address;
    blocks[n_blocks++].bytes = bytes;
}

bool global_memory_has(uint64_t address, size_t bytes)
{
    static size_t last;
    for (size_t k = 0; k <= n_blocks; k++) {
        size_t i = k ? k - 1 : last;
        if (i < n_blocks && address >= blocks[i].from && address - blocks[i].from + bytes <= blocks[i].bytes) {
            last = i;
            return true;
        }
    }
    return false;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    *p = emulator_reserve(bytes);
    memset(*p, 0xff, bytes);
    emulator_lock();
    global_memory_add((uint64_t)(uintptr_t)*p, bytes);
    emulator_unlock();
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    emulator_lock();
    for (size_t i = 0; i < n_blocks; i++)
        if (blocks[i].from == (uint64_t)(uintptr_t)p) {
            blocks[i] = blocks[--n_blocks];
            free(p);
            break;
        }
    emulator_unlock();
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(p, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}

cudaError_t cudaMemGetInfo(size_t *room, size_t *total)
{
    *room = (size_t)8 << 30;
    *total = (size_t)8 << 30;
    return cudaSuccess;
}
