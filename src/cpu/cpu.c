/* The cpu backend: kernels for the instruction set that isa.c chooses. */
#include "cpu/isa.h"

#include "backend/backend.h"

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

static const struct backend cpu = {.name = "cpu",
                                   .facts = {.float_type = DT_F32,
                                             .narrow_types = 1u << DT_BF16 | 1u << DT_F8_E4M3,
                                             .align = 64,
                                             .host_memory = true,
                                             .busy_tokens = 4096},
                                   .arena = &host_arena,
                                   .kernels = kernels,
                                   .run = run,
                                   .workspace_bytes = workspace_bytes,
                                   .note = note};

const struct backend *backend_cpu(void)
{
    return &cpu;
}
