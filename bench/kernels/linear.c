/* Speed of linear layers on the CPU: ours, and oneDNN's matmul where the build found it, at BERT-large's (2048 tokens)
 * and MiniLM's (512 tokens) sizes. The best of several runs: other processes only ever make one slower. Then how often
 * oneDNN keeps what snug's own products promise: the same bits on one thread and on all, and of rows by themselves and among
 * others; and whether they are the bits of ours, which a product would need that stands in for ours at some numbers of rows.
 * usage: bench-linear [THREADS] */
#include "backend/backend.h"

#include "base/mem.h"
#include "base/seconds.h"

#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined SNUG_ONEDNN
#include <dnnl.h>
#endif

enum { RUNS = 300 };
static const double LASTING = 0.15; /* seconds after which no further run begins */

/* Buffers of the largest sizes: left and right operand, result, pre-activation, bias, workspace. */
static void *left, *right, *result, *before, *bias, *workspace;
static const int64_t BUFFER = 64 << 20;
static int threads;

static struct tensor tensor(void *data, enum dtype type, int64_t rows, int64_t columns)
{
    return (struct tensor){.data = data, .dtype = type, .ndim = 2, .shape = {rows, columns}};
}

static double ours(enum op op, const union args_any *args)
{
    const struct backend *b = backend_cpu();
    struct work work = {.op = op, .args = *args, .call = {.workspace = workspace, .threads = threads}};
    struct snug_err err;
    double best = 1e9, start = seconds_now();
    if (backend_workspace_bytes(b, op, args, threads) > BUFFER)
        return best;
    for (int i = 0; i < RUNS && (i < 2 || seconds_now() - start < LASTING); i++) {
        double t = seconds_now();
        b->run(b, &work, 1, &err);
        t = seconds_now() - t;
        best = t < best ? t : best;
    }
    return best;
}

#if defined SNUG_ONEDNN

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static dnnl_memory_desc_t matrix(int64_t rows, int64_t columns, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    dnnl_dims_t dims = {rows, columns};
    dnnl_memory_desc_t d;
    dnnl_memory_desc_init_by_tag(&d, 2, dims, type, tag);
    return d;
}

/* left (M,K) times right (K,N), either stored transposed; `packed`: right in the layout that oneDNN likes best, with
 * the time to bring it there. */
static double onednn(int64_t M, int64_t N, int64_t K, bool left_t, bool right_t, enum dtype in, enum dtype out,
                     bool packed)
{
    dnnl_data_type_t type = in == DT_BF16 ? dnnl_bf16 : dnnl_f32, to = out == DT_BF16 ? dnnl_bf16 : dnnl_f32;
    dnnl_memory_desc_t a = matrix(M, K, type, left_t ? dnnl_ba : dnnl_ab),
                       b = matrix(K, N, type, right_t ? dnnl_ba : dnnl_ab);
    dnnl_memory_desc_t any = matrix(K, N, type, packed ? dnnl_format_tag_any : right_t ? dnnl_ba : dnnl_ab);
    dnnl_memory_desc_t c = matrix(M, N, to, dnnl_ab);
    dnnl_matmul_desc_t desc;
    dnnl_matmul_desc_init(&desc, &a, &any, NULL, &c);
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t product, reorder = NULL;
    if (dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL) || dnnl_primitive_create(&product, pd))
        return 1e9;
    const dnnl_memory_desc_t *w = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    dnnl_memory_t ma, mb, mw, mc;
    dnnl_memory_create(&ma, &a, engine, left);
    dnnl_memory_create(&mb, &b, engine, right);
    dnnl_memory_create(&mw, w, engine, packed ? workspace : right);
    dnnl_memory_create(&mc, &c, engine, result);
    if (packed) {
        dnnl_primitive_desc_t rd;
        dnnl_reorder_primitive_desc_create(&rd, &b, engine, w, engine, NULL);
        dnnl_primitive_create(&reorder, rd);
        dnnl_primitive_desc_destroy(rd);
    }
    dnnl_exec_arg_t move[] = {{DNNL_ARG_FROM, mb}, {DNNL_ARG_TO, mw}};
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mw}, {DNNL_ARG_DST, mc}};
    double best = 1e9, start = seconds_now();
    for (int i = 0; i < RUNS && (i < 2 || seconds_now() - start < LASTING); i++) {
        double t = seconds_now();
        if (packed)
            dnnl_primitive_execute(reorder, stream, 2, move);
        dnnl_primitive_execute(product, stream, 3, args);
        dnnl_stream_wait(stream);
        t = seconds_now() - t;
        best = t < best ? t : best;
    }
    dnnl_memory_destroy(ma);
    dnnl_memory_destroy(mb);
    dnnl_memory_destroy(mw);
    dnnl_memory_destroy(mc);
    dnnl_primitive_destroy(product);
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(pd);
    return best;
}

static void start_onednn(void)
{
    dnnl_engine_create(&engine, dnnl_cpu, 0);
    dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
}

/* Whether (M,N) of F32 has the bits of before; keeps it for the next. */
static bool as_before(int64_t M, int64_t N)
{
    bool same = !memcmp(before, result, (size_t)(4 * M * N));
    memcpy(before, result, (size_t)(4 * M * N));
    return same;
}

/* The products of a layer on ours: forward, and the gradients of input and weight. */
static void ours_of_layer(int product, int64_t N, int64_t O, int64_t I, enum dtype t)
{
    union args_any y = {
        .linear = {.x = tensor(left, t, N, I), .w = tensor(right, t, O, I), .y = tensor(result, DT_F32, N, O)}};
    union args_any dx = {
        .linear_dx = {.dy = tensor(left, t, N, O), .w = tensor(right, t, O, I), .dx = tensor(result, DT_F32, N, I)}};
    union args_any dw = {
        .linear_dw = {.dy = tensor(left, t, N, O), .x = tensor(right, t, N, I), .dw = tensor(result, DT_F32, O, I)}};
    const union args_any *args[] = {&y, &dx, &dw};
    static const enum op ops[] = {OP_linear, OP_linear_dx, OP_linear_dw};
    ours(ops[product], args[product]);
}

/* Of the same products. */
static void compare_bits(int64_t rows, int64_t O, int64_t I, enum dtype t)
{
    enum { FEW = 7 };
    const int64_t shapes[][3] = {{rows, O, I}, {rows, I, O}, {O, I, rows}};
    printf("%-4s %5ld %5ld %5ld |", dtype_name(t), (long)rows, (long)O, (long)I);
    for (int i = 0; i < 3; i++) {
        const int64_t *s = shapes[i];
        ours_of_layer(i, rows, O, I, t);
        as_before(s[0], s[1]);
        omp_set_num_threads(1);
        onednn(s[0], s[1], s[2], i == 2, i == 0, t, DT_F32, false);
        printf(" %s as ours %s", i == 0 ? "y" : i == 1 ? "dx" : "dw", as_before(s[0], s[1]) ? "yes" : "no");
        omp_set_num_threads(threads);
        onednn(s[0], s[1], s[2], i == 2, i == 0, t, DT_F32, false);
        printf(", threads %s", as_before(s[0], s[1]) ? "yes" : "no");
        if (i < 2) {
            onednn(FEW, s[1], s[2], false, i == 0, t, DT_F32, false);
            printf(", rows %s;", as_before(FEW, s[1]) ? "yes" : "no");
        }
    }
    printf("\n");
}

#else

static double onednn(int64_t M, int64_t N, int64_t K, bool left_t, bool right_t, enum dtype in, enum dtype out,
                     bool packed)
{
    (void)M, (void)N, (void)K, (void)left_t, (void)right_t, (void)in, (void)out, (void)packed;
    return 1e9;
}

static void start_onednn(void)
{
}

static void compare_bits(int64_t rows, int64_t O, int64_t I, enum dtype t)
{
    (void)rows, (void)O, (void)I, (void)t;
}

#endif

static void layer(int64_t N, int64_t O, int64_t I, enum dtype t)
{
    union args_any y = {
        .linear = {.x = tensor(left, t, N, I), .w = tensor(right, t, O, I), .y = tensor(result, t, N, O)}};
    union args_any act = y;
    act.linear.b = (struct tensor){.data = bias, .dtype = DT_F32, .ndim = 1, .shape = {O}};
    act.linear.slope = tensor(before, t, N, O);
    act.linear.act = ACT_gelu;
    union args_any dx = {
        .linear_dx = {.dy = tensor(left, t, N, O), .w = tensor(right, t, O, I), .dx = tensor(result, t, N, I)}};
    union args_any dw = {
        .linear_dw = {.dy = tensor(left, t, N, O), .x = tensor(right, t, N, I), .dw = tensor(result, DT_F32, O, I)}};
    union args_any both = dw;
    both.linear_dw.db = act.linear.b;
    double flops = 2e-9 * (double)(N * O * I);
    printf("%-4s %5ld %5ld %5ld | y %4.0f (%4.0f %4.0f)  gelu, bias, slope %4.0f | dx %4.0f (%4.0f %4.0f) | dw %4.0f "
           "(%4.0f %4.0f)  with db %4.0f\n",
           dtype_name(t), (long)N, (long)O, (long)I, flops / ours(OP_linear, &y),
           flops / onednn(N, O, I, false, true, t, t, false), flops / onednn(N, O, I, false, true, t, t, true),
           flops / ours(OP_linear, &act), flops / ours(OP_linear_dx, &dx),
           flops / onednn(N, I, O, false, false, t, t, false), flops / onednn(N, I, O, false, false, t, t, true),
           flops / ours(OP_linear_dw, &dw), flops / onednn(O, I, N, true, false, t, DT_F32, false),
           flops / onednn(O, I, N, true, false, t, DT_F32, true), flops / ours(OP_linear_dw, &both));
}

int main(int argc, char **argv)
{
    static const int64_t sizes[][3] = {{2048, 1024, 1024}, {2048, 3072, 1024}, {2048, 4096, 1024}, {2048, 1024, 4096},
                                       {512, 384, 384},    {512, 1152, 384},   {512, 1536, 384},   {512, 384, 1536},
                                       {16, 1024, 1024},   {16, 2, 1024}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    threads = argc > 1 ? atoi(argv[1]) : omp_get_num_procs();
    omp_set_num_threads(threads);
    start_onednn();
    void **all[] = {&left, &right, &result, &before, &bias, &workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint16_t *p = *all[i] = mem_map((size_t)BUFFER); /* as the arena is */
        if (!p)
            return 1;
        for (int64_t k = 0; k < BUFFER / 2; k++)
            p[k] = (uint16_t)(0x3F80 | (k * 40503 >> 4 & 0x3F)); /* bf16 from 1 to 1.5; as F32, too */
    }
    printf("GFLOP/s, %s kernels, %d threads: ours (oneDNN plain, oneDNN packed with the packing)\n"
           "type     N     O     I\n",
           backend_cpu()->kernels(backend_cpu()), threads);
    for (int type = 0; type < 2; type++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            layer(sizes[i][0], sizes[i][1], sizes[i][2], type ? DT_F32 : DT_BF16);
    printf("oneDNN: the bits of ours, the same bits on 1 and %d threads, and of 7 rows by themselves and among all\n",
           threads);
    for (int type = 0; type < 2; type++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            compare_bits(sizes[i][0], sizes[i][1], sizes[i][2], type ? DT_F32 : DT_BF16);
    return 0;
}
