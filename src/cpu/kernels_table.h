/* kernels_table.h: the kernels of an instruction set by op; table.c makes one for each. */
#ifndef CPU_KERNELS_TABLE_H
#define CPU_KERNELS_TABLE_H

#include "graph/op.h"

struct cpu_kernels {
    void (*run[OP_COUNT])(const union args_any *args, const struct call *c);
    int64_t (*workspace[OP_COUNT])(const union args_any *args, int threads); /* NULL: none */
};

/* ORDER isa */
extern const struct cpu_kernels cpu_kernels_generic, cpu_kernels_avx2, cpu_kernels_avx512, cpu_kernels_avx512bf16,
    cpu_kernels_amx, cpu_kernels_neon, cpu_kernels_neonbf16;

#endif
