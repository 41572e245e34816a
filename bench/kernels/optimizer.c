/* bench-optimizer: times the updates on the cpu backend, over one matrix of 4096 x 4096 weights with fp32 and bf16
 * gradients. usage: bench-optimizer [REPETITIONS [THREADS]]     the best of so many runs; all processors
 * Bytes are those that an update must move at least: p twice, g once, its states twice (adafactor: g three times). */
#include "backend/backend.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/seconds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 4096, N = SIDE * SIDE };

/* Numbers of both signs, about `size` large. */
static struct tensor filled(enum dtype type, int64_t rows, int64_t columns, double size)
{
    struct tensor t = {.dtype = type, .ndim = 2, .shape = {rows, columns}};
    char *p = t.data = mem_alloc((size_t)dtype_bytes(type, rows * columns) + 64);
    uint64_t x = 1;
    for (int64_t i = 0; p && i < rows * columns; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        double v = size * ((double)(x >> 40) / (1 << 23) - 1);
        if (type == DT_U8)
            p[i] = (char)(x >> 56);
        else
            dtype_convert(p + dtype_bytes(type, i), type, &v, DT_F64, 1);
    }
    if (!p) {
        fprintf(stderr, "no memory for %lld elements\n", (long long)(rows * columns));
        exit(1);
    }
    return t;
}

static struct tensor flat(struct tensor t, int64_t n)
{
    t.ndim = 1;
    t.shape[0] = n;
    return t;
}

static void time_op(const char *what, enum op op, const union args_any *args, double moved, int repetitions,
                    int threads)
{
    const struct backend *cpu = backend_cpu();
    struct work work = {.op = op, .args = *args, .call = {.threads = threads}};
    int64_t bytes = backend_workspace_bytes(cpu, op, args, threads) + 64;
    double best = 1e30;
    if (cpu->arena->alloc(cpu, bytes, 0, NULL, &work.call.workspace, NULL))
        exit(1);
    for (int i = 0; i < repetitions; i++) {
        double start = seconds_now();
        cpu->run(cpu, &work, 1, NULL);
        double taken = seconds_now() - start;
        best = taken < best ? taken : best;
    }
    printf("%-24s %7.2f ms  %6.2f Gparam/s  %6.1f GB/s\n", what, 1e3 * best, 1e-9 * N / best, 1e-9 * moved * N / best);
    cpu->arena->free(cpu, work.call.workspace, bytes);
}

int main(int argc, char **argv)
{
    int repetitions = argc > 1 ? atoi(argv[1]) : 5, threads = argc > 2 ? atoi(argv[2]) : machine_cpus();
    double step[STEP_SCALARS] = {[STEP_LR] = 1e-6, [STEP_UPDATE] = 10};
    float coef = 0.5f;
    struct tensor p = filled(DT_F32, SIDE, SIDE, 0.02), m = filled(DT_F32, SIDE, SIDE, 1e-3), v = m;
    struct tensor codes_m = filled(DT_U8, SIDE, SIDE, 0), codes_v = filled(DT_U8, SIDE, SIDE, 0);
    struct tensor absmax_m = filled(DT_F32, 1, N / 256, 1e-3), absmax_v = filled(DT_F32, 1, N / 256, 1e-6);
    struct tensor row = filled(DT_F32, 1, SIDE, 1e-6), col = filled(DT_F32, 1, SIDE, 1e-6);
    struct tensor steps = {.data = step, .dtype = DT_F64, .ndim = 1, .shape = {STEP_SCALARS}};
    struct tensor coefs = {.data = &coef, .dtype = DT_F32, .ndim = 1, .shape = {1}};
    v = filled(DT_F32, SIDE, SIDE, 1e-6);
    struct tensor *positive[] = {&v, &absmax_m, &absmax_v, &row, &col};
    for (size_t k = 0; k < sizeof positive / sizeof *positive; k++)
        for (int64_t i = 0; i < positive[k]->shape[0] * positive[k]->shape[1]; i++)
            ((uint32_t *)positive[k]->data)[i] &= 0x7FFFFFFF; /* no sign */
    for (int narrow = 0; narrow < 2; narrow++) {
        struct tensor g = filled(narrow ? DT_BF16 : DT_F32, SIDE, SIDE, 1e-3);
        double size = narrow ? 2 : 4;
        union args_any adamw = {.adamw = {.p = p, .g = g, .m = m, .v = v, .step = steps, .coef = coefs, .beta1 = 0.9}};
        adamw.adamw.beta2 = 0.999, adamw.adamw.eps = 1e-8;
        union args_any sgd = {.sgd = {.p = p, .g = g, .buf = m, .step = steps, .coef = coefs, .momentum = 0.9}};
        union args_any factored = {.adafactor = {.p = p, .g = g, .step = steps, .coef = coefs, .eps1 = 1e-30}};
        factored.adafactor.row = flat(row, SIDE), factored.adafactor.col = flat(col, SIDE);
        factored.adafactor.clip_threshold = 1, factored.adafactor.decay_rate = -0.8, factored.adafactor.beta1 = -1;
        union args_any eight = {
            .adamw8bit = {.p = p, .g = g, .m = codes_m, .v = codes_v, .step = steps, .coef = coefs}};
        eight.adamw8bit.absmax_m = flat(absmax_m, N / 256), eight.adamw8bit.absmax_v = flat(absmax_v, N / 256);
        eight.adamw8bit.beta1 = 0.9, eight.adamw8bit.beta2 = 0.999, eight.adamw8bit.eps = 1e-8;
        printf("gradients in %s, %d threads\n", narrow ? "bf16" : "fp32", threads);
        time_op("adamw", OP_adamw, &adamw, 24 + size, repetitions, threads);
        time_op("sgd, momentum", OP_sgd, &sgd, 16 + size, repetitions, threads);
        time_op("adafactor", OP_adafactor, &factored, 8 + 3 * size, repetitions, threads);
        time_op("adamw8bit", OP_adamw8bit, &eight, 12 + size, repetitions, threads);
        mem_free(g.data);
    }
    struct tensor *all[] = {&p, &m, &v, &codes_m, &codes_v, &absmax_m, &absmax_v, &row, &col};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mem_free(all[i]->data);
    return 0;
}
