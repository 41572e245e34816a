/* Instructions that move values, reach memory, and say where a thread goes on. */
#include "opcodes.h"
#include "runtime.h"
#include "values.h"

#include <math.h>
#include <stdlib.h>

/* ---- Moves and conversions. */

static void op_mov(struct thread *t, const struct instruction *i)
{
    int bits = bits_of(i->type), n = i->n - 1;
    if (n == 1) {
        out(t, i, low(in(t, i, 1), i->type));
        return;
    }
    bool packs = !i->width; /* several registers to one, or one to several */
    int part = bits / n;
    uint64_t mask = (UINT64_C(1) << part) - 1, v = 0;
    if (packs) {
        for (int k = 0; k < n; k++)
            v |= (in(t, i, k + 1) & mask) << part * k;
        out(t, i, v);
    } else {
        v = in(t, i, n);
        for (int k = 0; k < n; k++)
            set(t, &i->o[k], v >> part * k & mask);
    }
}

static void op_cvta(struct thread *t, const struct instruction *i)
{
    out(t, i, in(t, i, 1));
}

/* rni, rzi, rmi, rpi */
static double whole_number(double x, const char *rounding)
{
    return rounding[1] == 'n' ? rint(x) : rounding[1] == 'z' ? trunc(x) : rounding[1] == 'm' ? floor(x) : ceil(x);
}

static uint64_t to_integer(double x, const struct instruction *i)
{
    double limit = ldexp(1, bits_of(i->type) - is_signed(i->type));
    x = whole_number(x, i->rounding);
    if (x != x)
        return 0;
    if (is_signed(i->type))
        return low(x >= limit   ? (uint64_t)(limit - 1)
                   : x < -limit ? (uint64_t)1 << (bits_of(i->type) - 1)
                                : (uint64_t)(int64_t)x,
                   i->type);
    return x >= limit ? low(UINT64_MAX, i->type) : x < 0 ? 0 : (uint64_t)x;
}

static void op_cvt(struct thread *t, const struct instruction *i)
{
    enum ptx_type to = i->type, from = i->from;
    uint64_t v = in(t, i, 1);
    if (from == PTX_E4M3X2) { /* the first of two is in the lower half of either */
        out(t, i, (uint32_t)bits_f16(e4m3_to_float((uint8_t)(v >> 8))) << 16 | bits_f16(e4m3_to_float((uint8_t)v)));
        return;
    }
    if (to == PTX_BF16X2 || to == PTX_F16X2) {
        float a = f32_of(v), b = f32_of(in(t, i, 2));
        if (ptx_has(i, "relu")) {
            a = a > 0 ? a : a != a ? a : 0;
            b = b > 0 ? b : b != b ? b : 0;
        }
        out(t, i,
            to == PTX_BF16X2 ? (uint32_t)bits_bf16(a) << 16 | bits_bf16(b) : (uint32_t)bits_f16(a) << 16 | bits_f16(b));
        return;
    }
    if (to == PTX_E4M3X2) {
        out(t, i, (uint32_t)bits_e4m3(f32_of(v)) << 8 | bits_e4m3(f32_of(in(t, i, 2))));
        return;
    }
    if (to == PTX_TF32) {
        out(t, i, bits_tf32((uint32_t)v));
        return;
    }
    if (is_float(from)) {
        double x = real(t, i, v, from);
        if (!is_float(to)) {
            out(t, i, to_integer(x, i));
            return;
        }
        if (strlen(i->rounding) == 3) /* to an integer that stays a float */
            x = whole_number(x, i->rounding);
        if (ptx_has(i, "sat"))
            x = x >= 1 ? 1 : x > 0 ? x : 0;
        if (from == PTX_F64 && (to == PTX_F16 || to == PTX_BF16))
            unknown(t, i); /* by way of a float it would be rounded twice */
        out(t, i,
            to == PTX_F64   ? bits_f64(x)
            : to == PTX_F32 ? bits_f32((float)x)
            : to == PTX_F16 ? bits_f16((float)x)
                            : bits_bf16((float)x));
        return;
    }
    int64_t whole = is_signed(from) ? extended(v, from) : (int64_t)low(v, from);
    if (!is_float(to))
        out(t, i, low((uint64_t)whole, to));
    else if (i->rounding[1] != 'n' || (to != PTX_F32 && to != PTX_F64))
        unknown(t, i);
    else if (to == PTX_F32)
        out(t, i, bits_f32(is_signed(from) ? (float)whole : (float)(uint64_t)whole));
    else
        out(t, i, bits_f64(is_signed(from) ? (double)whole : (double)(uint64_t)whole));
}

/* ---- Memory. */

static void op_ld(struct thread *t, const struct instruction *i)
{
    int bytes = ptx_bytes(i->type);
    uint64_t address = in(t, i, i->n - 1);
    check_access(t, i, address, (size_t)(bytes * i->width));
    for (int k = 0; k < i->width; k++) {
        uint64_t v = 0;
        memcpy(&v, (const uint8_t *)(uintptr_t)address + k * bytes, (size_t)bytes);
        set(t, &i->o[k], is_signed(i->type) ? (uint64_t)extended(v, i->type) : v);
    }
}

static void op_st(struct thread *t, const struct instruction *i)
{
    int bytes = ptx_bytes(i->type);
    uint64_t address = in(t, i, 0);
    check_access(t, i, address, (size_t)(bytes * i->width));
    for (int k = 0; k < i->width; k++) {
        uint64_t v = in(t, i, k + 1);
        memcpy((uint8_t *)(uintptr_t)address + k * bytes, &v, (size_t)bytes);
    }
}

/* atom.max.u32 alone: blocks may run side by side. */
static void op_atom(struct thread *t, const struct instruction *i)
{
    uint64_t address = in(t, i, 1);
    uint32_t v = (uint32_t)in(t, i, 2), *at = (uint32_t *)(uintptr_t)address;
    if (!ptx_has(i, "max") || i->type != PTX_U32)
        unknown(t, i);
    check_access(t, i, address, sizeof *at);
    uint32_t old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < v && !__atomic_compare_exchange_n(at, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    out(t, i, old);
}

static void arrive(struct thread *t, uint32_t last_groups)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < t->n_copies; k++) {
        struct copy *c = &t->copies[k];
        if (c->group + last_groups >= t->groups) {
            t->copies[kept++] = *c;
            continue;
        }
        memcpy(c->to, c->from, c->bytes);
        memset((uint8_t *)c->to + c->bytes, 0, c->filled - c->bytes);
    }
    t->n_copies = kept;
}

/* cp.async.cg.shared.global [to], [from], bytes, read; commit_group; wait_group n; wait_all */
static void op_cp(struct thread *t, const struct instruction *i)
{
    if (!ptx_has(i, "async") || ptx_has(i, "bulk"))
        unknown(t, i);
    if (ptx_has(i, "commit_group"))
        t->groups++;
    else if (ptx_has(i, "wait_all")) {
        t->groups++;
        arrive(t, 0);
    } else if (ptx_has(i, "wait_group"))
        arrive(t, (uint32_t)in(t, i, 0));
    else {
        struct copy c = {
            .to = (void *)(uintptr_t)in(t, i, 0), .from = (const void *)(uintptr_t)in(t, i, 1), .group = t->groups};
        c.filled = (uint32_t)in(t, i, 2);
        c.bytes = i->n > 3 ? (uint32_t)in(t, i, 3) : c.filled;
        check_access(t, i, in(t, i, 0), c.filled);
        if (c.bytes)
            check_access(t, i, in(t, i, 1), c.bytes);
        if (t->n_copies == t->room_copies) {
            t->room_copies = t->room_copies ? 2 * t->room_copies : 16;
            t->copies = emulator_resize(t->copies, t->room_copies, sizeof *t->copies);
        }
        t->copies[t->n_copies++] = c;
    }
}

/* ---- Where a thread goes on. */

static void op_bra(struct thread *t, const struct instruction *i)
{
    t->frame[t->depth].pc = i->target;
}

static void op_call(struct thread *t, const struct instruction *i)
{
    if (t->depth + 1 == (int)(sizeof t->frame / sizeof *t->frame))
        fault(t, i, "calls that are nested too deep");
    struct frame *f = &t->frame[t->depth + 1];
    *f = (struct frame){.f = i->callee,
                        .registers = emulator_zeroed(i->callee->registers, sizeof *f->registers),
                        .local = emulator_reserve(i->callee->local_bytes + 1)};
    for (int k = 0; k < i->n; k++)
        f->argument[k] = in(t, i, k);
    t->depth++;
}

static void op_ret(struct thread *t, const struct instruction *i)
{
    if (!t->depth) {
        if (t->n_copies)
            fault(t, i, "the thread ends with copies that were not waited for");
        t->state = EXITED;
        return;
    }
    free(t->frame[t->depth].registers);
    free(t->frame[t->depth].local);
    t->depth--;
}

/* Whatever a warp does together (warp.c). */
static void op_together(struct thread *t, const struct instruction *i)
{
    t->state = AT_WARP;
    t->at = i;
}

static void op_bar(struct thread *t, const struct instruction *i)
{
    if (ptx_has(i, "warp")) {
        op_together(t, i);
        return;
    }
    int first = ptx_has(i, "red") ? 1 : 0;
    if (!ptx_has(i, "sync") && !first)
        unknown(t, i);
    t->state = AT_BARRIER;
    t->at = i;
    t->barrier = (uint32_t)in(t, i, first);
    t->expected = i->n > first + 1 + first ? (uint32_t)in(t, i, first + 1) : 0;
}

static void op_nothing(struct thread *t, const struct instruction *i)
{
    (void)t;
    (void)i;
}

static void op_nanosleep(struct thread *t, const struct instruction *i)
{
    (void)t;
    (void)i;
    pause_grid();
}

static const struct opcode table[] = {{"nanosleep", op_nanosleep},
                                      {"atom", op_atom},
                                      {"bar", op_bar},
                                      {"barrier", op_bar},
                                      {"bra", op_bra},
                                      {"call", op_call},
                                      {"cp", op_cp},
                                      {"cvt", op_cvt},
                                      {"cvta", op_cvta},
                                      {"exit", op_ret},
                                      {"ld", op_ld},
                                      {"ldmatrix", op_together},
                                      {"match", op_together},
                                      {"membar", op_nothing},
                                      {"fence", op_nothing},
                                      {"mma", op_together},
                                      {"mov", op_mov},
                                      {"redux", op_together},
                                      {"ret", op_ret},
                                      {"shfl", op_together},
                                      {"st", op_st},
                                      {"vote", op_together}};

instruction_fn *opcode_named(const struct opcode *rows, size_t n, const char *opcode)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].name, opcode))
            return rows[i].run;
    return NULL;
}

instruction_fn *ptx_instruction(const char *opcode)
{
    instruction_fn *f = opcode_named(table, sizeof table / sizeof *table, opcode);
    return f ? f : arithmetic_instruction(opcode);
}
