/* The arena and the ways into and out of it: inputs come by way of pinned memory on a stream of their own. */
#include "base/machine.h"
#include "cuda/device.h"
#include "cuda/memory.h"

#include <string.h>

static void release(const struct backend *b, void *p, int64_t bytes)
{
    struct cuda *d = cuda_of(b);
    (void)bytes;
    cuda_lanes_settle(&d->lanes, NULL);
    cudaStreamSynchronize(d->call.stream);
    recordings_forget(&d->recordings);
    cuda_pages_forget(&d->pages);
    memset(d->arena.image, 0, sizeof d->arena.image);
    d->arena.bytes = 0;
    d->arena.base = NULL;
    cudaFree(p);
}

static int alloc_host(const struct backend *b, int64_t bytes, void **p, struct snug_err *err)
{
    int code = (int)cudaHostAlloc(p, (size_t)bytes, cudaHostAllocDefault);
    (void)b;
    if (code != cudaErrorMemoryAllocation)
        return cuda_check(code, "pinned memory", err);
    cudaGetLastError();
    return err_set(err, SNUG_ERR_ENV,
                   "cuda: the machine has no %lld bytes of pinned memory; free memory of the host, not of the device",
                   (long long)bytes);
}

static int alloc(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void *images, void **p,
                 struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    struct cuda_arena *a = &d->arena;
    TRY(cuda_check(cudaMalloc(p, (size_t)bytes), "the arena", err));
    a->inputs_bytes = inputs_bytes;
    a->bytes = bytes;
    a->base = *p;
    for (int i = 0; images && i < STAGING; i++) {
        a->image[i] = (char *)images + i * inputs_bytes;
        memset(a->image[i], 0, (size_t)inputs_bytes);
    }
    int code = cuda_check(cudaMemsetAsync(*p, 0, (size_t)bytes, d->call.stream), "clearing the arena", err);
    if (code)
        release(b, *p, bytes);
    return code;
}

/* Left free for what comes behind the arena: kernels, which CUDA loads when they first run, and graphs. A step took up
 * to some 20 MB; without them it fails, and not with cudaErrorMemoryAllocation. */
#define BEHIND_ARENA (INT64_C(64) << 20)

static int64_t available(const struct backend *b)
{
    int64_t room = cuda_free_bytes() - BEHIND_ARENA;
    (void)b;
    return room > 0 ? room : 0;
}

static int64_t host_available(const struct backend *b)
{
    (void)b;
    return machine_memory_available();
}

static int inputs(const struct backend *b, void *arena, void **image, struct snug_err *err)
{
    struct cuda_arena *a = &cuda_of(b)->arena;
    (void)arena;
    CUDA(cuda_whole_program(b), cudaEventSynchronize(a->copied[a->next]));
    *image = a->image[a->next];
    return SNUG_OK;
}

static int send(const struct backend *b, void *arena, struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    struct cuda_arena *a = &d->arena;
    int i = a->next;
    size_t bytes = (size_t)a->inputs_bytes;
    char *to = arena, *staging = to + (i + 1) * a->inputs_bytes;
    CUDA("inputs", cudaStreamWaitEvent(a->copies, a->placed[i], 0));
    CUDA("inputs", cudaMemcpyAsync(staging, a->image[i], bytes, cudaMemcpyHostToDevice, a->copies));
    CUDA("inputs", cudaEventRecord(a->copied[i], a->copies));
    CUDA("inputs", cudaStreamWaitEvent(d->call.stream, a->copied[i], 0));
    CUDA("inputs", cudaMemcpyAsync(to, staging, bytes, cudaMemcpyDeviceToDevice, d->call.stream));
    CUDA("inputs", cudaEventRecord(a->placed[i], d->call.stream));
    a->next = (i + 1) % STAGING;
    return SNUG_OK;
}

static void free_host(const struct backend *b, void *p)
{
    (void)b;
    cudaFreeHost(p);
}

static int fetch(const struct backend *b, int flight, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    CUDA("results", cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, d->call.stream));
    return cuda_check(cudaEventRecord(d->arena.fetched[flight], d->call.stream), "results", err);
}

static int wait(const struct backend *b, int flight, struct snug_err *err)
{
    return cuda_check(cudaEventSynchronize(cuda_of(b)->arena.fetched[flight]), cuda_whole_program(b), err);
}

static int finish(const struct backend *b, struct snug_err *err)
{
    TRY(cuda_lanes_settle(&cuda_of(b)->lanes, err));
    return cuda_check(cudaStreamSynchronize(cuda_of(b)->call.stream), cuda_whole_program(b), err);
}

static int upload(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    TRY(cuda_lanes_settle(&cuda_of(b)->lanes, err));
    CUDA("upload", cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, cuda_of(b)->call.stream));
    return finish(b, err);
}

static int download(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    TRY(cuda_lanes_settle(&cuda_of(b)->lanes, err));
    CUDA("download", cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, cuda_of(b)->call.stream));
    return finish(b, err);
}

const struct backend_arena cuda_arena = {.alloc = alloc,
                                         .free = release,
                                         .available = available,
                                         .host_available = host_available,
                                         .inputs = inputs,
                                         .send = send,
                                         .alloc_host = alloc_host,
                                         .free_host = free_host,
                                         .fetch = fetch,
                                         .wait = wait,
                                         .upload = upload,
                                         .download = download,
                                         .sync = finish};

int cuda_arena_open(struct cuda_arena *a, int device, struct snug_err *err)
{
    OPENING(device, cudaStreamCreateWithFlags(&a->copies, cudaStreamNonBlocking));
    for (int i = 0; i < BACKEND_FLIGHTS; i++)
        OPENING(device, cudaEventCreateWithFlags(&a->fetched[i], cudaEventDisableTiming));
    for (int i = 0; i < STAGING; i++) {
        OPENING(device, cudaEventCreateWithFlags(&a->copied[i], cudaEventDisableTiming));
        OPENING(device, cudaEventCreateWithFlags(&a->placed[i], cudaEventDisableTiming));
    }
    return SNUG_OK;
}

void cuda_arena_close(struct cuda_arena *a)
{
    for (int i = 0; i < STAGING; i++) {
        if (a->copied[i])
            cudaEventDestroy(a->copied[i]);
        if (a->placed[i])
            cudaEventDestroy(a->placed[i]);
    }
    for (int i = 0; i < BACKEND_FLIGHTS; i++)
        if (a->fetched[i])
            cudaEventDestroy(a->fetched[i]);
    if (a->copies)
        cudaStreamDestroy(a->copies);
}

/* ---- a device that is not there ---- */

static int no_alloc_host(const struct backend *b, int64_t bytes, void **p, struct snug_err *err)
{
    (void)b, (void)bytes, (void)p;
    return err_set(err, SNUG_ERR_ENV, "--device-profile: the device is not there; only plans can be made for it");
}

static int no_alloc(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void *images, void **p,
                    struct snug_err *err)
{
    (void)inputs_bytes, (void)images;
    return no_alloc_host(b, bytes, p, err);
}

static int64_t free_on_device(const struct backend *b)
{
    return cuda_of(b)->free_bytes;
}

const struct backend_arena cuda_arena_absent = {
    .alloc = no_alloc, .alloc_host = no_alloc_host, .available = free_on_device};
