/* bench-attention: times attention and its gradient on the cpu backend.
 * usage: bench-attention [REPETITIONS [THREADS]]     the best of so many runs; all processors
 * Floating-point operations are counted as 4 s^2 D a head and sequence going forward, 10 s^2 D going back (half when
 * causal): the products alone, with the scores that the backward pass makes again. */
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
    enum dtype dtype;
    int64_t B, s, heads, D, causal;
    double p;
};

static const struct setting settings[] = {
    {"BERT-large", DT_BF16, 4, 512, 16, 64, 0, 0.1},        {"BERT-large", DT_F32, 4, 512, 16, 64, 0, 0.1},
    {"BERT-large, p 0", DT_BF16, 4, 512, 16, 64, 0, 0},     {"BERT-large, p 0", DT_F32, 4, 512, 16, 64, 0, 0},
    {"short texts", DT_BF16, 32, 16, 12, 32, 0, 0.1},       {"short texts", DT_F32, 32, 16, 12, 32, 0, 0.1},
    {"128 tokens", DT_BF16, 16, 128, 12, 64, 0, 0.1},       {"GPT-2, 1024 tokens", DT_BF16, 2, 1024, 12, 64, 1, 0.1},
    {"8192 tokens, D 128", DT_BF16, 1, 8192, 2, 128, 1, 0},
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
    if (cpu->arena->alloc(cpu, bytes + 64, 0, &workspace, NULL))
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

static void measure(const struct setting *s, int repetitions, int threads)
{
    int64_t T = s->B * s->s, width = 3 * s->heads * s->D;
    int32_t *cu = mem_alloc(4 * (size_t)(s->B + 1)), *coords = mem_alloc(8 * (size_t)T), rng[4] = {1, 2, 3, 0};
    void *qkv = filled(s->dtype, T * width), *o = filled(s->dtype, T * width / 3),
         *dout = filled(s->dtype, T * width / 3);
    void *dqkv = filled(s->dtype, T * width), *lse = filled(DT_F32, s->heads * T);
    if (cu && coords && qkv && o && dout && dqkv && lse) {
        for (int64_t b = 0; b <= s->B; b++)
            cu[b] = (int32_t)(b * s->s);
        for (int64_t t = 0; t < T; t++) {
            coords[2 * t] = (int32_t)(t / s->s);
            coords[2 * t + 1] = (int32_t)(t % s->s);
        }
        union args_any f = {.attention = {.qkv = tensor(qkv, s->dtype, 2, (const int64_t[]){T, width}),
                                          .cu = tensor(cu, DT_I32, 1, (const int64_t[]){s->B + 1}),
                                          .coords = tensor(coords, DT_I32, 2, (const int64_t[]){T, 2}),
                                          .rng = tensor(rng, DT_I32, 1, (const int64_t[]){4}),
                                          .o = tensor(o, s->dtype, 2, (const int64_t[]){T, width / 3}),
                                          .lse = tensor(lse, DT_F32, 2, (const int64_t[]){s->heads, T}),
                                          .heads = s->heads,
                                          .kv_heads = s->heads,
                                          .causal = s->causal,
                                          .scale = 1 / sqrt((double)s->D),
                                          .p = s->p}};
        union args_any b = {.attention_bwd = {.qkv = f.attention.qkv,
                                              .o = f.attention.o,
                                              .lse = f.attention.lse,
                                              .dout = tensor(dout, s->dtype, 2, (const int64_t[]){T, width / 3}),
                                              .cu = f.attention.cu,
                                              .coords = f.attention.coords,
                                              .rng = f.attention.rng,
                                              .dqkv = tensor(dqkv, s->dtype, 2, (const int64_t[]){T, width}),
                                              .heads = s->heads,
                                              .kv_heads = s->heads,
                                              .causal = s->causal,
                                              .scale = f.attention.scale,
                                              .p = s->p}};
        double forward = best_time(OP_attention, &f, repetitions, threads);
        double backward = best_time(OP_attention_bwd, &b, repetitions, threads);
        double gflop = 1e-9 * (double)(s->B * s->heads * s->s * s->s * s->D) / (s->causal ? 2 : 1);
        printf("%-20s %-4s %8.3f ms %5.0f GFLOP/s %8.3f ms %5.0f GFLOP/s %5.0f GFLOP/s\n", s->what,
               dtype_name(s->dtype), 1e3 * forward, 4 * gflop / forward, 1e3 * backward, 10 * gflop / backward,
               14 * gflop / (forward + backward));
    }
    void *all[] = {cu, coords, qkv, o, dout, dqkv, lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mem_free(all[i]);
}

int main(int argc, char **argv)
{
    int repetitions = argc > 1 ? atoi(argv[1]) : 10, threads = argc > 2 ? atoi(argv[2]) : omp_get_num_procs();
    printf("%d threads, best of %d\n%-25s %28s %28s %14s\n", threads, repetitions, "", "forward", "backward", "both");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        measure(&settings[i], repetitions, threads);
    return 0;
}
