/* The reference backend: the kernels of op/, in double, one thread. Slow and exact; the others are tested against it.
 */
#include "backend/backend.h"

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

static int run(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)b, (void)err;
    for (int i = 0; i < n; i++)
        kernels[work[i].op](&work[i].args, &work[i].call);
    return SNUG_OK;
}

static const struct backend reference = {
    .name = "reference",
    .facts = {.float_type = DT_F64, .align = 64, .host_memory = true, .busy_tokens = 4096},
    .arena = &host_arena,
    .kernels = kernels_name,
    .run = run};

const struct backend *backend_reference(void)
{
    return &reference;
}
