/* The cpu backend: kernels for the instruction set that isa.c chooses. */
#include "cpu/isa.h"

#include "backend/backend.h"
#include "base/mem.h"

/* No sizes are cheaper than others. */
static int64_t bucket(int64_t T)
{
    return T;
}

static int64_t workspace_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    (void)b;
    int64_t (*bytes)(const union args_any *, int) = cpu_isa_chosen()->kernels->workspace[op];
    return bytes ? bytes(args, threads) : 0;
}

static int run(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)b, (void)err;
    for (int i = 0; i < n; i++)
        cpu_isa_chosen()->kernels->run[work[i].op](&work[i].args, &work[i].call);
    return SNUG_OK;
}

static const char *kernels(const struct backend *b)
{
    (void)b;
    return cpu_isa_chosen()->name;
}

static const char *note(const struct backend *b)
{
    (void)b;
    return cpu_isa_note();
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
                                   .note = note,
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
