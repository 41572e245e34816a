/* The cpu backend: kernels for the best instruction set that the processor has. */
#include "cpu/cpu.h"

#include "backend/backend.h"
#include "base/mem.h"
#include "cpu/kernels_table.h"

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

/* The one that SNUG_CPU_ISA names; without it, the best that the processor has. NULL: a name that is not there. */
static const struct isa *choose(void)
{
    const char *name = getenv("SNUG_CPU_ISA");
    const struct isa *best = NULL;
    for (int i = 0; i < ISA_COUNT; i++)
        if (supported(i) && (!name || !*name || !strcmp(isas[i].name, name)))
            best = &isas[i];
    return best;
}

/* A wrong name would be reported long before a kernel is asked for; whoever skips this gets portable kernels. */
int backend_cpu_check(struct snug_err *err)
{
    char names[64] = "";
    if (choose())
        return SNUG_OK;
    for (int i = 0; i < ISA_COUNT; i++)
        if (supported(i))
            strcat(strcat(names, i ? ", " : ""), isas[i].name);
    return err_set(err, SNUG_ERR_USAGE, "SNUG_CPU_ISA: '%s' is not there; this processor has kernels for %s",
                   getenv("SNUG_CPU_ISA"), names);
}

/* Chosen once per process; every thread that gets here first chooses the same. */
static const struct isa *isa(void)
{
    static _Atomic(const struct isa *) chosen;
    const struct isa *i = atomic_load(&chosen);
    if (!i) {
        i = choose();
        i = i ? i : &isas[0];
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

static int64_t workspace_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    (void)b;
    int64_t (*bytes)(const union args_any *, int) = isa()->kernels->workspace[op];
    return bytes ? bytes(args, threads) : 0;
}

static int run(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)b, (void)err;
    for (int i = 0; i < n; i++)
        isa()->kernels->run[work[i].op](&work[i].args, &work[i].call);
    return SNUG_OK;
}

static const char *kernels(const struct backend *b)
{
    (void)b;
    return cpu_isa();
}

static int alloc(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void **p, struct snug_err *err)
{
    (void)b, (void)inputs_bytes;
    *p = mem_map((size_t)bytes);
    return *p ? SNUG_OK : err_no_memory(err, (unsigned long long)bytes);
}

static void release(const struct backend *b, void *p, int64_t bytes)
{
    (void)b, (void)bytes;
    mem_unmap(p);
}

static const struct backend cpu = {.name = "cpu",
                                   .float_type = DT_F32,
                                   .narrow_types = 1u << DT_BF16,
                                   .align = 64,
                                   .kernels = kernels,
                                   .bucket = bucket,
                                   .workspace_bytes = workspace_bytes,
                                   .run = run,
                                   .alloc = alloc,
                                   .free = release,
                                   BACKEND_IN_HOST_MEMORY};

const struct backend *backend_cpu(void)
{
    return &cpu;
}
