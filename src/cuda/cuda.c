/* The cuda backend: one device, one stream of work, another for inputs. Everything is enqueued; the host waits only for
 * results (wait), and for copies of whole tensors. */
#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/seconds.h"
#include "cuda/kernels.h"
#include "cuda/nvml.h"
#include "cuda/products.h"
#include "cuda/profile.h"
#include "format/json.h"
#include "run/backend.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 256, STAGING = 2, OLDEST_ARCH = 80, MAX_RECORDINGS = 256, STACK_BYTES = 128 };

/* A sequence of nodes that was given at least once; from the second time on it is a CUDA graph. */
struct recording {
    struct sequence of;
    cudaGraphExec_t graph; /* NULL: given once so far */
};

struct cuda {
    struct backend base;
    struct cuda_call call; /* but for workspace and err */
    cudaStream_t copies;   /* of inputs */
    cudaEvent_t fetched[BACKEND_TURNS];
    char kernels[128];
    struct cuda_profile *profile; /* what was measured on this kind of device */
    json_t *recorded;             /* the choices of a checkpoint, or NULL */

    int device;         /* ordinal */
    int arch;           /* its compute capability, times ten */
    int64_t free_bytes; /* of a device that is not there */
    struct nvml *nvml;  /* NULL: there is no such library */
    struct backend_memory memory;

    int64_t inputs_bytes;
    /* The inputs' way: image (pinned host memory) -> staging in the arena -> the inputs. Two of each, used in turn. */
    char *image[STAGING];
    cudaEvent_t copied[STAGING]; /* image -> staging is over: the image may be written */
    cudaEvent_t placed[STAGING]; /* staging -> inputs is over: staging may be written */
    int turn;

    struct recording *recordings;
    size_t n_recordings, cap_recordings;
    int forget;    /* where the next place of a sequence that was given once is looked for */
    int capturing; /* index + 1 of the recording that `run` shall make, 0 for none */
};

/* A backend is const to its users; what it keeps for itself is not. */
static struct cuda *own(const struct backend *b)
{
    return (struct cuda *)b;
}

int cuda_check(int code, const char *op, struct snug_err *err)
{
    if (code == cudaSuccess)
        return SNUG_OK;
    if (code == cudaErrorMemoryAllocation)
        return err_set(err, SNUG_ERR_ENV, "cuda: %s: %s; free memory of the device, or ask for less", op,
                       cudaGetErrorString((cudaError_t)code));
    return err_set(err, SNUG_ERR_CHECKPOINT, "cuda: %s: %s (%s)", op, cudaGetErrorString((cudaError_t)code),
                   cudaGetErrorName((cudaError_t)code));
}

#define CUDA(what, call) TRY(cuda_check((int)(call), what, err))

/* At most a sixteenth of the rows is padding, and few sizes occur: each is captured once. */
static int64_t bucket(int64_t T)
{
    int64_t step = 16;
    while (T > 16 * step)
        step *= 2;
    return (T + step - 1) / step * step;
}

/* ---- for which devices there are kernels ---- */

/* Compute capabilities, times ten, that kernels were compiled for (src/cuda/meson.build). */
static const int built_for[] = {SNUG_GPU_ARCH};
enum { N_BUILT_FOR = sizeof built_for / sizeof *built_for };

int backend_cuda_arch(int i)
{
    return i < N_BUILT_FOR ? built_for[i] : 0;
}

/* Which of them a device runs: machine code runs on its own generation, if the device is not older; the last one's PTX on
 * all that are newer. 0: none. */
static int code_for(int arch)
{
    int last = built_for[N_BUILT_FOR - 1], found = arch > last ? last : 0;
    for (int i = 0; i < N_BUILT_FOR; i++)
        if (arch / 10 == built_for[i] / 10 && arch >= built_for[i])
            found = built_for[i];
    return found;
}

static int read_arch(int device, int *arch)
{
    int major = 0, minor = 0, code = (int)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (!code)
        code = (int)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    *arch = 10 * major + minor;
    return code;
}

/* Their instructions are in no PTX for later GPUs. */
static bool has_sm90(int arch)
{
    return arch == 90 && code_for(arch) == 90;
}

int cuda_call_device(struct cuda_call *c, int device)
{
    int arch, code = read_arch(device, &arch);
    c->sm90 = has_sm90(arch);
    return code ? code : (int)cudaDeviceGetAttribute(&c->sms, cudaDevAttrMultiProcessorCount, device);
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

/* Nodes of one launch: those that follow one another. */
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

static bool shares_workspace(enum op op)
{
    return batched[op] && workspaces[op];
}

static bool reads_mask(const struct op_attention_bwd *n, int64_t head_size, enum dtype type)
{
    return type != DT_F32 && cuda_attention_reads_mask(n, head_size);
}

static int enqueue(const struct cuda *d, const struct work *work, int n, struct snug_err *err)
{
    struct cuda_call call = d->call;
    call.err = err;
    for (int i = 0, together; i < n; i += together) {
        together = 1;
        call.workspace = work[i].call.workspace;
        if (!batched[work[i].op]) {
            TRY(launchers[work[i].op](&work[i].args, &call));
            continue;
        }
        while (i + together < n && together < MANY && work[i + together].op == work[i].op)
            together++;
        TRY(batched[work[i].op](&work[i], together, &call));
    }
    return SNUG_OK;
}

/* ---- what is measured, and what is chosen by it ---- */

/* The name of the kernels tells the choices of algorithms apart, since other ones may give other bits. */
static const char *kernels(const struct backend *b)
{
    struct cuda *d = own(b);
    char hash[33];
    hash_hex(cuda_products_hash(d->call.products), hash);
    snprintf(d->kernels, sizeof d->kernels, "sm_%d%s cublaslt %lld algorithms %.8s", code_for(d->arch),
             d->call.tf32 ? " tf32" : "", (long long)cuda_products_version(d->call.products), hash);
    return d->kernels;
}

static int take_products(struct cuda *d, const char *where, struct snug_err *err)
{
    json_t *choices = cuda_profile_products(d->profile);
    return choices ? cuda_products_import(d->call.products, choices, where, err) : SNUG_OK;
}

static int open_profile(struct cuda *d, const struct cuda_settings *s, struct snug_err *err)
{
    struct cudaDeviceProp found;
    CUDA("opening the device", cudaGetDeviceProperties(&found, s->device));
    struct cuda_profile_device device = {.name = found.name,
                                         .arch = d->arch,
                                         .sms = d->call.sms,
                                         .free_bytes = d->base.available(&d->base),
                                         .cublaslt = cuda_products_version(d->call.products)};
    TRY(cuda_profile_open(&io_posix, s->cache_dir, &device, &d->profile, err));
    return take_products(d, cuda_profile_path(d->profile), err);
}

static const char RECORDED[] = "choices in the checkpoint"; /* for messages */

static int add_recorded(struct cuda *d, struct snug_err *refused, struct snug_err *err)
{
    int n = 0;
    char name[128];
    *refused = (struct snug_err){0};
    if (d->recorded)
        TRY(cuda_products_add_recorded(d->call.products, d->recorded, RECORDED, &n, name, err));
    if (n)
        err_set(refused, SNUG_ERR_ENV, "cuBLASLt takes %d of the recorded algorithms no more, such as that of %s", n,
                name);
    return SNUG_OK;
}

/* What was measured goes to the profile, and comes back as a later run will find it: both then have the same bits. */
static int keep_choices(struct cuda *d, struct snug_err *err)
{
    json_t *choices;
    struct snug_err refused; /* was said when they were taken */
    TRY(cuda_products_export(d->call.products, CUDA_CHOICES_MEASURED, &choices, err));
    int code = cuda_profile_set_products(d->profile, choices, err);
    if (!code)
        cuda_profile_save(&io_posix, d->profile, NULL); /* a cache that cannot be written is not worth a run */
    if (!code)
        code = cuda_products_import(d->call.products, choices, cuda_profile_path(d->profile), err);
    json_decref(choices);
    return code ? code : add_recorded(d, &refused, err);
}

static int count_measured(const struct cuda *d, size_t *n, struct snug_err *err)
{
    json_t *choices;
    TRY(cuda_products_export(d->call.products, CUDA_CHOICES_MEASURED, &choices, err));
    *n = json_array_size(choices);
    json_decref(choices);
    return SNUG_OK;
}

static int tune(const struct backend *b, const struct work *nodes, int n, void (*begins)(void *ctx), void *ctx,
                bool *changed, struct snug_err *err)
{
    struct cuda *d = own(b);
    size_t before, after = 0;
    int n_products = 0, code;
    TRY(count_measured(d, &before, err));
    struct cuda_product_node *products = mem_alloc((size_t)(n + 1) * sizeof *products);
    if (!products)
        return err_no_memory(err, (unsigned long long)n * sizeof *products);
    for (int i = 0; i < n; i++)
        if (op_is_product(nodes[i].op))
            products[n_products++] = (struct cuda_product_node){.op = nodes[i].op, .args = nodes[i].args};
    code = cuda_products_tune(d->call.products, products, n_products, d->call.tf32,
                              &(struct cuda_tuning){.begins = begins, .ctx = ctx}, err);
    mem_free(products);
    if (!code)
        code = count_measured(d, &after, err);
    *changed = !code && after != before; /* what is known is not measured again */
    return code || !*changed ? code : keep_choices(d, err);
}

static int choices(const struct backend *b, char **text, struct snug_err *err)
{
    struct cuda *d = own(b);
    json_t *products;
    *text = NULL;
    TRY(cuda_products_export(d->call.products, CUDA_CHOICES_OF_RUN, &products, err));
    json_t *all = json_pack("{s:i,s:i,s:I,s:o}", "arch", d->arch, "multiprocessors", d->call.sms, "cublaslt",
                            (json_int_t)cuda_products_version(d->call.products), "products", products);
    char *dumped = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(all);
    *text = dumped ? mem_strdup(dumped) : NULL;
    free(dumped);
    return *text ? SNUG_OK : err_no_memory(err, 1 << 16);
}

/* The algorithms of one version of cuBLASLt mean nothing to another, and sums may be cut by the number of
 * multiprocessors. */
static int check_recorded(const struct cuda *d, json_t *all, const char *where, struct snug_err *refused,
                          struct snug_err *err)
{
    int64_t arch, sms, cublaslt, here = cuda_products_version(d->call.products);
    TRY(json_get_int(all, where, "arch", true, 0, INT32_MAX, &arch, err));
    TRY(json_get_int(all, where, "multiprocessors", true, 0, INT32_MAX, &sms, err));
    TRY(json_get_int(all, where, "cublaslt", true, 0, INT64_MAX, &cublaslt, err));
    if (cublaslt != here)
        err_set(refused, SNUG_ERR_ENV, "the recorded algorithms are of cuBLASLt %lld, here is %lld",
                (long long)cublaslt, (long long)here);
    else if (arch != d->arch || sms != d->call.sms)
        err_set(refused, SNUG_ERR_ENV,
                "the recorded algorithms are of compute capability %lld.%lld and %lld multiprocessors, here are %d.%d "
                "and %d",
                (long long)arch / 10, (long long)arch % 10, (long long)sms, d->arch / 10, d->arch % 10, d->call.sms);
    return SNUG_OK;
}

static int take_choices(const struct backend *b, const char *text, struct snug_err *refused, struct snug_err *err)
{
    struct cuda *d = own(b);
    json_t *all = NULL;
    *refused = (struct snug_err){0};
    int code = json_parse(text, strlen(text), RECORDED, &all, err);
    if (!code)
        code = check_recorded(d, all, RECORDED, refused, err);
    if (!code && !refused->code) {
        d->recorded = json_incref(json_object_get(all, "products"));
        code = add_recorded(d, refused, err);
    }
    json_decref(all);
    if (code != SNUG_ERR_INPUT)
        return code;
    err_set(refused, SNUG_ERR_ENV, "%s", err->text); /* perhaps of a later version */
    json_decref(d->recorded);
    d->recorded = NULL;
    return SNUG_OK;
}

static double recall(const struct backend *b, const char *key)
{
    double us = cuda_profile_time(own(b)->profile, key);
    return us < 0 ? -1 : 1e-6 * us;
}

static int keep(const struct backend *b, const char *key, double seconds, struct snug_err *err)
{
    TRY(cuda_profile_set_time(own(b)->profile, key, 1e6 * seconds, err));
    cuda_profile_save(&io_posix, own(b)->profile, NULL); /* as for algorithms */
    return SNUG_OK;
}

/* ---- memory in use ---- */

static int64_t available(const struct backend *b)
{
    size_t room = 0, total;
    (void)b;
    return cudaMemGetInfo(&room, &total) == cudaSuccess ? (int64_t)room : 0;
}

/* As NVML counts; as CUDA does where there is no NVML. */
static int64_t bytes_in_use(const struct cuda *d)
{
    struct nvml_memory m;
    size_t room, total;
    if (d->nvml && !nvml_read(d->nvml, d->device, getpid(), &m))
        return m.used_bytes;
    return cudaMemGetInfo(&room, &total) == cudaSuccess ? (int64_t)(total - room) : 0;
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

static int replay(const struct backend *b, const struct sequence *s, bool *known, struct snug_err *err)
{
    struct cuda *d = own(b);
    size_t i = 0;
    while (i < d->n_recordings && memcmp(&d->recordings[i].of, s, sizeof *s))
        i++;
    *known = i < d->n_recordings && d->recordings[i].graph;
    if (*known)
        return cuda_check(cudaGraphLaunch(d->recordings[i].graph, d->call.stream), "launching a graph", err);
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

static int make_graph(struct cuda *d, struct recording *r, const struct work *work, int n, struct snug_err *err)
{
    cudaGraph_t graph = NULL;
    CUDA("capturing", cudaStreamBeginCapture(d->call.stream, cudaStreamCaptureModeThreadLocal));
    int code = enqueue(d, work, n, err);
    int ended = cuda_check(cudaStreamEndCapture(d->call.stream, &graph), "capturing", code ? NULL : err);
    code = code ? code : ended;
    if (!code)
        code = cuda_check(cudaGraphInstantiate(&r->graph, graph, 0), "making a graph", err);
    if (graph)
        cudaGraphDestroy(graph);
    return code;
}

static int record(struct cuda *d, struct recording *r, const struct work *work, int n, struct snug_err *err)
{
    double start = seconds_now();
    int64_t room = available(&d->base);
    TRY(make_graph(d, r, work, n, err));
    CUDA("launching a graph", cudaGraphLaunch(r->graph, d->call.stream));
    int64_t taken = room - available(&d->base);
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
    d->memory = (struct backend_memory){.before_bytes = d->memory.before_bytes};
    for (int i = 0; i < STAGING; i++) {
        cudaFreeHost(d->image[i]);
        d->image[i] = NULL;
    }
    cudaFree(p);
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
        code = cuda_check(cudaHostAlloc((void **)&d->image[i], (size_t)inputs_bytes + 1, cudaHostAllocDefault),
                          "pinned memory for inputs", err);
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
    CUDA("inputs", cudaEventSynchronize(d->copied[d->turn]));
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

static int alloc_host(const struct backend *b, int64_t bytes, void **p, struct snug_err *err)
{
    (void)b;
    return cuda_check(cudaHostAlloc(p, (size_t)bytes, cudaHostAllocDefault), "pinned memory", err);
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

/* Where an error of work that was enqueued long ago shows. */
static const char *whole_program(const struct backend *b)
{
    return b->one_by_one ? "a node" : "a program (CUDA_LAUNCH_BLOCKING=1 names the op)";
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

bool backend_cuda_present(void)
{
    int n = 0, arch;
    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0 && !read_arch(0, &arch) && arch >= OLDEST_ARCH;
}

static int check_arch(int arch, struct snug_err *err)
{
    if (arch < OLDEST_ARCH)
        return err_set(err, SNUG_ERR_ENV,
                       "--device cuda: compute capability %d.%d is older than 8.0 (Ampere); use --device cpu",
                       arch / 10, arch % 10);
    if (!code_for(arch))
        return err_set(err, SNUG_ERR_ENV,
                       "--device cuda: this build has no kernels for compute capability %d.%d; build with "
                       "-Dgpu_arch=%d or all, or use --device cpu",
                       arch / 10, arch % 10, arch);
    return SNUG_OK;
}

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
    CUDA("opening the device", cudaSetDevice(s->device));
    CUDA("opening the device", read_arch(s->device, &d->arch));
    CUDA("opening the device", cuda_call_device(&d->call, s->device));
    return check_arch(d->arch, err);
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
    CUDA("opening the device", cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES));
    CUDA("opening the device", cudaStreamCreateWithFlags(&d->call.stream, cudaStreamNonBlocking));
    CUDA("opening the device", cudaStreamCreateWithFlags(&d->copies, cudaStreamNonBlocking));
    for (int i = 0; i < BACKEND_TURNS; i++)
        CUDA("opening the device", cudaEventCreateWithFlags(&d->fetched[i], cudaEventDisableTiming));
    for (int i = 0; i < STAGING; i++) {
        CUDA("opening the device", cudaEventCreateWithFlags(&d->copied[i], cudaEventDisableTiming));
        CUDA("opening the device", cudaEventCreateWithFlags(&d->placed[i], cudaEventDisableTiming));
    }
    TRY(cuda_products_open(&d->call.products, err));
    return open_profile(d, s, err);
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
    TRY(check_arch(device.arch, err));
    d->arch = device.arch;
    d->free_bytes = device.free_bytes;
    d->call.sms = device.sms;
    d->call.sm90 = has_sm90(device.arch);
    d->base.tune = NULL;
    d->base.unmeasured = unmeasured;
    d->base.alloc = no_alloc;
    d->base.available = free_on_device;
    TRY(cuda_products_open_absent(device.cublaslt, &d->call.products, err));
    return take_products(d, s->profile, err);
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
                               .staging = STAGING,
                               .busy_tokens = 16384,
                               .one_by_one = blocking && atoi(blocking),
                               .kernels = kernels,
                               .bucket = bucket,
                               .workspace_bytes = workspace_bytes,
                               .shares_workspace = shares_workspace,
                               .tune = tune,
                               .recall = recall,
                               .keep = keep,
                               .choices = choices,
                               .take_choices = take_choices,
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
