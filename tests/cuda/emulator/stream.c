/* Streams, graphs of work on them, and events. Outside a graph all is done at once, in the order in which it is given. A graph is captured
 * from the calls of one thread. What it has of different streams is done in the order that suits it least: first all that need not wait of
 * the stream that was made last, and every other time of the one that was made first. So what does not wait for what it needs shows. */
#include "enqueue.h"
#include "runtime.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAMS = 16 };

struct CUstream_st {
    int number;
};

/* Work of a stream; it begins when the first `count` items of stream `other` are done. Without `run` there is nothing to do. */
struct item {
    void (*run)(const void *data);
    void *data;
    int other;
    size_t count;
};

struct CUgraph_st {
    struct item *items[STREAMS];
    size_t n[STREAMS], room[STREAMS];
    size_t launches;
    int owners; /* the graph and what was instantiated from it */
};

struct CUevent_st {
    struct timespec at;
    const struct CUgraph_st *of; /* recorded while this was captured, behind `count` items of `stream` */
    int stream;
    size_t count;
};

static _Thread_local struct CUgraph_st *capturing;

static int number_of(cudaStream_t stream)
{
    return stream ? stream->number : 0;
}

static struct item *append(struct CUgraph_st *g, int stream)
{
    if (g->n[stream] == g->room[stream]) {
        g->room[stream] = g->room[stream] ? 2 * g->room[stream] : 64;
        g->items[stream] = emulator_resize(g->items[stream], g->room[stream], sizeof *g->items[stream]);
    }
    struct item *x = &g->items[stream][g->n[stream]++];
    *x = (struct item){0};
    return x;
}

void emulator_enqueue(struct CUstream_st *stream, void (*run)(const void *data), const void *data, size_t bytes)
{
    if (!capturing) {
        emulator_lock();
        run(data);
        emulator_unlock();
        return;
    }
    struct item *x = append(capturing, number_of(stream));
    x->run = run;
    x->data = emulator_reserve(bytes);
    memcpy(x->data, data, bytes);
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
    for (int s = 0; s < STREAMS; s++) {
        for (size_t i = 0; i < g->n[s]; i++)
            free(g->items[s][i].data);
        free(g->items[s]);
    }
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

/* Does what stream `s` can do by now. */
static void advance(const struct CUgraph_st *g, int s, size_t done[STREAMS])
{
    for (; done[s] < g->n[s]; done[s]++) {
        const struct item *x = &g->items[s][done[s]];
        if (done[x->other] < x->count)
            return;
        if (!x->run)
            continue;
        emulator_lock();
        x->run(x->data);
        emulator_unlock();
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)stream;
    struct CUgraph_st *g = (cudaGraph_t)exec;
    size_t done[STREAMS] = {0}, before = 0, now = 0;
    bool last_first = g->launches++ % 2 == 0;
    do {
        before = now;
        now = 0;
        for (int i = 0; i < STREAMS; i++)
            advance(g, last_first ? STREAMS - 1 - i : i, done);
        for (int s = 0; s < STREAMS; s++)
            now += done[s];
    } while (now > before);
    for (int s = 0; s < STREAMS; s++)
        if (done[s] < g->n[s])
            return cudaErrorLaunchFailure; /* streams that wait for each other */
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

struct host_call {
    cudaHostFn_t run;
    void *data;
};

static void call_host(const void *data)
{
    const struct host_call *call = data;
    call->run(call->data);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t run, void *data)
{
    struct host_call call = {run, data};
    emulator_enqueue(stream, call_host, &call, sizeof call);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct transfer m = {.to = to, .from = from, .bytes = bytes, .rows = 1};
    (void)kind;
    emulator_enqueue(stream, transfer, &m, sizeof m);
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
    emulator_enqueue(stream, transfer, &m, sizeof m);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    struct transfer m = {.to = to, .bytes = bytes, .rows = 1, .value = value};
    emulator_enqueue(stream, transfer, &m, sizeof m);
    return cudaSuccess;
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t bytes, size_t rows, cudaStream_t stream)
{
    struct transfer m = {.to = to, .bytes = bytes, .rows = rows, .to_pitch = pitch, .value = value};
    emulator_enqueue(stream, transfer, &m, sizeof m);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, NULL);
}

/* ---- Streams and events. Outside a graph nothing is left to wait for, and an event is the time at which it was recorded. */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    static int made; /* number 0 is the stream without a name */
    (void)flags;
    *out = emulator_zeroed(1, sizeof **out);
    emulator_lock();
    (*out)->number = 1 + made++ % (STREAMS - 1);
    emulator_unlock();
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (capturing && event->of == capturing) {
        struct item *x = append(capturing, number_of(stream));
        x->other = event->stream;
        x->count = event->count;
    }
    return cudaSuccess;
}

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
    clock_gettime(CLOCK_MONOTONIC, &e->at);
    e->of = capturing;
    e->stream = number_of(stream);
    e->count = capturing ? capturing->n[e->stream] : 0;
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
