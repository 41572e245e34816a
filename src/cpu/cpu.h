/* cpu.h: what the rest may know of the cpu backend (backend/backend.h) besides the backend itself. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

/* The instruction set whose kernels run: "generic", "avx2" or "avx512" (with its bf16 instructions). The best that the
 * processor has, unless the environment variable SNUG_CPU_ISA names another one (backend_cpu_check tells of a name that
 * is not there). Results are bit for bit the same only within one. */
const char *cpu_isa(void);

#endif
