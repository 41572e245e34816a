/* fp8.h: rows of 8-bit floats as numbers (cpu/codes/fp8.c). */
#ifndef CPU_FP8_H
#define CPU_FP8_H

#include "cpu/kernels.h"

/* to = codes times the scale of their row, in `type`: F32, or BF16, which has them exactly too. codes: as many rows as scale has elements. */
void ISA(fp8_widen)(const struct tensor *codes, const struct tensor *scale, void *to, enum dtype type, int threads);

#endif
