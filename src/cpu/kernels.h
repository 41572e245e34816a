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
    ROW(adafactor_squares)                                                                                             \
    ROW(adafactor_apply)                                                                                               \
    ROW(attention)                                                                                                     \
    ROW(attention_bwd)                                                                                                 \
    ROW(attention_general)                                                                                             \
    ROW(attention_general_bwd)                                                                                         \
    ROW(attention_disentangled)                                                                                        \
    ROW(attention_disentangled_bwd)                                                                                    \
    ROW(attention_cached)                                                                                              \
    ROW(cross_entropy)                                                                                                 \
    ROW(dora_bwd)                                                                                                      \
    ROW(dora_norm)                                                                                                     \
    ROW(linear)                                                                                                        \
    ROW(linear_cross_entropy)                                                                                          \
    ROW(linear_dx)                                                                                                     \
    ROW(linear_dx_act)                                                                                                 \
    ROW(linear_dw)                                                                                                     \
    ROW(linear_fp8)                                                                                                    \
    ROW(linear_experts)                                                                                                \
    ROW(linear_experts_dx)                                                                                             \
    ROW(linear_experts_dw)                                                                                             \
    ROW(norm)                                                                                                          \
    ROW(norm_bwd)                                                                                                      \
    ROW(rms_norm)                                                                                                      \
    ROW(rms_norm_bwd)                                                                                                  \
    ROW(rotary)                                                                                                        \
    ROW(rotary_bwd)                                                                                                    \
    ROW(short_conv)                                                                                                    \
    ROW(short_conv_bwd)                                                                                                \
    ROW(short_conv_cached)                                                                                             \
    ROW(stable_adamw)

#define ROW(name) int64_t ISA(cpu_##name##_workspace)(const struct args_##name *a, int threads);
CPU_WORKSPACES(ROW)
#undef ROW

/* sums (O) F32 = sum of the rows of x (N,O), or added to them. */
void ISA(cpu_sum_columns)(const struct tensor *x, const struct tensor *sums, int threads);

/* rows (N) = the losses of the rows of logits (N,V), times their number; a->loss is not looked at. */
void ISA(cpu_cross_entropy_rows)(const struct args_cross_entropy *a, double *rows, int threads);

/* loss = `more`, where there is one, + 1/N of the step times the sum of n such rows, in order. */
void ISA(cpu_mean_loss)(const double *rows, int64_t n, const struct tensor *step, const struct tensor *more,
                        const struct tensor *loss);

/* linear_dw whose sums begin with what is in dw, which is F32, if that is added to: chunks of rows one after the other, of
 * multiples of 64, give the bits of all at once. db is left alone. */
void ISA(cpu_linear_dw_goes_on)(const struct args_linear_dw *a, const struct call *c);

/* Elements [i, i + left) of a gradient: v, added to what is there where the tensor is added into. */
SIMD void put_or_add(const struct tensor *to, int64_t i, vf v, int64_t left, bool bf16)
{
    vf_put_upto(to->data, i, to->add ? v + vf_get_upto(to->data, i, left, bf16) : v, left, bf16);
}

/* Fewer elements than this are not worth waking threads for. */
enum { PARALLEL_FROM = 16384 };

#endif
