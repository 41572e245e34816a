/* Work on the device's one stream, graphs of it, and events. A graph is captured from the calls of one thread. */
#include "enqueue.h"
#include "runtime.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct item {
    void (*run)(const void *data);
    void *data;
};

struct CUgraph_st {
    struct item *items;
    size_t n, room;
    int owners; /* the graph and what was instantiated from it */
};

static _Thread_local struct CUgraph_st *capturing;

void emulator_enqueue(void (*run)(const void *data), const void *data, size_t bytes)
{
    struct CUgraph_st *g = capturing;
    if (!g) {
        emulator_lock();
        run(data);
        emulator_unlock();
        return;
    }
    if (g->n == g->room) {
        g->room = g->room ? 2 * g->room : 64;
        g->items = emulator_resize(g->items, g->room, sizeof *g->items);
    }
    g->items[g->n] = (struct item){run, emulator_reserve(bytes)};
    memcpy(g->items[g->n++].data, data, bytes);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)stream;
    (void)mode;
    capturing = emulator_zeroed(1, sizeof *capturing);
    capturing->owners = 1;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    (void)stream;
    *out = capturing;
    capturing = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags)
{
    (void)flags;
    g->owners++;
    *out = (cudaGraphExec_t)g;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    if (--g->owners)
        return cudaSuccess;
    for (size_t i = 0; i < g->n; i++)
        free(g->items[i].data);
    free(g->items);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    return cudaGraphDestroy((cudaGraph_t)g);
}

/* A graph is in the host's memory, where it is launched from. */
cudaError_t cudaGraphUpload(cudaGraphExec_t g, cudaStream_t stream)
{
    (void)g;
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)stream;
    const struct CUgraph_st *g = (cudaGraph_t)exec;
    for (size_t i = 0; i < g->n; i++) {
        emulator_lock();
        g->items[i].run(g->items[i].data);
        emulator_unlock();
    }
    return cudaSuccess;
}

struct transfer {
    void *to;
    const void *from;
    size_t bytes, rows, to_pitch, from_pitch;
    int value; /* where there is no `from` */
};

static void transfer(const void *data)
{
    const struct transfer *m = data;
    for (size_t r = 0; r < m->rows; r++)
        if (m->from)
            memmove((char *)m->to + r * m->to_pitch, (const char *)m->from + r * m->from_pitch, m->bytes);
        else
            memset((char *)m->to + r * m->to_pitch, m->value, m->bytes);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct transfer m = {.to = to, .from = from, .bytes = bytes, .rows = 1};
    (void)kind;
    (void)stream;
    emulator_enqueue(transfer, &m, sizeof m);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t bytes, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct transfer m = {
        .to = to, .from = from, .bytes = bytes, .rows = rows, .to_pitch = to_pitch, .from_pitch = from_pitch};
    (void)kind;
    (void)stream;
    emulator_enqueue(transfer, &m, sizeof m);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    struct transfer m = {.to = to, .bytes = bytes, .rows = 1, .value = value};
    (void)stream;
    emulator_enqueue(transfer, &m, sizeof m);
    return cudaSuccess;
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t bytes, size_t rows, cudaStream_t stream)
{
    struct transfer m = {.to = to, .bytes = bytes, .rows = rows, .to_pitch = pitch, .value = value};
    (void)stream;
    emulator_enqueue(transfer, &m, sizeof m);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, NULL);
}

/* ---- Streams and events. All streams are one, and what is enqueued is done when the call returns, or is part of a graph that is
 * captured. Nothing is left to wait for. An event is the time at which it was recorded. */

static char any_stream;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    *out = (cudaStream_t)(void *)&any_stream;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return cudaSuccess;
}

struct CUevent_st {
    struct timespec at;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    *out = emulator_zeroed(1, sizeof **out);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &e->at);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    (void)e;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)(to->at.tv_sec - from->at.tv_sec) * 1e3f + (float)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6f;
    return cudaSuccess;
}
