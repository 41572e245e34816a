/* Every case of ../op/cases.c on the kernels of the cuda backend (../op/harness.h). Buffers go to the device with their
 * guards and come back whole. Needs an NVIDIA GPU: without one it says so and ends with 77, which Meson counts as
 * skipped. Ops may be named, or those that are left out: test-cuda-ops norm norm_bwd, test-cuda-ops not norm. With the emulator in
 * the place of CUDA it runs everywhere (emulator/). */
#include "../op/cases.h"
#include "../op/harness.h"
#include "cuda/launch.h"
#include "cuda/products/products.h"

#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    return cuda_launch_workspace(op, args, &d->call);
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
    if (cuda_launch(op, args, &call))
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

/* ---- the same with padding ---- */

/* Rows and elements of a row that are put behind a slot's tensor: behind the outputs of a linear layer. */
static void pad_slot(enum op op, int slot, struct tensor *t)
{
    enum { TO = 64 };
    const char *name = op_table[op].slots[slot].name;
    bool weight = (op == OP_linear || op == OP_linear_dx || op == OP_linear_dw || op == OP_linear_cross_entropy) &&
                  (!strcmp(name, "w") || !strcmp(name, "b") || !strcmp(name, "dw"));
    if (op_slot_is(op, slot, SLOT_PADDED) && t->ndim == 2)
        t->pitch = (t->shape[1] / TO + 1) * TO;
    else if (weight && t->ndim)
        t->pad_rows = TO - t->shape[0] % TO;
}

/* Copies a tensor without its padding to one with it (in zeros), or back. */
static void copy_rows(const struct tensor *t, uint8_t *padded, uint8_t *dense, bool back)
{
    int64_t rows = t->pitch ? t->shape[0] : 1, elements = tensor_elements(t), row = rows ? elements / rows : 0;
    int64_t bytes = dtype_bytes(t->dtype, row), pitch = dtype_bytes(t->dtype, t->pitch ? t->pitch : row);
    if (!back)
        memset(padded, 0, (size_t)dtype_bytes(t->dtype, tensor_room(t)));
    for (int64_t r = 0; r < rows; r++)
        memcpy(back ? dense + r * bytes : padded + r * pitch, back ? padded + r * pitch : dense + r * bytes,
               (size_t)bytes);
}

/* Products sum over the padding of a gradient: it must be 0, whatever the logits are. */
static bool gradient_ends_with_zeros(const struct tensor *t, const uint8_t *dlogits)
{
    static const uint8_t zeros[64 * sizeof(double)];
    for (int64_t r = 0; r < t->shape[0]; r++)
        if (memcmp(dlogits + dtype_bytes(t->dtype, r * tensor_pitch(t) + t->shape[1]), zeros,
                   (size_t)dtype_bytes(t->dtype, tensor_pitch(t) - t->shape[1])))
            return false;
    return true;
}

/* What pass_pad never pads: the (I,O) layout, and layers with an activation. */
static bool is_padded(enum op op, const union args_any *a)
{
    return op == OP_linear      ? !a->linear.in_out && !a->linear.act && !a->linear.slope.ndim
           : op == OP_linear_dx ? !a->linear_dx.in_out
           : op == OP_linear_dw ? !a->linear_dw.in_out
                                : true;
}

static void run_padded(const struct op_runner *r, enum op op, union args_any *args, const struct buffer *slots,
                       const struct buffer *space, int threads)
{
    enum { GUARD_BYTES = 256 };
    struct buffer wide[OP_MAX_SLOTS] = {0}, room = *space;
    for (int i = 0; i < op_table[op].n_slots; i++) {
        struct tensor *t = &args->slot[i];
        if (!slots[i].base)
            continue;
        if (is_padded(op, args))
            pad_slot(op, i, t);
        wide[i].bytes = dtype_bytes(t->dtype, tensor_room(t));
        wide[i].all_bytes = (wide[i].bytes + 3 * GUARD_BYTES) / GUARD_BYTES * GUARD_BYTES;
        wide[i].base = calloc(1, (size_t)wide[i].all_bytes);
        assert_non_null(wide[i].base);
        wide[i].data = wide[i].base + GUARD_BYTES;
        copy_rows(t, wide[i].data, slots[i].data, false);
    }
    room.bytes = cuda_launch_workspace(op, args, &((const struct device *)r->kernels)->call);
    room.all_bytes = (room.bytes + 3 * GUARD_BYTES) / GUARD_BYTES * GUARD_BYTES;
    room.base = calloc(1, (size_t)room.all_bytes);
    assert_non_null(room.base);
    room.data = room.base + GUARD_BYTES;
    run(r, op, args, wide, &room, threads);
    for (int i = 0; i < op_table[op].n_slots; i++) {
        if (!slots[i].base)
            continue;
        if (op == OP_cross_entropy_bwd && !strcmp(op_table[op].slots[i].name, "dlogits") &&
            !gradient_ends_with_zeros(&args->cross_entropy_bwd.dlogits, wide[i].data))
            fail_msg("the padding of dlogits is not 0");
        copy_rows(&args->slot[i], wide[i].data, slots[i].data, true);
        free(wide[i].base);
    }
    free(room.base);
}

/* What attention refuses: heads whose elements are no multiple of 8 or too many, and dropout with a window or a softcap. */
#define TAKES_ATTENTION(a, narrow)                                                                                     \
    (takes_head((a).qkv.shape[1] / ((a).heads + 2 * (a).kv_heads), narrow) &&                                          \
     !(((a).window || (a).softcap > 0) && (a).p > 0))

static bool takes_head(int64_t D, enum dtype narrow)
{
    return D % 8 == 0 && D <= (narrow == DT_F32 ? 128 : 256);
}

static bool takes(const struct op_case *c, enum dtype narrow)
{
    if (c->op == OP_attention)
        return TAKES_ATTENTION(c->args.attention, narrow);
    if (c->op == OP_linear_fp8) /* cuBLASLt adds no bias of floats to floats */
        return narrow != DT_F32;
    if (c->op == OP_attention_cached)
        return takes_head(c->args.attention_cached.keys.shape[2] / c->args.attention_cached.kv_heads, narrow);
    return c->op != OP_attention_bwd || TAKES_ATTENTION(c->args.attention_bwd, narrow);
}

/* Attention and products of 8 bits read rows by 16 bytes: their tensors are whole values of a plan, and aligned. */
static bool takes_unaligned(enum op op)
{
    return op != OP_linear_fp8 && op != OP_attention && op != OP_attention_bwd && op != OP_attention_general &&
           op != OP_attention_general_bwd && op != OP_attention_disentangled && op != OP_attention_disentangled_bwd;
}

static bool named[OP_COUNT];

static bool is_named(enum op op)
{
    return named[op];
}

static bool is_named_and_padded(enum op op)
{
    bool some = false;
    for (int i = 0; i < op_table[op].n_slots; i++)
        some |= op_slot_is(op, i, SLOT_PADDED);
    return named[op] && (some || op == OP_linear_cross_entropy);
}

static void test_ops(void **state)
{
    struct device d = {.bytes = (int64_t)1 << 28};
    struct snug_err err = {0};
    struct op_runner r = {.name = "cuda",
                          .fp16 = true,
                          .workspace = workspace,
                          .run = run,
                          .takes = takes,
                          .takes_unaligned = takes_unaligned,
                          .kernels = &d};
    (void)state;
    must((cudaError_t)cuda_call_device(&d.call, 0));
    must(cudaMalloc((void **)&d.memory, (size_t)d.bytes));
    must(cudaStreamCreateWithFlags(&d.call.stream, cudaStreamNonBlocking));
    if (cuda_products_open(&d.call.products, d.call.sm90, &err))
        fail_msg("%s", err.text);
    check_runner(&r, is_named);
    check_columns(&r, is_named);
    r.name = "cuda, padded";
    r.run = run_padded;
    check_runner(&r, is_named_and_padded);
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
    bool but = argc > 1 && !strcmp(argv[1], "not");
    for (int op = 1; op < OP_COUNT; op++) {
        named[op] = op != OP_page && (argc == 1 || but); /* which is for the host's memory: pages.c */
        for (int i = 1 + but; i < argc; i++)
            if (!strcmp(argv[i], op_table[op].name))
                named[op] = !but;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
