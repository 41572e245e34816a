/* The cpu backend: kernels for the best instruction set that the processor has. */
#include "cpu/cpu.h"

#include "base/mem.h"
#include "cpu/kernels_table.h"
#include "run/backend.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ORDER isa: best last */
static const struct isa {
    const char *name;
    const struct cpu_kernels *kernels;
} isas[] = {
    {"generic", &cpu_kernels_generic},
#if defined __x86_64__
    {"avx2", &cpu_kernels_avx2},
    {"avx512", &cpu_kernels_avx512},
#endif
};

enum { ISA_COUNT = sizeof isas / sizeof *isas };

/* What src/cpu/meson.build compiles the kernels of an instruction set for. */
static bool supported(int i)
{
#if defined __x86_64__
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (i == 1)
        return avx2;
    if (i == 2)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
#endif
    return i == 0;
}

/* The best that the processor has, up to the one that SNUG_CPU_ISA names. */
static const struct isa *choose(void)
{
    const char *last = getenv("SNUG_CPU_ISA");
    const struct isa *best = NULL;
    for (int i = 0; i < ISA_COUNT && (!best || !last || strcmp(best->name, last)); i++)
        if (supported(i))
            best = &isas[i];
    return best;
}

/* Chosen once per process; every thread that gets here first chooses the same. */
static const struct isa *isa(void)
{
    static _Atomic(const struct isa *) chosen;
    const struct isa *i = atomic_load(&chosen);
    if (!i) {
        i = choose();
        atomic_store(&chosen, i);
    }
    return i;
}

const char *cpu_isa(void)
{
    return isa()->name;
}

/* No sizes are cheaper than others. */
static int64_t bucket(int64_t T)
{
    return T;
}

static int64_t workspace_bytes(enum op op, const union args_any *args, int threads)
{
    int64_t (*bytes)(const union args_any *, int) = isa()->kernels->workspace[op];
    return bytes ? bytes(args, threads) : 0;
}

static int run(const struct backend *b, enum op op, const union args_any *args, const struct call *c,
               struct snug_err *err)
{
    (void)b, (void)err;
    isa()->kernels->run[op](args, c);
    return SNUG_OK;
}

/* Aligned within a larger piece, whose address stands right before. */
enum { ALIGN = 64 };

static int alloc(const struct backend *b, int64_t bytes, void **p, struct snug_err *err)
{
    (void)b;
    char *piece = mem_alloc((size_t)bytes + ALIGN + sizeof piece);
    if (!piece)
        return err_no_memory(err, (unsigned long long)bytes);
    char *start = piece + sizeof piece;
    start += -(uintptr_t)start % ALIGN;
    memcpy(start - sizeof piece, &piece, sizeof piece);
    *p = start;
    return SNUG_OK;
}

static void release(const struct backend *b, void *p, int64_t bytes)
{
    (void)b, (void)bytes;
    char *piece;
    if (!p)
        return;
    memcpy(&piece, (char *)p - sizeof piece, sizeof piece);
    mem_free(piece);
}

static int copy(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    (void)b, (void)err;
    memcpy(to, from, (size_t)bytes);
    return SNUG_OK;
}

static const struct backend cpu = {.name = "cpu",
                                   .float_type = DT_F32,
                                   .kernels = cpu_isa,
                                   .bucket = bucket,
                                   .workspace_bytes = workspace_bytes,
                                   .run = run,
                                   .alloc = alloc,
                                   .free = release,
                                   .upload = copy,
                                   .download = copy};

const struct backend *backend_cpu(void)
{
    return &cpu;
}
