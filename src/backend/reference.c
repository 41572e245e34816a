/* The reference backend: the kernels of op/, in double, one thread. Slow and exact; the others are tested against it.
 */
#include "backend/backend.h"
#include "base/mem.h"

#define OP(name, slots, attrs, diff, text)                                                                             \
    static void run_##name(const union args_any *a, const struct call *c)                                              \
    {                                                                                                                  \
        ref_##name(&a->name, c);                                                                                       \
    }
#include "graph/ops.h"
#undef OP

static void (*const kernels[OP_COUNT])(const union args_any *, const struct call *) = {
#define OP(name, slots, attrs, diff, text) [OP_##name] = run_##name,
#include "graph/ops.h"
#undef OP
};

static const char *kernels_name(const struct backend *b)
{
    (void)b;
    return "double";
}

static int64_t bucket(int64_t T)
{
    return T;
}

static int64_t workspace_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    (void)b, (void)op, (void)args, (void)threads;
    return 0;
}

static int run(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)b, (void)err;
    for (int i = 0; i < n; i++)
        kernels[work[i].op](&work[i].args, &work[i].call);
    return SNUG_OK;
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

static const struct backend reference = {.name = "reference",
                                         .float_type = DT_F64,
                                         .align = 64,
                                         .kernels = kernels_name,
                                         .bucket = bucket,
                                         .workspace_bytes = workspace_bytes,
                                         .run = run,
                                         .alloc = alloc,
                                         .free = release,
                                         BACKEND_IN_HOST_MEMORY};

const struct backend *backend_reference(void)
{
    return &reference;
}
