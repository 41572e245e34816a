/* isa.h: the instruction sets that the kernels are compiled for, and which of them this process uses. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include "base/err.h"
#include "cpu/kernels_table.h"

struct cpu_isa {
    const char *name; /* in `snug info`, SNUG_CPU_ISA and checkpoints */
    const struct cpu_kernels *kernels;
};

/* The i-th that this processor and its operating system can run, slowest first; NULL behind the last. */
const struct cpu_isa *cpu_isa_usable(int i);

/* The one that SNUG_CPU_ISA names, else the fastest one. It is chosen once per process. */
const struct cpu_isa *cpu_isa_chosen(void);

/* Why a faster one that the processor has is not used though nobody asked for another, as a line for the user; else
 * NULL. */
const char *cpu_isa_note(void);

#endif
