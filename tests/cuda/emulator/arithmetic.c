/* Instructions that compute: arithmetic, bits, comparisons. Approximate functions are computed exactly and rounded: within the ISA's
 * bounds, not the same bits as a GPU's. */
#include "opcodes.h"
#include "values.h"

#include <math.h>

/* ---- Arithmetic. */

#define ARITHMETIC(NAME, INTEGER, FLOAT)                                                                               \
    static void op_##NAME(struct thread *t, const struct instruction *i)                                               \
    {                                                                                                                  \
        uint64_t x = in(t, i, 1), y = in(t, i, 2);                                                                     \
        if (i->type == PTX_F32 || i->type == PTX_F64) {                                                                \
            bool other = i->rounding[0] && i->rounding[1] != 'n';                                                      \
            if (other)                                                                                                 \
                fesetround(direction(i->rounding));                                                                    \
            if (i->type == PTX_F32) {                                                                                  \
                volatile float a = f32_of(x), b = f32_of(y);                                                           \
                out(t, i, bits_f32(FLOAT));                                                                            \
            } else {                                                                                                   \
                volatile double a = f64_of(x), b = f64_of(y);                                                          \
                out(t, i, bits_f64(FLOAT));                                                                            \
            }                                                                                                          \
            if (other)                                                                                                 \
                fesetround(FE_TONEAREST);                                                                              \
        } else if (i->type >= PTX_F16)                                                                                 \
            unknown(t, i);                                                                                             \
        else                                                                                                           \
            INTEGER;                                                                                                   \
    }

static void add_integer(struct thread *t, const struct instruction *i, uint64_t x, uint64_t y, bool carry)
{
    if (i->carries) {
        if (bits_of(i->type) != 32)
            unknown(t, i);
        t->carry = ((uint64_t)(uint32_t)x + (uint32_t)y + carry) >> 32;
    }
    out(t, i, low(x + y + carry, i->type));
}

__extension__ typedef unsigned __int128 wide_product;
__extension__ typedef __int128 signed_product;

static void multiply(struct thread *t, const struct instruction *i, uint64_t x, uint64_t y, uint64_t plus, bool carry)
{
    bool has_sign = is_signed(i->type);
    wide_product product = has_sign ? (wide_product)((signed_product)extended(x, i->type) * extended(y, i->type))
                                    : (wide_product)low(x, i->type) * low(y, i->type);
    int bits = bits_of(i->type);
    if (i->mode[0] == 'w') {
        product += has_sign ? (wide_product)extended(plus, bits == 32 ? PTX_S64 : PTX_S32) : plus;
        set(t, &i->o[0], (uint64_t)product & (bits == 32 ? UINT64_MAX : UINT32_MAX));
        return;
    }
    uint64_t part = (uint64_t)(i->mode[0] == 'h' ? product >> bits : product);
    plus += carry;
    if (i->carries)
        t->carry = ((uint64_t)(uint32_t)part + plus) >> 32;
    out(t, i, low(part + plus, i->type));
}

ARITHMETIC(add, add_integer(t, i, x, y, false), a + b)
ARITHMETIC(mul, multiply(t, i, x, y, 0, false), a *b)

static void op_addc(struct thread *t, const struct instruction *i)
{
    add_integer(t, i, in(t, i, 1), in(t, i, 2), t->carry);
}

/* The flag is a borrow. */
static void subtract(struct thread *t, const struct instruction *i, uint64_t x, uint64_t y, bool borrow)
{
    if (i->carries) {
        if (bits_of(i->type) != 32)
            unknown(t, i);
        t->carry = (uint32_t)x < (uint64_t)(uint32_t)y + borrow;
    }
    out(t, i, low(x - y - borrow, i->type));
}

ARITHMETIC(sub, subtract(t, i, x, y, false), a - b)

static void op_subc(struct thread *t, const struct instruction *i)
{
    subtract(t, i, in(t, i, 1), in(t, i, 2), t->carry);
}

static void divide(struct thread *t, const struct instruction *i, uint64_t x, uint64_t y, bool rest)
{
    if (!low(y, i->type))
        fault(t, i, "division by zero");
    if (is_signed(i->type)) {
        int64_t a = extended(x, i->type), b = extended(y, i->type);
        int64_t q = b == -1 ? (int64_t) - (uint64_t)a : a / b;
        out(t, i, low((uint64_t)(rest ? (int64_t)((uint64_t)a - (uint64_t)q * (uint64_t)b) : q), i->type));
    } else
        out(t, i, rest ? low(x, i->type) % low(y, i->type) : low(x, i->type) / low(y, i->type));
}

ARITHMETIC(div, divide(t, i, x, y, false), a / b)

static void op_rem(struct thread *t, const struct instruction *i)
{
    divide(t, i, in(t, i, 1), in(t, i, 2), true);
}

static void op_mad(struct thread *t, const struct instruction *i)
{
    multiply(t, i, in(t, i, 1), in(t, i, 2), in(t, i, 3), false);
}

static void op_madc(struct thread *t, const struct instruction *i)
{
    multiply(t, i, in(t, i, 1), in(t, i, 2), in(t, i, 3), t->carry);
}

static void op_fma(struct thread *t, const struct instruction *i)
{
    uint64_t a = in(t, i, 1), b = in(t, i, 2), c = in(t, i, 3);
    bool other = i->rounding[1] != 'n';
    if (other)
        fesetround(direction(i->rounding));
    if (i->type == PTX_F32) { /* volatile: computed between the changes of the rounding */
        volatile float x = f32_of(a), y = fmaf(x, f32_of(b), f32_of(c));
        out(t, i, bits_f32(y));
    } else if (i->type == PTX_F64) {
        volatile double x = f64_of(a), y = fma(x, f64_of(b), f64_of(c));
        out(t, i, bits_f64(y));
    } else
        unknown(t, i);
    if (other)
        fesetround(FE_TONEAREST);
}

static void choose(struct thread *t, const struct instruction *i, bool larger)
{
    uint64_t x = in(t, i, 1), y = in(t, i, 2);
    if (i->type == PTX_F32)
        out(t, i, bits_f32(larger ? fmaxf(f32_of(x), f32_of(y)) : fminf(f32_of(x), f32_of(y))));
    else if (i->type == PTX_F64)
        out(t, i, bits_f64(larger ? fmax(f64_of(x), f64_of(y)) : fmin(f64_of(x), f64_of(y))));
    else if (is_signed(i->type))
        out(t, i, (extended(x, i->type) > extended(y, i->type)) == larger ? low(x, i->type) : low(y, i->type));
    else
        out(t, i, (low(x, i->type) > low(y, i->type)) == larger ? low(x, i->type) : low(y, i->type));
}

static void op_max(struct thread *t, const struct instruction *i)
{
    choose(t, i, true);
}

static void op_min(struct thread *t, const struct instruction *i)
{
    choose(t, i, false);
}

static uint64_t sign_bit(enum ptx_type t)
{
    return UINT64_C(1) << (bits_of(t) - 1);
}

static void op_neg(struct thread *t, const struct instruction *i)
{
    uint64_t x = in(t, i, 1);
    out(t, i, is_float(i->type) ? x ^ sign_bit(i->type) : low(-x, i->type));
}

static void op_abs(struct thread *t, const struct instruction *i)
{
    uint64_t x = in(t, i, 1);
    out(t, i, is_float(i->type) ? x & ~sign_bit(i->type) : low(extended(x, i->type) < 0 ? -x : x, i->type));
}

static void op_copysign(struct thread *t, const struct instruction *i)
{
    uint64_t s = sign_bit(i->type);
    out(t, i, (in(t, i, 1) & s) | (in(t, i, 2) & ~s));
}

#define FUNCTION(NAME, OF)                                                                                             \
    static void op_##NAME(struct thread *t, const struct instruction *i)                                               \
    {                                                                                                                  \
        double x = real(t, i, in(t, i, 1), i->type);                                                                   \
        out(t, i, i->type == PTX_F32 ? bits_f32((float)(OF)) : bits_f64(OF));                                          \
    }

FUNCTION(ex2, exp2(x))
FUNCTION(lg2, log2(x))
FUNCTION(rcp, 1 / x)
FUNCTION(sqrt, sqrt(x))
FUNCTION(rsqrt, 1 / sqrt(x))
FUNCTION(sin, sin(x))
FUNCTION(cos, cos(x))
FUNCTION(tanh, tanh(x))

/* ---- Bits. */

#define LOGIC(NAME, OF)                                                                                                \
    static void op_##NAME(struct thread *t, const struct instruction *i)                                               \
    {                                                                                                                  \
        uint64_t x = in(t, i, 1), y = i->n > 2 ? in(t, i, 2) : 0;                                                      \
        (void)y;                                                                                                       \
        out(t, i, low(OF, i->type));                                                                                   \
    }

static uint64_t shifted_right(const struct instruction *i, uint64_t x, uint64_t by)
{
    uint64_t bits = (uint64_t)bits_of(i->type);
    if (is_signed(i->type))
        return (uint64_t)(extended(x, i->type) >> (by >= bits ? bits - 1 : by));
    return by >= bits ? 0 : low(x, i->type) >> by;
}

LOGIC(and, x &y)
LOGIC(or, x | y)
LOGIC(xor, x ^ y)
LOGIC(not, ~x)
LOGIC(shl, (uint32_t)y >= (uint32_t)bits_of(i->type) ? 0 : x << (uint32_t)y)
LOGIC(shr, shifted_right(i, x, (uint32_t)y))

static void op_clz(struct thread *t, const struct instruction *i)
{
    uint64_t x = low(in(t, i, 1), i->type);
    out(t, i, x ? (uint64_t)(__builtin_clzll(x) - (64 - bits_of(i->type))) : (uint64_t)bits_of(i->type));
}

static void op_popc(struct thread *t, const struct instruction *i)
{
    out(t, i, (uint64_t)__builtin_popcountll(low(in(t, i, 1), i->type)));
}

static void op_bfi(struct thread *t, const struct instruction *i)
{
    uint64_t a = in(t, i, 1), b = in(t, i, 2), at = in(t, i, 3) & 255, n = in(t, i, 4) & 255;
    uint64_t bits = (uint64_t)bits_of(i->type);
    uint64_t field = at >= bits || !n ? 0 : (n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << at;
    out(t, i, low((b & ~field) | (at >= bits ? 0 : a << at & field), i->type));
}

static void op_bfe(struct thread *t, const struct instruction *i)
{
    uint64_t a = low(in(t, i, 1), i->type), at = in(t, i, 2) & 255, n = in(t, i, 3) & 255;
    if (is_signed(i->type))
        unknown(t, i);
    out(t, i, at >= 64 ? 0 : a >> at & (n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1));
}

/* The default mode: each nibble of c names a byte of b:a, and its top bit asks for copies of that byte's sign. */
static void op_prmt(struct thread *t, const struct instruction *i)
{
    uint64_t bytes = low(in(t, i, 1), PTX_B32) | in(t, i, 2) << 32, c = in(t, i, 3), v = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t byte = bytes >> (c >> 4 * k & 7) * 8 & 255;
        if (c >> 4 * k & 8)
            byte = byte & 128 ? 255 : 0;
        v |= byte << 8 * k;
    }
    out(t, i, v);
}

static void op_shf(struct thread *t, const struct instruction *i)
{
    uint64_t both = low(in(t, i, 1), PTX_B32) | in(t, i, 2) << 32, by = in(t, i, 3) & 31;
    if (!ptx_has(i, "wrap"))
        unknown(t, i);
    out(t, i, low(ptx_has(i, "l") ? both << by >> 32 : both >> by, PTX_B32));
}

static void op_lop3(struct thread *t, const struct instruction *i)
{
    uint64_t a = in(t, i, 1), b = in(t, i, 2), c = in(t, i, 3), table = in(t, i, 4), v = 0;
    for (int k = 0; k < 32; k++)
        v |= (table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k;
    out(t, i, v);
}

/* ---- Comparing and choosing. */

static bool compared(const struct thread *t, const struct instruction *i, uint64_t x, uint64_t y)
{
    const char *c = i->compare;
    int order; /* -1, 0, 1; 2 where one is no number */
    if (is_float(i->type)) {
        double a = real(t, i, x, i->type), b = real(t, i, y, i->type);
        order = a < b ? -1 : a == b ? 0 : a > b ? 1 : 2;
    } else if (is_signed(i->type)) {
        int64_t a = extended(x, i->type), b = extended(y, i->type);
        order = a < b ? -1 : a > b;
    } else {
        uint64_t a = low(x, i->type), b = low(y, i->type);
        order = a < b ? -1 : a > b;
    }
    if (!strcmp(c, "nan") || !strcmp(c, "num"))
        return (order == 2) == (c[1] == 'a');
    if (order == 2)
        return c[2] == 'u';
    if (c[0] == 'e')
        return order == 0;
    if (c[0] == 'n')
        return order != 0;
    return (c[1] == 'e' && order == 0) || order == (c[0] == 'l' ? -1 : 1);
}

static void op_setp(struct thread *t, const struct instruction *i)
{
    if (i->n != 3)
        unknown(t, i);
    out(t, i, compared(t, i, in(t, i, 1), in(t, i, 2)));
}

static void op_selp(struct thread *t, const struct instruction *i)
{
    out(t, i, in(t, i, 3) & 1 ? in(t, i, 1) : in(t, i, 2));
}

static const struct opcode table[] = {
    {"abs", op_abs},   {"add", op_add},   {"addc", op_addc},   {"and", op_and},
    {"bfe", op_bfe},   {"bfi", op_bfi},   {"clz", op_clz},     {"copysign", op_copysign},
    {"cos", op_cos},   {"div", op_div},   {"ex2", op_ex2},     {"fma", op_fma},
    {"lg2", op_lg2},   {"lop3", op_lop3}, {"mad", op_mad},     {"madc", op_madc},
    {"max", op_max},   {"min", op_min},   {"mul", op_mul},     {"neg", op_neg},
    {"not", op_not},   {"or", op_or},     {"popc", op_popc},   {"prmt", op_prmt},
    {"rcp", op_rcp},   {"rem", op_rem},   {"rsqrt", op_rsqrt}, {"selp", op_selp},
    {"setp", op_setp}, {"shf", op_shf},   {"shl", op_shl},     {"shr", op_shr},
    {"sin", op_sin},   {"sqrt", op_sqrt}, {"sub", op_sub},     {"subc", op_subc},
    {"tanh", op_tanh}, {"xor", op_xor}};

instruction_fn *arithmetic_instruction(const char *opcode)
{
    return opcode_named(table, sizeof table / sizeof *table, opcode);
}
