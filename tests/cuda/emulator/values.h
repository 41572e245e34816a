/* values.h: operands of an instruction as values of its type. A register holds a value in its low bits; results of fewer than 64
 * bits are extended with zeros. */
#ifndef EMULATOR_VALUES_H
#define EMULATOR_VALUES_H

#include "numbers.h"
#include "ptx.h"

#include <fenv.h>

static inline uint64_t in(const struct thread *t, const struct instruction *i, int k)
{
    return operand(t, &i->o[k]);
}

static inline void out(struct thread *t, const struct instruction *i, uint64_t v)
{
    set(t, &i->o[0], v);
}

static inline int bits_of(enum ptx_type t)
{
    return 8 * ptx_bytes(t);
}

static inline bool is_float(enum ptx_type t)
{
    return t == PTX_F16 || t == PTX_F32 || t == PTX_F64 || t == PTX_BF16;
}

static inline bool is_signed(enum ptx_type t)
{
    return t >= PTX_S8 && t <= PTX_S64;
}

static inline uint64_t low(uint64_t v, enum ptx_type t)
{
    int bits = bits_of(t);
    return t == PTX_PRED ? v & 1 : bits >= 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

static inline int64_t extended(uint64_t v, enum ptx_type t)
{
    int shift = 64 - bits_of(t);
    return (int64_t)(v << shift) >> shift;
}

static inline _Noreturn void unknown(const struct thread *t, const struct instruction *i)
{
    fault(t, i, "this form of the instruction is not known");
}

static inline double real(const struct thread *t, const struct instruction *i, uint64_t v, enum ptx_type type)
{
    switch (type) {
    case PTX_F64:
        return f64_of(v);
    case PTX_F32:
    case PTX_TF32:
        return (double)f32_of(v);
    case PTX_F16:
        return (double)fp16_to_float((uint16_t)v);
    case PTX_BF16:
        return (double)bf16_to_float((uint16_t)v);
    default:
        unknown(t, i);
    }
}

static inline int direction(const char *rounding)
{
    switch (rounding[1]) {
    case 'z':
        return FE_TOWARDZERO;
    case 'm':
        return FE_DOWNWARD;
    case 'p':
        return FE_UPWARD;
    default:
        return FE_TONEAREST;
    }
}

#endif
