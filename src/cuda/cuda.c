/* The cuda backend: one device, one stream of work, another for inputs. Everything is enqueued; the host waits only for
 * results (wait), and for copies of whole tensors. */
#include "base/mem.h"
#include "cuda/arch.h"
#include "cuda/device.h"
#include "cuda/facts.h"
#include "cuda/launch.h"
#include "cuda/libraries/nvml.h"
#include "cuda/memory.h"
#include "cuda/nccl/connection.h"
#include "cuda/peers/room.h"
#include "cuda/products/products.h"

#include <stdlib.h>
#include <unistd.h>

enum { STACK_BYTES = 128 };

static int64_t workspace_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    (void)threads;
    const struct cuda *d = cuda_of(b);
    return op_exchanges(op) ? exchange_room(d->peers.n, d->peers.slot_most, op, args)
                            : cuda_launch_workspace(op, args, &d->call);
}

static int64_t workspace_most(const struct backend *b, enum op op)
{
    const struct cuda_peers *p = &cuda_of(b)->peers;
    return op == OP_all_reduce ? exchange_room_most(p->n, p->slot_most) : INT64_MAX;
}

static bool reads_mask(const struct op_attention_bwd *n, int64_t head_size, enum dtype type)
{
    return type != DT_F32 && cuda_attention_reads_mask(n, head_size);
}

static int replay(const struct backend *b, const struct sequence *s, bool *known, struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    return recordings_replay(&d->recordings, s, &d->call, cuda_whole_program(b), known, err);
}

static int run(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    return recordings_run(&cuda_of(b)->recordings, &cuda_of(b)->call, work, n, err);
}

static int run_on(const struct backend *b, const struct sequence *s, const struct work *work, int n,
                  struct snug_err *err)
{
    return recordings_run_on(&cuda_of(b)->recordings, s, &cuda_of(b)->call, work, n, err);
}

static int settle(const struct backend *b, struct snug_err *err)
{
    return cuda_lanes_settle(&cuda_of(b)->lanes, err);
}

static void memory(const struct backend *b, struct backend_memory *out)
{
    const struct cuda *d = cuda_of(b);
    *out = (struct backend_memory){.used_bytes = cuda_used_bytes(d->nvml, d->device),
                                   .before_bytes = d->before_bytes,
                                   .arena_bytes = d->arena.bytes,
                                   .recorded_bytes = d->recordings.bytes,
                                   .connected_bytes = d->peers.nccl ? d->peers.nccl->bytes : 0,
                                   .recorded = d->recordings.made,
                                   .recorded_seconds = d->recordings.seconds};
}

/* ---- several ranks ---- */

/* Sums must not depend on who made them: the other device takes the same algorithms, and nobody plans workspaces for it once more. */
static int take_choices(const struct backend *from, const struct backend *to, struct snug_err *err)
{
    char *choices;
    struct snug_err refused;
    TRY(from->record->give(from, &choices, err));
    int code = to->record->take(to, choices, &refused, err);
    mem_free(choices);
    cuda_products_grant(cuda_of(to)->call.products);
    return code || !refused.code ? code : err_set(err, refused.code, "GPUs that are not alike: %s", refused.text);
}

static int beside(const struct backend *b, int device, const struct backend **out, struct snug_err *err)
{
    struct cuda_settings s = cuda_of(b)->settings;
    s.device = device;
    TRY(backend_cuda_open(&s, out, err));
    int code = take_choices(b, *out, err);
    if (code) {
        backend_close(*out);
        *out = NULL;
    }
    return code;
}

static int connect_with(const struct backend *b, const struct rank *r, struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    return cuda_nccl_open(r, d->device, &d->peers.nccl, err);
}

/* What was recorded before knows other ranks, or none. */
static int join(const struct backend *b, const struct rank *r, struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    recordings_forget(&d->recordings);
    cuda_peers_leave(&d->peers);
    return cuda_peers_join(&d->peers, r, d->device, d->arena.base, err);
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
        return err_set(err, SNUG_ERR_ENV, "--gpus: GPU %d is not there; this machine has %d", s->device, n);
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
        d->before_bytes = before.used_bytes;
    TRY(find_device(d, s, err));
    /* A context keeps room for the stacks of all threads that the device can hold: 0.28 GB by default. Kernels here need next
     * to nothing; one that needs more is given it when it is launched. */
    OPENING(s->device, cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES));
    OPENING(s->device, cudaStreamCreateWithFlags(&d->call.stream, cudaStreamNonBlocking));
    TRY(cuda_lanes_open(&d->lanes, d->call.stream, s->device, err));
    d->recordings.lanes = &d->lanes;
    TRY(cuda_arena_open(&d->arena, s->device, err));
    TRY(cuda_products_open(&d->call.products, cuda_scales_rows(d->arch), err));
    return cuda_measured_open(d, s->cache_dir, d->base.arena->available(&d->base), err);
}

/* A device that is not there: what is asked before anything is allocated is answered from the profile. */
static int open_absent(struct cuda *d, const struct cuda_settings *s, struct snug_err *err)
{
    struct cuda_profile_device device;
    TRY(cuda_measured_read(d, s->profile, &device, err));
    TRY(cuda_arch_check(device.arch, err));
    d->arch = device.arch;
    d->free_bytes = device.free_bytes;
    d->call.sms = device.sms;
    d->call.sm90 = cuda_arch_sm90(device.arch);
    TRY(cuda_products_open_absent(device.cublaslt, cuda_scales_rows(device.arch), &d->call.products, err));
    return cuda_measured_take(d, s->profile, err);
}

static void close_device(const struct backend *b)
{
    struct cuda *d = cuda_of(b);
    cuda_peers_leave(&d->peers);
    cuda_nccl_close(d->peers.nccl);
    cuda_measured_close(d);
    nvml_close(d->nvml);
    cuda_products_close(d->call.products);
    cuda_arena_close(&d->arena);
    cuda_lanes_close(&d->lanes);
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
                               .facts = cuda_facts(0),
                               .arena = s->profile ? &cuda_arena_absent : &cuda_arena,
                               .kernels = cuda_measured_kernels,
                               .run = run,
                               .run_on = run_on,
                               .settle = settle,
                               .workspace_bytes = workspace_bytes,
                               .workspace_most = workspace_most,
                               .takes = cuda_takes,
                               .bucket = cuda_bucket,
                               .together = cuda_launch_together,
                               .replay = replay,
                               .memory = memory,
                               .profile = s->profile ? &cuda_profile_absent : &cuda_profile_here,
                               .record = &cuda_record,
                               .beside = beside,
                               .connect = connect_with,
                               .join = join,
                               .close = close_device};
    d->base.facts.one_by_one = blocking && atoi(blocking);
    d->settings = *s;
    d->call.tf32 = s->tf32;
    d->peers.n = s->ranks ? s->ranks : 1;
    d->peers.slot_most = exchange_slot_most(d->peers.n);
    d->call.peers = &d->peers;
    d->call.pages = &d->pages;
    int code = s->profile ? open_absent(d, s, err) : open_device(d, s, err);
    d->base.facts.narrow_types = cuda_narrow_types(d->arch);
    d->base.reads_mask = d->call.sm90 ? reads_mask : NULL;
    if (code)
        close_device(&d->base);
    else
        *out = &d->base;
    return code;
}
