/* bench-attention: times attention and its gradient on the cpu backend.
 * usage: bench-attention [REPETITIONS [THREADS]]     the best of so many runs; all processors
 * Floating-point operations are counted as 4 s^2 D a head and sequence going forward, 10 s^2 D going back (half when
 * causal): the products alone, with the scores that the backward pass makes again. Those of attention with a bias by distance and of
 * disentangled attention are counted as attention's, so their rates show what the rest of the op costs. */
#include "backend/backend.h"
#include "base/mem.h"
#include "base/seconds.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setting {
    const char *what;
    enum op op;
    enum dtype dtype;
    int64_t B, s, heads, D, causal;
    double p;
};

enum { RELATIVE = 512, BUCKETS = 32, FURTHEST = 128 }; /* as DeBERTa-v3 has them, and T5 */

static const struct setting settings[] = {
    {"BERT-large", OP_attention, DT_BF16, 4, 512, 16, 64, 0, 0.1},
    {"BERT-large", OP_attention, DT_F32, 4, 512, 16, 64, 0, 0.1},
    {"BERT-large, p 0", OP_attention, DT_BF16, 4, 512, 16, 64, 0, 0},
    {"BERT-large, p 0", OP_attention, DT_F32, 4, 512, 16, 64, 0, 0},
    {"short texts", OP_attention, DT_BF16, 32, 16, 12, 32, 0, 0.1},
    {"short texts", OP_attention, DT_F32, 32, 16, 12, 32, 0, 0.1},
    {"128 tokens", OP_attention, DT_BF16, 16, 128, 12, 64, 0, 0.1},
    {"GPT-2, 1024 tokens", OP_attention, DT_BF16, 2, 1024, 12, 64, 1, 0.1},
    {"8192 tokens, D 128", OP_attention, DT_BF16, 1, 8192, 2, 128, 1, 0},
    {"MPNet, short texts", OP_attention_general, DT_BF16, 32, 16, 12, 32, 0, 0.1},
    {"MPNet, short texts", OP_attention_general, DT_F32, 32, 16, 12, 32, 0, 0.1},
    {"MPNet, 128 tokens", OP_attention_general, DT_BF16, 16, 128, 12, 64, 0, 0.1},
    {"T5, 512 tokens", OP_attention_general, DT_F32, 4, 512, 12, 64, 1, 0.1},
    {"DeBERTa, short texts", OP_attention_disentangled, DT_BF16, 32, 16, 12, 32, 0, 0.1},
    {"DeBERTa, short texts", OP_attention_disentangled, DT_F32, 32, 16, 12, 32, 0, 0.1},
    {"DeBERTa, 128 tokens", OP_attention_disentangled, DT_BF16, 16, 128, 12, 64, 0, 0.1},
    {"DeBERTa, 512 tokens", OP_attention_disentangled, DT_F32, 4, 512, 12, 64, 0, 0.1},
};

static void *filled(enum dtype type, int64_t n)
{
    char *p = mem_alloc((size_t)dtype_bytes(type, n) + 64);
    uint64_t x = 1;
    for (int64_t i = 0; p && i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        double v = (double)(x >> 40) / (1 << 23) - 1;
        dtype_convert(p + dtype_bytes(type, i), type, &v, DT_F64, 1);
    }
    return p;
}

/* The best time of one run, in seconds; 0 when there was no memory. */
static double best_time(enum op op, const union args_any *args, int repetitions, int threads)
{
    const struct backend *cpu = backend_cpu();
    int64_t bytes = backend_workspace_bytes(cpu, op, args, threads);
    void *workspace = NULL;
    double best = 0;
    if (cpu->arena->alloc(cpu, bytes + 64, 0, NULL, &workspace, NULL))
        return 0;
    struct work work = {.op = op, .args = *args, .call = {.workspace = workspace, .threads = threads}};
    for (int i = 0; i < repetitions; i++) {
        double start = seconds_now();
        cpu->run(cpu, &work, 1, NULL);
        double took = seconds_now() - start;
        best = best > 0 && best < took ? best : took;
    }
    cpu->arena->free(cpu, workspace, bytes + 64);
    return best;
}

static struct tensor tensor(void *data, enum dtype dtype, int8_t ndim, const int64_t *shape)
{
    struct tensor t = {.data = data, .dtype = dtype, .ndim = ndim};
    memcpy(t.shape, shape, (size_t)ndim * sizeof *shape);
    return t;
}

/* What a setting's ops read and write. */
struct operands {
    struct tensor qkv, cu, coords, rng, o, lse, dout, dqkv, table, dtable, relative, drelative, rows;
};

enum { OPERANDS = sizeof(struct operands) / sizeof(struct tensor) };

static struct tensor floats(enum dtype type, int64_t rows, int64_t columns)
{
    return tensor(filled(type, rows * columns), type, 2, (const int64_t[]){rows, columns});
}

static struct tensor ints(int64_t rows, int64_t columns)
{
    int32_t *p = mem_alloc(4 * (size_t)(rows * columns));
    return tensor(p, DT_I32, columns > 1 ? 2 : 1, (const int64_t[]){rows, columns});
}

static bool make_operands(const struct setting *s, struct operands *x)
{
    int64_t T = s->B * s->s, width = s->heads * s->D;
    *x = (struct operands){.qkv = floats(s->dtype, T, 3 * width),
                           .cu = ints(s->B + 1, 1),
                           .coords = ints(T, 2),
                           .rng = ints(4, 1),
                           .o = floats(s->dtype, T, width),
                           .lse = floats(DT_F32, s->heads, T),
                           .dout = floats(s->dtype, T, width),
                           .dqkv = floats(s->dtype, T, 3 * width),
                           .table = floats(DT_F32, BUCKETS, s->heads),
                           .dtable = floats(DT_F32, BUCKETS, s->heads),
                           .relative = floats(s->dtype, RELATIVE, 2 * width),
                           .drelative = floats(s->dtype, RELATIVE, 2 * width),
                           .rows = ints(2 * s->s - 1, 1)};
    for (int i = 0; i < OPERANDS; i++)
        if (!((struct tensor *)x)[i].data)
            return false;
    for (int64_t b = 0; b <= s->B; b++)
        ((int32_t *)x->cu.data)[b] = (int32_t)(b * s->s);
    for (int64_t t = 0; t < T; t++) {
        ((int32_t *)x->coords.data)[2 * t] = (int32_t)(t / s->s);
        ((int32_t *)x->coords.data)[2 * t + 1] = (int32_t)(t % s->s);
    }
    for (int64_t i = 0; i < 4; i++)
        ((int32_t *)x->rng.data)[i] = (int32_t)i + 1;
    for (int64_t i = 0; i < 2 * s->s - 1; i++) {
        int64_t row = i - (s->s - 1) + RELATIVE / 2;
        ((int32_t *)x->rows.data)[i] = (int32_t)(row < 0 ? 0 : row >= RELATIVE ? RELATIVE - 1 : row);
    }
    return true;
}

/* What the arguments of all of these ops have, under the same names. */
#define SHARED                                                                                                         \
    .cu = x->cu, .coords = x->coords, .rng = x->rng, .o = x->o, .lse = x->lse, .heads = s->heads,                      \
    .scale = 1 / sqrt((double)s->D), .p = s->p

/* The arguments of a setting's op and of its gradient, which is given. */
static enum op make_args(const struct setting *s, const struct operands *x, union args_any *f, union args_any *b)
{
    switch (s->op) {
    case OP_attention_general:
        f->attention_general = (struct args_attention_general){SHARED, .q = x->qkv, .table = x->table,
                                                               .furthest = FURTHEST, .causal = s->causal};
        b->attention_general_bwd = (struct args_attention_general_bwd){
            SHARED,        .q = x->qkv,         .table = x->table,    .dout = x->dout,
            .dq = x->dqkv, .dtable = x->dtable, .furthest = FURTHEST, .causal = s->causal};
        return OP_attention_general_bwd;
    case OP_attention_disentangled:
        f->attention_disentangled = (struct args_attention_disentangled){
            SHARED, .qkv = x->qkv, .relative = x->relative, .rows = x->rows, .queries = 1, .keys = 2};
        b->attention_disentangled_bwd = (struct args_attention_disentangled_bwd){
            SHARED,          .qkv = x->qkv,   .relative = x->relative,   .rows = x->rows,
            .dout = x->dout, .dqkv = x->dqkv, .drelative = x->drelative, .queries = 1,
            .keys = 2};
        return OP_attention_disentangled_bwd;
    default:
        f->attention = (struct args_attention){SHARED, .qkv = x->qkv, .kv_heads = s->heads, .causal = s->causal};
        b->attention_bwd = (struct args_attention_bwd){SHARED,          .qkv = x->qkv,        .dout = x->dout,
                                                       .dqkv = x->dqkv, .kv_heads = s->heads, .causal = s->causal};
        return OP_attention_bwd;
    }
}

static void measure(const struct setting *s, int repetitions, int threads)
{
    struct operands x;
    if (make_operands(s, &x)) {
        union args_any f = {0}, b = {0};
        enum op op_bwd = make_args(s, &x, &f, &b);
        double forward = best_time(s->op, &f, repetitions, threads);
        double backward = best_time(op_bwd, &b, repetitions, threads);
        double gflop = 1e-9 * (double)(s->B * s->heads * s->s * s->s * s->D) / (s->causal ? 2 : 1);
        printf("%-20s %-4s %8.3f ms %5.0f GFLOP/s %8.3f ms %5.0f GFLOP/s %5.0f GFLOP/s\n", s->what,
               dtype_name(s->dtype), 1e3 * forward, 4 * gflop / forward, 1e3 * backward, 10 * gflop / backward,
               14 * gflop / (forward + backward));
    }
    for (int i = 0; i < OPERANDS; i++)
        mem_free(((struct tensor *)&x)[i].data);
}

int main(int argc, char **argv)
{
    int repetitions = argc > 1 ? atoi(argv[1]) : 10, threads = argc > 2 ? atoi(argv[2]) : omp_get_num_procs();
    printf("%d threads, best of %d\n%-25s %28s %28s %14s\n", threads, repetitions, "", "forward", "backward", "both");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        measure(&settings[i], repetitions, threads);
    return 0;
}
