/* Every case of ../op/cases.c on the kernels of the cuda backend (../op/harness.h). Buffers go to the device with their
 * guards and come back whole. Needs an NVIDIA GPU: without one it says so and ends with 77, which Meson counts as
 * skipped. Ops may be named: test-cuda-ops norm norm_bwd */
#include "../op/cases.h"
#include "../op/harness.h"
#include "cuda/kernels.h"
#include "cuda/products.h"

#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OP(name, slots, attrs, diff, text)                                                                             \
    static int run_##name(const union args_any *a, const struct cuda_call *c)                                          \
    {                                                                                                                  \
        return cuda_##name(&a->name, c);                                                                               \
    }
#include "graph/ops.h"
#undef OP

#define ROW(name)                                                                                                      \
    static int64_t workspace_##name(const union args_any *a, const struct cuda_call *c)                                \
    {                                                                                                                  \
        return cuda_##name##_workspace(&a->name, c);                                                                   \
    }
CUDA_WORKSPACES(ROW)
#undef ROW

static int (*const launchers[OP_COUNT])(const union args_any *, const struct cuda_call *) = {
#define OP(name, slots, attrs, diff, text) [OP_##name] = run_##name,
#include "graph/ops.h"
#undef OP
};

static int64_t (*const workspaces[OP_COUNT])(const union args_any *, const struct cuda_call *) = {
#define ROW(name) [OP_##name] = workspace_##name,
    CUDA_WORKSPACES(ROW)
#undef ROW
};

struct device {
    struct cuda_call call;
    char *memory;
    int64_t bytes;
};

static void must(cudaError_t code)
{
    if (code)
        fail_msg("CUDA: %s", cudaGetErrorString(code));
}

static int64_t workspace(const struct op_runner *r, enum op op, const union args_any *args, int threads)
{
    const struct device *d = r->kernels;
    (void)threads;
    return workspaces[op] ? workspaces[op](args, &d->call) : 0;
}

/* On the kernel's stream: a plain cudaMemcpy may return before the bytes are there, and that stream waits for none. */
static char *upload(const struct buffer *b, char *to, struct CUstream_st *stream)
{
    must(cudaMemcpyAsync(to, b->base, (size_t)b->all_bytes, cudaMemcpyHostToDevice, stream));
    return to + (b->data - b->base);
}

static void download(const struct buffer *b, const char *from)
{
    must(cudaMemcpy(b->base, from, (size_t)b->all_bytes, cudaMemcpyDeviceToHost));
}

static void run(const struct op_runner *r, enum op op, union args_any *args, const struct buffer *slots,
                const struct buffer *space, int threads)
{
    const struct device *d = r->kernels;
    struct cuda_call call = d->call;
    struct snug_err err = {0};
    int64_t at = space->all_bytes, bytes = at;
    (void)threads;
    for (int i = 0; i < op_table[op].n_slots; i++)
        bytes += slots[i].all_bytes;
    if (bytes > d->bytes)
        fail_msg("%s: a case of %lld bytes; the test has %lld on the device", op_table[op].name, (long long)bytes,
                 (long long)d->bytes);
    call.workspace = upload(space, d->memory, call.stream);
    call.err = &err;
    for (int i = 0; i < op_table[op].n_slots; i++)
        if (slots[i].base) {
            args->slot[i].data = upload(&slots[i], d->memory + at, call.stream);
            at += slots[i].all_bytes;
        }
    if (launchers[op](args, &call))
        fail_msg("%s", err.text);
    must(cudaStreamSynchronize(call.stream));
    download(space, d->memory);
    at = space->all_bytes;
    for (int i = 0; i < op_table[op].n_slots; i++)
        if (slots[i].base) {
            download(&slots[i], d->memory + at);
            at += slots[i].all_bytes;
        }
}

static bool named[OP_COUNT];

static bool is_named(enum op op)
{
    return named[op];
}

static void test_ops(void **state)
{
    struct device d = {.bytes = (int64_t)1 << 28};
    struct snug_err err = {0};
    struct cudaDeviceProp p;
    struct op_runner r = {.name = "cuda", .fp16 = true, .workspace = workspace, .run = run, .kernels = &d};
    (void)state;
    must(cudaGetDeviceProperties(&p, 0));
    d.call.sms = p.multiProcessorCount;
    d.call.arch = 10 * p.major + p.minor;
    must(cudaMalloc((void **)&d.memory, (size_t)d.bytes));
    must(cudaStreamCreateWithFlags(&d.call.stream, cudaStreamNonBlocking));
    if (cuda_products_open(&d.call.products, &err))
        fail_msg("%s", err.text);
    check_runner(&r, is_named);
    cuda_products_close(d.call.products);
    must(cudaStreamDestroy(d.call.stream));
    must(cudaFree(d.memory));
}

int main(int argc, char **argv)
{
    int devices;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ops)};
    if (cudaGetDeviceCount(&devices) || !devices) {
        printf("skipped: no NVIDIA GPU here\n");
        return 77;
    }
    for (int op = 1; op < OP_COUNT; op++) {
        named[op] = argc == 1;
        for (int i = 1; i < argc; i++)
            named[op] |= !strcmp(argv[i], op_table[op].name);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
