/* Times of the CUDA kernels that are bound by memory, at the shapes of BERT-large with 512 tokens a sequence: bytes
 * that must move (every tensor once), time, and their quotient beside that of a plain copy. Each op runs over several
 * sets of tensors, together larger than the cache, in one captured graph; the median of its replays is printed.
 *
 *     bench-memory [op…] */
#include "base/mem.h"
#include "base/philox.h"
#include "cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAUNCHES = 24, REPLAYS = 15, MAX_SETS = 24, LENGTH = 512, WORDS = 30522, H = 1024, F = 4096 };
enum { HEADS = 16, KV_HEADS = 4, HEAD = 128, QKV = (HEADS + 2 * KV_HEADS) * HEAD }; /* of a decoder */
static const int64_t CACHE_BYTES = (int64_t)160 << 20;

#define SHAPE_(type, ...)                                                                                              \
    {                                                                                                                  \
        .shape = {__VA_ARGS__}, .dtype = type, .ndim = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)              \
    }
#define X(...) SHAPE_(DT_BF16, __VA_ARGS__)
#define FLOAT(...) SHAPE_(DT_F32, __VA_ARGS__)
#define INTS(...) SHAPE_(DT_I32, __VA_ARGS__)
#define STEP .step = SHAPE_(DT_F64, STEP_SCALARS)
#define DROP(T) .coords = INTS(T, 2), .rng = INTS(4), .p = 0.1, .site = 3
#define ROW(opname, what, ...) .op = OP_##opname, .note = what, .args.opname = {__VA_ARGS__}

struct row {
    enum op op;
    const char *note;
    union args_any args;
    bool add;
    int64_t table_rows; /* of an embedding table that are touched: all where 0 */
};

/* B sequences. */
#define ROWS(B)                                                                                                        \
    {ROW(embed, "", .ids = INTS(B * LENGTH), .table = FLOAT(WORDS, H), .ids2 = INTS(B * LENGTH),                       \
         .table2 = FLOAT(LENGTH, H), .ids3 = INTS(B * LENGTH), .table3 = FLOAT(2, H), .y = X(B * LENGTH, H)),          \
     .table_rows = B * LENGTH},                                                                                        \
        {ROW(norm, "res, dropout", .x = X(B * LENGTH, H), .res = X(B * LENGTH, H), .gamma = FLOAT(H),                  \
             .beta = FLOAT(H), DROP(B * LENGTH), .y = X(B * LENGTH, H), .h = X(B * LENGTH, H),                         \
             .mean = FLOAT(B * LENGTH), .rstd = FLOAT(B * LENGTH), .eps = 1e-12)},                                     \
        {ROW(norm, "res", .x = X(B * LENGTH, H), .res = X(B * LENGTH, H), .gamma = FLOAT(H), .beta = FLOAT(H),         \
             .y = X(B * LENGTH, H), .h = X(B * LENGTH, H), .mean = FLOAT(B * LENGTH), .rstd = FLOAT(B * LENGTH),       \
             .eps = 1e-12)},                                                                                           \
        {ROW(norm_bwd, "dropout", .dy = X(B * LENGTH, H), .h = X(B * LENGTH, H), .gamma = FLOAT(H),                    \
             .mean = FLOAT(B * LENGTH), .rstd = FLOAT(B * LENGTH), DROP(B * LENGTH), .dx = X(B * LENGTH, H),           \
             .dres = X(B * LENGTH, H), .dgamma = FLOAT(H), .dbeta = FLOAT(H))},                                        \
        {ROW(norm_bwd, "", .dy = X(B * LENGTH, H), .h = X(B * LENGTH, H), .gamma = FLOAT(H),                           \
             .mean = FLOAT(B * LENGTH), .rstd = FLOAT(B * LENGTH), .dres = X(B * LENGTH, H), .dgamma = FLOAT(H),       \
             .dbeta = FLOAT(H))},                                                                                      \
        {ROW(norm_bwd, "dropout, dbias", .dy = X(B * LENGTH, H), .h = X(B * LENGTH, H), .gamma = FLOAT(H),             \
             .mean = FLOAT(B * LENGTH), .rstd = FLOAT(B * LENGTH), DROP(B * LENGTH), .dx = X(B * LENGTH, H),           \
             .dres = X(B * LENGTH, H), .dgamma = FLOAT(H), .dbeta = FLOAT(H), .dbias = FLOAT(H))},                     \
        {ROW(rms_norm, "res", .x = X(B * LENGTH, H), .res = X(B * LENGTH, H), .gamma = FLOAT(H),                       \
             .y = X(B * LENGTH, H), .h = X(B * LENGTH, H), .rstd = FLOAT(B * LENGTH), .eps = 1e-6)},                   \
        {ROW(rms_norm_bwd, "dh", .dy = X(B * LENGTH, H), .dh = X(B * LENGTH, H), .h = X(B * LENGTH, H),                \
             .gamma = FLOAT(H), .rstd = FLOAT(B * LENGTH), .dx = X(B * LENGTH, H), .dres = X(B * LENGTH, H),           \
             .dgamma = FLOAT(H))},                                                                                     \
        {ROW(glu, "silu", .x = X(B * LENGTH, 2 * F), .y = X(B * LENGTH, F), .act = ACT_silu)},                         \
        {ROW(glu_bwd, "silu", .x = X(B * LENGTH, 2 * F), .dy = X(B * LENGTH, F), .dx = X(B * LENGTH, 2 * F),           \
             .act = ACT_silu)},                                                                                        \
        {ROW(rotary, "", .qkv = X(B * LENGTH, QKV), .table = FLOAT(B * LENGTH, HEAD), .y = X(B * LENGTH, QKV),         \
             .heads = HEADS, .kv_heads = KV_HEADS)},                                                                   \
        {ROW(rotary, "norms", .qkv = X(B * LENGTH, QKV), .table = FLOAT(B * LENGTH, HEAD), .q_gamma = FLOAT(HEAD),     \
             .k_gamma = FLOAT(HEAD), .y = X(B * LENGTH, QKV), .rstd = FLOAT(B * LENGTH, HEADS + KV_HEADS),             \
             .heads = HEADS, .kv_heads = KV_HEADS, .eps = 1e-6)},                                                      \
        {ROW(rotary_bwd, "", .dy = X(B * LENGTH, QKV), .table = FLOAT(B * LENGTH, HEAD), .dqkv = X(B * LENGTH, QKV),   \
             .heads = HEADS, .kv_heads = KV_HEADS)},                                                                   \
        {ROW(rotary_bwd, "norms", .dy = X(B * LENGTH, QKV), .table = FLOAT(B * LENGTH, HEAD),                          \
             .qkv = X(B * LENGTH, QKV), .q_gamma = FLOAT(HEAD), .k_gamma = FLOAT(HEAD),                                \
             .rstd = FLOAT(B * LENGTH, HEADS + KV_HEADS), .dqkv = X(B * LENGTH, QKV), .dq_gamma = FLOAT(HEAD),         \
             .dk_gamma = FLOAT(HEAD), .heads = HEADS, .kv_heads = KV_HEADS)},                                          \
        {ROW(act_bwd, "dbias", .slope = X(B * LENGTH, F), .dy = X(B * LENGTH, F), .du = X(B * LENGTH, F),              \
             .dbias = FLOAT(F))},                                                                                      \
        {ROW(dropout, "", .x = X(B * LENGTH, H), DROP(B * LENGTH), .y = X(B * LENGTH, H))},                            \
        {ROW(act_bwd, "", .slope = X(B * LENGTH, F), .dy = X(B * LENGTH, F), .du = X(B * LENGTH, F))},                 \
        {ROW(gather, "", .x = X(B * LENGTH, H), .cu = INTS(B + 1), .y = X(B, H))},                                     \
        {ROW(gather_bwd, "", .dy = X(B, H), .cu = INTS(B + 1), .dx = X(B * LENGTH, H))},                               \
        {ROW(cross_entropy, "classes", .logits = FLOAT(B, 77), .labels = INTS(B), STEP, .loss = FLOAT(1),              \
             .lse = FLOAT(B))},                                                                                        \
        {ROW(cross_entropy, "vocabulary", .logits = X(B * 128, WORDS), .labels = INTS(B * 128), STEP,                  \
             .loss = FLOAT(1), .lse = FLOAT(B * 128))},                                                                \
        {ROW(cross_entropy_bwd, "vocabulary", .logits = X(B * 128, WORDS), .labels = INTS(B * 128),                    \
             .lse = FLOAT(B * 128), STEP, .dlogits = X(B * 128, WORDS))},                                              \
        {ROW(embed_bwd, "words, added", .ids = INTS(B * LENGTH), .dy = X(B * LENGTH, H), .cu = INTS(B + 1),            \
             .dtable = FLOAT(WORDS, H)),                                                                               \
         .add = true, .table_rows = B * LENGTH},                                                                       \
        {ROW(embed_bwd, "words", .ids = INTS(B * LENGTH), .dy = X(B * LENGTH, H), .cu = INTS(B + 1),                   \
             .dtable = FLOAT(WORDS, H))},                                                                              \
        {ROW(embed_bwd, "positions", .ids = INTS(B * LENGTH), .dy = X(B * LENGTH, H), .cu = INTS(B + 1),               \
             .dtable = FLOAT(LENGTH, H))},                                                                             \
        {ROW(embed_bwd, "types", .ids = INTS(B * LENGTH), .dy = X(B * LENGTH, H), .cu = INTS(B + 1),                   \
             .dtable = FLOAT(2, H))},                                                                                  \
    {                                                                                                                  \
        ROW(cast, "F32 to BF16", .x = FLOAT(F, H * (B >= 32 ? 8 : 1)), .y = X(F, H * (B >= 32 ? 8 : 1)))               \
    }

static const struct row rows[] = {ROWS(32), ROWS(4)};

#define OP(name, slots, attrs, diff, text)                                                                             \
    static int run_##name(const union args_any *a, const struct cuda_call *c)                                          \
    {                                                                                                                  \
        return cuda_##name(&a->name, c);                                                                               \
    }
#include "graph/ops.h"
#undef OP
#define OP(name, slots, attrs, diff, text) [OP_##name] = run_##name,
static int (*const launchers[OP_COUNT])(const union args_any *, const struct cuda_call *) = {
#include "graph/ops.h"
};
#undef OP

#define ROW_(name)                                                                                                     \
    static int64_t workspace_##name(const union args_any *a, const struct cuda_call *c)                                \
    {                                                                                                                  \
        return cuda_##name##_workspace(&a->name, c);                                                                   \
    }
CUDA_WORKSPACES(ROW_)
#undef ROW_
#define ROW_(name) [OP_##name] = workspace_##name,
static int64_t (*const workspaces[OP_COUNT])(const union args_any *,
                                             const struct cuda_call *) = {CUDA_WORKSPACES(ROW_)};
#undef ROW_

static void must(int code)
{
    if (code) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString((cudaError_t)code));
        exit(1);
    }
}

static uint32_t bits(int64_t i, uint32_t stream)
{
    return philox4x32((struct philox){{(uint32_t)i, stream, 0, 0}}, 7, 1).w[0];
}

/* Words are drawn as in text, by rank: P(rank <= r) grows with log r. */
static int32_t word(int64_t i)
{
    double u = bits(i, 1) / 4294967296.0, r = 1;
    for (int k = 0; k < 15; k++)
        r *= u * 15 > k + 1 ? 2 : u * 15 > k ? 1 + (u * 15 - k) : 1;
    return (int32_t)r % WORDS;
}

static void fill(const struct row *row, int slot, char *host)
{
    enum { PATTERN = 99991 }; /* floats are drawn once and repeated */
    const char *name = op_table[row->op].slots[slot].name;
    const struct tensor *t = &row->args.slot[slot];
    int64_t n = tensor_elements(t), tokens = row->args.slot[0].shape[0];
    for (int64_t i = 0; i < n; i++) {
        int32_t k = 0;
        if (!strcmp(name, "cu"))
            k = (int32_t)(i * LENGTH);
        else if (!strcmp(name, "coords"))
            k = (int32_t)(i % 2 ? i / 2 % LENGTH : i / 2 / LENGTH);
        else if (!strcmp(name, "rng"))
            k = 77;
        else if (!strcmp(name, "labels"))
            k = (int32_t)(bits(i, 2) % (uint32_t)row->args.slot[0].shape[1]);
        else if (!strcmp(name, "ids2") || (!strcmp(name, "ids") && !strcmp(row->note, "positions")))
            k = (int32_t)(i % LENGTH);
        else if (!strcmp(name, "ids3") || (!strcmp(name, "ids") && !strcmp(row->note, "types")))
            k = i > tokens - 2;
        else if (!strcmp(name, "ids"))
            k = word(i);
        if (t->dtype == DT_I32)
            ((int32_t *)host)[i] = k;
        else if (t->dtype == DT_F64)
            ((double *)host)[i] = 0.5;
        else if (i < PATTERN) {
            float x = (float)(bits(i, (uint32_t)slot) / 2147483648.0 - 1);
            dtype_convert(host + dtype_bytes(t->dtype, i), t->dtype, &x, DT_F32, 1);
        } else {
            int64_t run = n - i < PATTERN ? n - i : PATTERN;
            memcpy(host + dtype_bytes(t->dtype, i), host, (size_t)dtype_bytes(t->dtype, run));
            i += run - 1;
        }
    }
}

/* What must move: every tensor once, twice where it is added to. */
static int64_t bytes_moved(const struct row *row)
{
    int64_t bytes = 0;
    for (int i = 0; i < op_table[row->op].n_slots; i++) {
        struct tensor t = row->args.slot[i];
        if (t.ndim == 2 && t.shape[0] == WORDS && row->table_rows)
            t.shape[0] = row->table_rows;
        if (!strcmp(op_table[row->op].slots[i].name, "x") && row->op == OP_gather)
            t = row->args.gather.y;
        bytes += dtype_bytes(t.dtype, tensor_elements(&t)) *
                 (op_table[row->op].slots[i].kind == SLOT_ACC && row->add ? 2 : 1);
    }
    return bytes;
}

static int by_time(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double median_us(cudaGraphExec_t graph, cudaStream_t stream)
{
    float ms[REPLAYS];
    cudaEvent_t from, to;
    must(cudaEventCreate(&from));
    must(cudaEventCreate(&to));
    for (int i = -2; i < REPLAYS; i++) {
        must(cudaEventRecord(from, stream));
        must(cudaGraphLaunch(graph, stream));
        must(cudaEventRecord(to, stream));
        must(cudaStreamSynchronize(stream));
        must(cudaEventElapsedTime(&ms[i < 0 ? 0 : i], from, to));
    }
    must(cudaEventDestroy(from));
    must(cudaEventDestroy(to));
    qsort(ms, REPLAYS, sizeof *ms, by_time);
    return 1000.0 * ms[REPLAYS / 2] / LAUNCHES;
}

/* Sets of tensors that are more than the cache holds. */
static int make_sets(const struct row *row, union args_any *sets, char **memory)
{
    int n = op_table[row->op].n_slots;
    int64_t set_bytes = 0, at = 0;
    for (int i = 0; i < n; i++)
        set_bytes += (dtype_bytes(row->args.slot[i].dtype, tensor_elements(&row->args.slot[i])) + 255) / 256 * 256;
    int count = (int)(CACHE_BYTES / set_bytes) + 2;
    count = count > MAX_SETS ? MAX_SETS : count;
    must(cudaMalloc((void **)memory, (size_t)(set_bytes * count)));
    for (int s = 0; s < count; s++) {
        sets[s] = row->args;
        for (int i = 0; i < n; i++) {
            struct tensor *t = &sets[s].slot[i];
            int64_t bytes = dtype_bytes(t->dtype, tensor_elements(t));
            if (!t->ndim)
                continue;
            t->data = *memory + at;
            t->add = row->add && op_table[row->op].slots[i].kind == SLOT_ACC;
            at += (bytes + 255) / 256 * 256;
            if (s) {
                must(cudaMemcpy(t->data, sets[0].slot[i].data, (size_t)bytes, cudaMemcpyDeviceToDevice));
                continue;
            }
            char *host = mem_alloc((size_t)bytes);
            if (!host)
                exit(1);
            fill(row, i, host);
            must(cudaMemcpy(t->data, host, (size_t)bytes, cudaMemcpyHostToDevice));
            mem_free(host);
        }
    }
    return count;
}

static void bench(const struct row *row, struct cuda_call *call)
{
    union args_any sets[MAX_SETS];
    char *memory;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int count = make_sets(row, sets, &memory);
    int64_t space = workspaces[row->op] ? workspaces[row->op](&row->args, call) : 0;
    must(cudaMalloc(&call->workspace, (size_t)space + 256));
    must(cudaStreamBeginCapture(call->stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < LAUNCHES; i++)
        if (launchers[row->op](&sets[i % count], call)) {
            fprintf(stderr, "%s\n", call->err->text);
            exit(1);
        }
    must(cudaStreamEndCapture(call->stream, &graph));
    must(cudaGraphInstantiate(&exec, graph, 0));
    double us = median_us(exec, call->stream), bytes = (double)bytes_moved(row);
    printf("%-18s %-14s %6lld %9.2f %8.2f %6.2f\n", op_table[row->op].name, row->note,
           (long long)row->args.slot[0].shape[0], bytes / 1e6, us, bytes / us / 1e6);
    must(cudaGraphExecDestroy(exec));
    must(cudaGraphDestroy(graph));
    must(cudaFree(call->workspace));
    must(cudaFree(memory));
}

static void bench_copy(cudaStream_t stream)
{
    enum { BYTES = 1 << 29 };
    char *memory;
    float ms, best = 1e9f;
    cudaEvent_t from, to;
    must(cudaMalloc((void **)&memory, 2 * (size_t)BYTES));
    must(cudaMemset(memory, 0x3C, 2 * (size_t)BYTES));
    must(cudaEventCreate(&from));
    must(cudaEventCreate(&to));
    for (int i = 0; i < REPLAYS; i++) {
        must(cudaEventRecord(from, stream));
        must(cudaMemcpyAsync(memory, memory + BYTES, BYTES, cudaMemcpyDeviceToDevice, stream));
        must(cudaEventRecord(to, stream));
        must(cudaStreamSynchronize(stream));
        must(cudaEventElapsedTime(&ms, from, to));
        best = ms < best ? ms : best;
    }
    printf("%-18s %-14s %6s %9.2f %8.2f %6.2f\n", "copy", "", "", 2.0 * BYTES / 1e6, 1000 * best,
           2.0 * BYTES / best / 1e9);
    must(cudaFree(memory));
}

int main(int argc, char **argv)
{
    struct snug_err err = {0};
    struct cudaDeviceProp p;
    struct cuda_call call = {.err = &err};
    must(cudaGetDeviceProperties(&p, 0));
    must((cudaError_t)cuda_call_device(&call, 0));
    must(cudaStreamCreateWithFlags(&call.stream, cudaStreamNonBlocking));
    printf("%s\n%-18s %-14s %6s %9s %8s %6s\n", p.name, "op", "", "rows", "MB", "us", "TB/s");
    if (argc == 1)
        bench_copy(call.stream);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool named = argc == 1;
        for (int k = 1; k < argc; k++)
            named |= !strcmp(argv[k], op_table[rows[i].op].name);
        if (named)
            bench(&rows[i], &call);
    }
    return 0;
}
