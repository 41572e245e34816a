/* The kernels of this instruction set, by op. */
#include "cpu/kernels_table.h"

#include "cpu/kernels.h"

#define OP(name, slots, attrs, diff, text)                                                                             \
    static void run_##name(const union args_any *a, const struct call *c)                                              \
    {                                                                                                                  \
        ISA(cpu_##name)(&a->name, c);                                                                                  \
    }
#include "graph/ops.h"
#undef OP

#define ROW(name)                                                                                                      \
    static int64_t workspace_##name(const union args_any *a, int threads)                                              \
    {                                                                                                                  \
        return ISA(cpu_##name##_workspace)(&a->name, threads);                                                         \
    }
CPU_WORKSPACES(ROW)
#undef ROW

const struct cpu_kernels ISA(cpu_kernels) = {
    .run =
        {
#define OP(name, slots, attrs, diff, text) [OP_##name] = run_##name,
#include "graph/ops.h"
#undef OP
        },
    .workspace =
        {
#define ROW(name) [OP_##name] = workspace_##name,
            CPU_WORKSPACES(ROW)
#undef ROW
        },
};
