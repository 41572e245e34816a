/* The cuda backend: one device, one stream of work, another for inputs. Everything is enqueued; the host waits only for
 * results (wait), and for copies of whole tensors. */
#include "base/io.h"
#include "base/mem.h"
#include "base/seconds.h"
#include "cuda/device.h"
#include "cuda/nvml.h"
#include "cuda/products/products.h"
#include "cuda/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 256, MAX_RECORDINGS = 256, STACK_BYTES = 128 };

int cuda_check(int code, const char *op, struct snug_err *err)
{
    if (code == cudaSuccess)
        return SNUG_OK;
    cudaGetLastError();
    if (code == cudaErrorMemoryAllocation)
        return err_set(err, SNUG_ERR_ENV, "cuda: %s: %s; free memory of the device, or ask for less", op,
                       cudaGetErrorString((cudaError_t)code));
    return err_set(err, SNUG_ERR_CHECKPOINT, "cuda: %s: %s (%s)", op, cudaGetErrorString((cudaError_t)code),
                   cudaGetErrorName((cudaError_t)code));
}

int cuda_check_opening(int code, int device, struct snug_err *err)
{
    if (code == cudaSuccess || code == cudaErrorMemoryAllocation)
        return cuda_check(code, "opening the device", err);
    cudaGetLastError();
    return err_set(
        err, SNUG_ERR_ENV,
        "--device cuda: GPU %d cannot be opened: %s (%s); see with nvidia-smi whether another program has it "
        "to itself, or use --device cpu",
        device, cudaGetErrorString((cudaError_t)code), cudaGetErrorName((cudaError_t)code));
}

/* At most a sixteenth of the rows is padding, and few sizes occur: each is captured once. */
static int64_t bucket(int64_t T)
{
    int64_t step = 16;
    while (T > 16 * step)
        step *= 2;
    return (T + step - 1) / step * step;
}

/* ---- kernels ---- */

#define OP(name, slots, attrs, diff, text)                                                                             \
    static int run_##name(const union args_any *a, const struct cuda_call *c)                                          \
    {                                                                                                                  \
        return cuda_##name(&a->name, c);                                                                               \
    }
#include "graph/ops.h"
#undef OP

static int (*const launchers[OP_COUNT])(const union args_any *, const struct cuda_call *) = {
#define OP(name, slots, attrs, diff, text) [OP_##name] = run_##name,
#include "graph/ops.h"
#undef OP
};

#define ROW(name)                                                                                                      \
    static int64_t workspace_##name(const union args_any *a, const struct cuda_call *c)                                \
    {                                                                                                                  \
        return cuda_##name##_workspace(&a->name, c);                                                                   \
    }
CUDA_WORKSPACES(ROW)
#undef ROW

static int64_t (*const workspaces[OP_COUNT])(const union args_any *, const struct cuda_call *) = {
#define ROW(name) [OP_##name] = workspace_##name,
    CUDA_WORKSPACES(ROW)
#undef ROW
};

/* Nodes of one launch: those that run at the same time. */
enum { MANY = 512 };
#define ROW(name)                                                                                                      \
    static int many_##name(const struct work *w, int n, const struct cuda_call *c)                                     \
    {                                                                                                                  \
        const struct args_##name *a[MANY];                                                                             \
        for (int i = 0; i < n; i++)                                                                                    \
            a[i] = &w[i].args.name;                                                                                    \
        return cuda_##name##_many(a, n, c);                                                                            \
    }
CUDA_BATCHED(ROW)
#undef ROW

static int (*const batched[OP_COUNT])(const struct work *, int, const struct cuda_call *) = {
#define ROW(name) [OP_##name] = many_##name,
    CUDA_BATCHED(ROW)
#undef ROW
};

static int64_t workspace_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    (void)threads;
    return workspaces[op] ? workspaces[op](args, &own(b)->call) : 0;
}

static bool together(enum op op)
{
    return batched[op];
}

static bool reads_mask(const struct op_attention_bwd *n, int64_t head_size, enum dtype type)
{
    return type != DT_F32 && cuda_attention_reads_mask(n, head_size);
}

static int enqueue(const struct cuda *d, const struct work *work, int n, struct snug_err *err)
{
    struct cuda_call call = d->call;
    call.err = err;
    for (int i = 0, joined; i < n; i += joined) {
        joined = 1;
        call.workspace = work[i].call.workspace;
        if (!batched[work[i].op]) {
            TRY(launchers[work[i].op](&work[i].args, &call));
            continue;
        }
        while (i + joined < n && joined < MANY && work[i + joined].joins)
            joined++;
        TRY(batched[work[i].op](&work[i], joined, &call));
    }
    return SNUG_OK;
}

/* ---- memory in use ---- */

static bool memory_of_device(size_t *room, size_t *total)
{
    return !cuda_check(cudaMemGetInfo(room, total), "memory", NULL);
}

static int64_t free_memory(void)
{
    size_t room = 0, total;
    return memory_of_device(&room, &total) ? (int64_t)room : 0;
}

/* Left free for what comes behind the arena: kernels, which CUDA loads when they first run, and graphs. A step took up
 * to some 20 MB; without them it fails, and not with cudaErrorMemoryAllocation. */
#define BEHIND_ARENA (INT64_C(64) << 20)

static int64_t available(const struct backend *b)
{
    int64_t room = free_memory() - BEHIND_ARENA;
    (void)b;
    return room > 0 ? room : 0;
}

/* As NVML counts; as CUDA does where there is no NVML. */
static int64_t bytes_in_use(const struct cuda *d)
{
    struct nvml_memory m;
    size_t room, total;
    if (d->nvml && !nvml_read(d->nvml, d->device, getpid(), &m))
        return m.used_bytes;
    return memory_of_device(&room, &total) ? (int64_t)(total - room) : 0;
}

static void memory(const struct backend *b, struct backend_memory *out)
{
    *out = own(b)->memory;
    out->used_bytes = bytes_in_use(own(b));
}

/* ---- recordings ---- */

/* A place for one more sequence: n_recordings where there is room, else that of one which was given once, in turn; -1
 * where all are graphs already, and this one is given node by node for ever. */
static int free_place(struct cuda *d)
{
    if (d->n_recordings < MAX_RECORDINGS)
        return (int)d->n_recordings;
    for (int n = 0; n < MAX_RECORDINGS; n++) {
        int i = (d->forget + n) % MAX_RECORDINGS;
        if (!d->recordings[i].graph) {
            d->forget = i + 1;
            return i;
        }
    }
    return -1;
}

/* Where an error of work that was enqueued long ago shows. */
static const char *whole_program(const struct backend *b)
{
    return b->one_by_one ? "a node" : "a program (CUDA_LAUNCH_BLOCKING=1 names the op)";
}

static int replay(const struct backend *b, const struct sequence *s, bool *known, struct snug_err *err)
{
    struct cuda *d = own(b);
    size_t i = 0;
    while (i < d->n_recordings && memcmp(&d->recordings[i].of, s, sizeof *s))
        i++;
    *known = i < d->n_recordings && d->recordings[i].graph;
    if (*known)
        return cuda_check(cudaGraphLaunch(d->recordings[i].graph, d->call.stream), whole_program(b), err);
    if (d->no_more)
        return SNUG_OK;
    if (i < d->n_recordings) {
        d->capturing = (int)i + 1;
        return SNUG_OK;
    }
    int place = free_place(d);
    if (place < 0)
        return SNUG_OK;
    if (!MEM_GROW(d->recordings, d->cap_recordings, d->n_recordings + 1))
        return err_no_memory(err, d->cap_recordings * 2 * sizeof *d->recordings);
    d->recordings[place] = (struct recording){.of = *s};
    d->n_recordings += (size_t)place == d->n_recordings;
    return SNUG_OK;
}

/* Nodes can always be given one by one: where there is no memory for a graph *out is NULL, and no more are made. */
static int instantiate(struct cuda *d, cudaGraph_t graph, cudaGraphExec_t *out, struct snug_err *err)
{
    cudaError_t code = cudaGraphInstantiate(out, graph, 0);
    if (code)
        *out = NULL;
    else /* its first launch would do that */
        code = cudaGraphUpload(*out, d->call.stream);
    if (code != cudaErrorMemoryAllocation)
        return cuda_check(code, "making a graph", err);
    cudaGetLastError();
    if (*out)
        cudaGraphExecDestroy(*out);
    *out = NULL;
    d->no_more = true;
    return SNUG_OK;
}

static int make_graph(struct cuda *d, struct recording *r, const struct work *work, int n, struct snug_err *err)
{
    cudaGraph_t graph = NULL;
    CUDA("capturing", cudaStreamBeginCapture(d->call.stream, cudaStreamCaptureModeThreadLocal));
    int code = enqueue(d, work, n, err);
    int ended = cuda_check(cudaStreamEndCapture(d->call.stream, &graph), "capturing", code ? NULL : err);
    code = code ? code : ended;
    if (!code)
        code = instantiate(d, graph, &r->graph, err);
    if (graph)
        cudaGraphDestroy(graph);
    return code;
}

static int record(struct cuda *d, struct recording *r, const struct work *work, int n, struct snug_err *err)
{
    double start = seconds_now();
    int64_t room = free_memory();
    TRY(make_graph(d, r, work, n, err));
    if (!r->graph)
        return enqueue(d, work, n, err);
    CUDA("launching a graph", cudaGraphLaunch(r->graph, d->call.stream));
    int64_t taken = room - free_memory();
    d->memory.recorded++;
    d->memory.recorded_bytes += taken > 0 ? taken : 0;
    d->memory.recorded_seconds += seconds_now() - start;
    return SNUG_OK;
}

static int run(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    struct cuda *d = own(b);
    int capturing = d->capturing;
    d->capturing = 0;
    return capturing ? record(d, &d->recordings[capturing - 1], work, n, err) : enqueue(d, work, n, err);
}

/* ---- memory ---- */

static void release(const struct backend *b, void *p, int64_t bytes)
{
    struct cuda *d = own(b);
    (void)bytes;
    cudaStreamSynchronize(d->call.stream);
    for (size_t i = 0; i < d->n_recordings; i++)
        if (d->recordings[i].graph)
            cudaGraphExecDestroy(d->recordings[i].graph);
    mem_free(d->recordings);
    d->recordings = NULL;
    d->n_recordings = d->cap_recordings = 0;
    d->no_more = false;
    d->memory = (struct backend_memory){.before_bytes = d->memory.before_bytes};
    for (int i = 0; i < STAGING; i++) {
        cudaFreeHost(d->image[i]);
        d->image[i] = NULL;
    }
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

static int alloc(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void **p, struct snug_err *err)
{
    struct cuda *d = own(b);
    int code = cuda_check(cudaMalloc(p, (size_t)bytes), "the arena", err);
    if (code)
        return code;
    d->inputs_bytes = inputs_bytes;
    d->memory.arena_bytes = bytes;
    code = cuda_check(cudaMemsetAsync(*p, 0, (size_t)bytes, d->call.stream), "clearing the arena", err);
    for (int i = 0; i < STAGING && !code; i++)
        code = alloc_host(b, inputs_bytes + 1, (void **)&d->image[i], err);
    for (int i = 0; i < STAGING && !code; i++)
        memset(d->image[i], 0, (size_t)inputs_bytes);
    if (code)
        release(b, *p, bytes);
    return code;
}

static int inputs(const struct backend *b, void *arena, void **image, struct snug_err *err)
{
    struct cuda *d = own(b);
    (void)arena;
    CUDA(whole_program(b), cudaEventSynchronize(d->copied[d->turn]));
    *image = d->image[d->turn];
    return SNUG_OK;
}

static int send(const struct backend *b, void *arena, struct snug_err *err)
{
    struct cuda *d = own(b);
    int i = d->turn;
    size_t bytes = (size_t)d->inputs_bytes;
    char *to = arena, *staging = to + (i + 1) * d->inputs_bytes;
    CUDA("inputs", cudaStreamWaitEvent(d->copies, d->placed[i], 0));
    CUDA("inputs", cudaMemcpyAsync(staging, d->image[i], bytes, cudaMemcpyHostToDevice, d->copies));
    CUDA("inputs", cudaEventRecord(d->copied[i], d->copies));
    CUDA("inputs", cudaStreamWaitEvent(d->call.stream, d->copied[i], 0));
    CUDA("inputs", cudaMemcpyAsync(to, staging, bytes, cudaMemcpyDeviceToDevice, d->call.stream));
    CUDA("inputs", cudaEventRecord(d->placed[i], d->call.stream));
    d->turn = (i + 1) % STAGING;
    return SNUG_OK;
}

static void free_host(const struct backend *b, void *p)
{
    (void)b;
    cudaFreeHost(p);
}

static int fetch(const struct backend *b, int turn, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    struct cuda *d = own(b);
    CUDA("results", cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, d->call.stream));
    return cuda_check(cudaEventRecord(d->fetched[turn], d->call.stream), "results", err);
}

static int wait(const struct backend *b, int turn, struct snug_err *err)
{
    return cuda_check(cudaEventSynchronize(own(b)->fetched[turn]), whole_program(b), err);
}

static int finish(const struct backend *b, struct snug_err *err)
{
    return cuda_check(cudaStreamSynchronize(own(b)->call.stream), whole_program(b), err);
}

static int upload(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    CUDA("upload", cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, own(b)->call.stream));
    return finish(b, err);
}

static int download(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    CUDA("download", cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, own(b)->call.stream));
    return finish(b, err);
}

/* ---- opening ---- */

static int find_device(struct cuda *d, const struct cuda_settings *s, struct snug_err *err)
{
    int n = 0;
    cudaError_t code = cudaGetDeviceCount(&n);
    if (code != cudaSuccess || n < 1)
        return err_set(err, SNUG_ERR_ENV,
                       "--device cuda: no GPU can be used (%s); check the driver, or use --device cpu",
                       code == cudaSuccess ? "there is none" : cudaGetErrorString(code));
    if (s->device >= n)
        return err_set(err, SNUG_ERR_ENV, "--device cuda: GPU %d is not there, there are %d", s->device, n);
    OPENING(s->device, cudaSetDevice(s->device));
    OPENING(s->device, cuda_arch_read(s->device, &d->arch));
    OPENING(s->device, cuda_call_device(&d->call, s->device));
    return cuda_arch_check(d->arch, err);
}

static int open_device(struct cuda *d, const struct cuda_settings *s, struct snug_err *err)
{
    struct nvml_memory before;
    d->device = s->device;
    if (!nvml_open(&d->nvml) && !nvml_read(d->nvml, d->device, getpid(), &before)) /* before there is a context */
        d->memory.before_bytes = before.used_bytes;
    TRY(find_device(d, s, err));
    /* A context keeps room for the stacks of all threads that the device can hold: 0.28 GB by default. Kernels here need next
     * to nothing; one that needs more is given it when it is launched. */
    OPENING(s->device, cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES));
    OPENING(s->device, cudaStreamCreateWithFlags(&d->call.stream, cudaStreamNonBlocking));
    OPENING(s->device, cudaStreamCreateWithFlags(&d->copies, cudaStreamNonBlocking));
    for (int i = 0; i < BACKEND_TURNS; i++)
        OPENING(s->device, cudaEventCreateWithFlags(&d->fetched[i], cudaEventDisableTiming));
    for (int i = 0; i < STAGING; i++) {
        OPENING(s->device, cudaEventCreateWithFlags(&d->copied[i], cudaEventDisableTiming));
        OPENING(s->device, cudaEventCreateWithFlags(&d->placed[i], cudaEventDisableTiming));
    }
    TRY(cuda_products_open(&d->call.products, err));
    return cuda_choices_open(d, s, err);
}

/* ---- a device that is not there ---- */

static int no_alloc(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void **p, struct snug_err *err)
{
    (void)b, (void)bytes, (void)inputs_bytes, (void)p;
    return err_set(err, SNUG_ERR_ENV, "--device-profile: the device is not there; only plans can be made for it");
}

static int64_t free_on_device(const struct backend *b)
{
    return own(b)->free_bytes;
}

static int unmeasured(const struct backend *b)
{
    return cuda_products_unmeasured(own(b)->call.products);
}

/* What is asked before anything is allocated is answered from the profile. */
static int open_absent(struct cuda *d, const struct cuda_settings *s, struct snug_err *err)
{
    struct cuda_profile_device device;
    TRY(cuda_profile_read(&io_posix, s->profile, &device, &d->profile, err));
    TRY(cuda_arch_check(device.arch, err));
    d->arch = device.arch;
    d->free_bytes = device.free_bytes;
    d->call.sms = device.sms;
    d->call.sm90 = cuda_arch_sm90(device.arch);
    d->base.tune = NULL;
    d->base.unmeasured = unmeasured;
    d->base.alloc = no_alloc;
    d->base.available = free_on_device;
    TRY(cuda_products_open_absent(device.cublaslt, &d->call.products, err));
    return cuda_choices_take_products(d, s->profile, err);
}

static void close_device(const struct backend *b)
{
    struct cuda *d = own(b);
    json_decref(d->recorded);
    cuda_profile_close(d->profile);
    nvml_close(d->nvml);
    cuda_products_close(d->call.products);
    for (int i = 0; i < STAGING; i++) {
        if (d->copied[i])
            cudaEventDestroy(d->copied[i]);
        if (d->placed[i])
            cudaEventDestroy(d->placed[i]);
    }
    for (int i = 0; i < BACKEND_TURNS; i++)
        if (d->fetched[i])
            cudaEventDestroy(d->fetched[i]);
    if (d->copies)
        cudaStreamDestroy(d->copies);
    if (d->call.stream)
        cudaStreamDestroy(d->call.stream);
    mem_free(d);
}

int backend_cuda_open(const struct cuda_settings *s, const struct backend **out, struct snug_err *err)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING"); /* as CUDA has it: whoever looks for a kernel sets it */
    struct cuda *d = mem_alloc(sizeof *d);
    if (!d)
        return err_no_memory(err, sizeof *d);
    d->base = (struct backend){.name = "cuda",
                               .float_type = DT_F32,
                               .narrow_types = 1u << DT_BF16 | 1u << DT_F16,
                               .tf32 = true,
                               .align = ALIGN,
                               .product_sizes = 64,
                               .narrow_bias = true,
                               .staging = STAGING,
                               .busy_tokens = 16384,
                               .one_by_one = blocking && atoi(blocking),
                               .kernels = cuda_choices_kernels,
                               .bucket = bucket,
                               .workspace_bytes = workspace_bytes,
                               .together = together,
                               .takes = cuda_takes,
                               .tune = cuda_choices_tune,
                               .recall = cuda_choices_recall,
                               .keep = cuda_choices_keep,
                               .choices = cuda_choices_record,
                               .take_choices = cuda_choices_take,
                               .run = run,
                               .replay = replay,
                               .alloc = alloc,
                               .free = release,
                               .available = available,
                               .memory = memory,
                               .inputs = inputs,
                               .send = send,
                               .alloc_host = alloc_host,
                               .free_host = free_host,
                               .fetch = fetch,
                               .wait = wait,
                               .upload = upload,
                               .download = download,
                               .sync = finish,
                               .close = close_device};
    d->call.tf32 = s->tf32;
    int code = s->profile ? open_absent(d, s, err) : open_device(d, s, err);
    d->base.reads_mask = d->call.sm90 ? reads_mask : NULL;
    if (code)
        close_device(&d->base);
    else
        *out = &d->base;
    return code;
}
