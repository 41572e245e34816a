/* kernels.h: the kernels of one instruction set. The sources listed in src/cpu/meson.build are compiled once per set;
 * ISA() gives each external name its suffix, and table.c gathers them. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include "cpu/kernels_table.h"
#include "cpu/simd/simd.h"

/* A kernel for every row of ops.h. */
#define OP(name, slots, attrs, diff, text) void ISA(cpu_##name)(const struct args_##name *a, const struct call *c);
#include "graph/ops.h"
#undef OP

/* The ops whose kernels want a workspace: bytes of it at these shapes. Not less at larger T and B: a plan is made for
 * the largest. */
#define CPU_WORKSPACES(ROW)                                                                                            \
    ROW(act_bwd)                                                                                                       \
    ROW(adafactor)                                                                                                     \
    ROW(attention)                                                                                                     \
    ROW(attention_bwd)                                                                                                 \
    ROW(attention_cached)                                                                                              \
    ROW(cross_entropy)                                                                                                 \
    ROW(linear)                                                                                                        \
    ROW(linear_dx)                                                                                                     \
    ROW(linear_dx_act)                                                                                                 \
    ROW(linear_dw)                                                                                                     \
    ROW(norm)                                                                                                          \
    ROW(norm_bwd)                                                                                                      \
    ROW(rms_norm)                                                                                                      \
    ROW(rms_norm_bwd)                                                                                                  \
    ROW(rotary)                                                                                                        \
    ROW(rotary_bwd)

#define ROW(name) int64_t ISA(cpu_##name##_workspace)(const struct args_##name *a, int threads);
CPU_WORKSPACES(ROW)
#undef ROW

/* sums (O) F32 = sum of the rows of x (N,O), or added to them. */
void ISA(cpu_sum_columns)(const struct tensor *x, const struct tensor *sums, int threads);

/* Elements [i, i + left) of a gradient: v, added to what is there where the tensor is added into. */
SIMD void put_or_add(const struct tensor *to, int64_t i, vf v, int64_t left, bool bf16)
{
    vf_put_upto(to->data, i, to->add ? v + vf_get_upto(to->data, i, left, bf16) : v, left, bf16);
}

/* Fewer elements than this are not worth waking threads for. */
enum { PARALLEL_FROM = 16384 };

#endif
