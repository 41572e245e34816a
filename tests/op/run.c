/* Every case of cases.c on every instruction set of the cpu backend: against the reference kernels within the error
 * model, with guard bytes round every buffer, poisoned outputs and workspaces, unaligned tensors, gradients written or
 * added to, optional outputs left out, and equal bits for any number of threads. */
#define SNUG_ISA generic
#include "cases.h"
#include "checks.h"
#include "cpu/kernels.h"
#include "tolerance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

extern const struct cpu_kernels cpu_kernels_generic;
#if defined __x86_64__
extern const struct cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512;
#endif

struct variant {
    bool narrow, add;
    unsigned absent; /* bit i: slot i is left out */
    int threads;
    int shift; /* tensors start so many elements after an aligned address */
    uint8_t poison;
};

enum { GUARD = 64 };
static const uint8_t GUARD_BYTE = 0xA5;

/* A buffer between guards. */
struct buffer {
    uint8_t *base, *data;
    int64_t bytes;
};

static struct buffer buffer_make(int64_t bytes, int64_t shift, const void *content, uint8_t poison)
{
    struct buffer b = {.bytes = bytes};
    size_t all = ((size_t)bytes + 3 * GUARD + 63) / 64 * 64;
    b.base = aligned_alloc(64, all);
    assert_non_null(b.base);
    b.data = b.base + GUARD + shift;
    memset(b.base, GUARD_BYTE, all);
    if (content)
        memcpy(b.data, content, (size_t)bytes);
    else
        memset(b.data, poison, (size_t)bytes);
    return b;
}

static bool buffer_guards_hold(const struct buffer *b)
{
    for (const uint8_t *p = b->base; p < b->data; p++)
        if (*p != GUARD_BYTE)
            return false;
    for (int i = 0; i < GUARD; i++)
        if (b->data[b->bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

struct outcome {
    struct buffer slot[OP_MAX_SLOTS];
};

static void outcome_free(struct outcome *o)
{
    for (int i = 0; i < OP_MAX_SLOTS; i++)
        free(o->slot[i].base);
}

static bool slot_absent(const struct op_inputs *in, const struct variant *v, int i)
{
    return !in->slot[i].present || (v->absent >> i & 1);
}

/* What a written slot holds before: NULL for nothing in particular. */
static const void *content_before(const struct op_inputs *in, const struct variant *v, int i, const void *content)
{
    enum slot_kind k = op_table[in->c->op].slots[i].kind;
    return slot_reads(k) || (k == SLOT_ACC && v->add) ? content : NULL;
}

/* Tensors and attributes of the case, without data. */
static union args_any make_args(const struct op_inputs *in, const struct variant *v)
{
    union args_any args = in->c->args;
    for (int i = 0; i < op_table[in->c->op].n_slots; i++) {
        args.slot[i] = slot_absent(in, v, i) ? (struct tensor){0} : in->slot[i].shape;
        args.slot[i].add = !slot_absent(in, v, i) && v->add && op_table[in->c->op].slots[i].kind == SLOT_ACC;
    }
    return args;
}

static void explain(const char *isa, const struct op_inputs *in, const struct variant *v)
{
    print_error("%s: %s, %s: %s, %d threads%s%s\n", isa, op_table[in->c->op].name, in->c->name,
                v->narrow ? "bf16" : "fp32", v->threads, v->add ? ", added" : "", v->absent ? ", slots left out" : "");
}

static struct outcome run_kernel(const char *isa, const struct cpu_kernels *kernels, const struct op_inputs *in,
                                 const struct variant *v)
{
    struct outcome out = {0};
    enum op op = in->c->op;
    union args_any args = make_args(in, v);
    int64_t bytes = kernels->workspace[op] ? kernels->workspace[op](&args, v->threads) : 0;
    struct buffer workspace = buffer_make(bytes, 0, NULL, v->poison);
    for (int i = 0; i < op_table[op].n_slots; i++) {
        const struct slot_data *s = &in->slot[i];
        if (slot_absent(in, v, i))
            continue;
        int64_t shift = dtype_bytes(s->shape.dtype, v->shift);
        out.slot[i] = buffer_make(s->bytes, shift, content_before(in, v, i, s->data), v->poison);
        args.slot[i].data = out.slot[i].data;
    }
    kernels->run[op](&args, &(struct call){.workspace = workspace.data, .threads = v->threads});
    bool holds = buffer_guards_hold(&workspace);
    for (int i = 0; i < op_table[op].n_slots; i++)
        if (out.slot[i].base) {
            holds = holds && buffer_guards_hold(&out.slot[i]);
            if (!slot_writes(op_table[op].slots[i].kind) &&
                memcmp(out.slot[i].data, in->slot[i].data, (size_t)in->slot[i].bytes))
                holds = false;
        }
    free(workspace.base);
    if (!holds) {
        explain(isa, in, v);
        fail_msg("wrote outside its outputs");
    }
    return out;
}

static struct outcome run_reference(const struct op_inputs *in, const struct variant *v)
{
    struct outcome out = {0};
    enum op op = in->c->op;
    union args_any args = make_args(in, v);
    for (int i = 0; i < op_table[op].n_slots; i++) {
        const struct slot_data *s = &in->slot[i];
        if (slot_absent(in, v, i))
            continue;
        args.slot[i].data = s->ref ? (void *)s->ref : s->data;
        args.slot[i].dtype = s->ref ? DT_F64 : s->shape.dtype;
        if (!slot_writes(op_table[op].slots[i].kind))
            continue;
        out.slot[i] = buffer_make(8 * s->elements, 0, content_before(in, v, i, s->ref), 0xFF);
        args.slot[i].data = out.slot[i].data;
    }
    reference_kernels[op](&args, &(struct call){.threads = 1});
    return out;
}

static double element(const void *p, enum dtype t, int64_t i)
{
    double x;
    dtype_convert(&x, DT_F64, (const char *)p + dtype_bytes(t, i), t, 1);
    return x;
}

static double rms(const double *x, int64_t n)
{
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    return n > 0 ? sqrt(squares / (double)n) : 0;
}

/* Largest error over its bound in the run so far, in F32 and in BF16 (where a result's own rounding is nearly all). */
static struct {
    double ratio;
    const char *op;
} worst[2];

static void compare(const char *isa, const struct op_inputs *in, const struct variant *v, const struct outcome *got,
                    const struct outcome *want)
{
    union args_any args = make_args(in, v);
    const struct op_info *op = &op_table[in->c->op];
    double condition = in->c->condition > 0 ? in->c->condition : 1;
    for (int i = 0; i < op->n_slots; i++) {
        const struct slot_data *s = &in->slot[i];
        const double *ref = (const double *)want->slot[i].data;
        if (!ref)
            continue;
        int64_t row = s->shape.ndim ? s->shape.shape[s->shape.ndim - 1] : 1;
        double all = rms(ref, s->elements), size = all;
        for (int64_t k = 0; k < s->elements; k++) {
            if (k % row == 0)
                size = fmax(all, rms(ref + k, row));
            double y = element(got->slot[i].data, s->shape.dtype, k), error = fabs(y - ref[k]);
            double bound = condition * tolerance(in->c->op, &args, s->shape.dtype, v->narrow, ref[k], size);
            if (y == ref[k]) /* infinities too */
                continue;
            if (error <= bound && error >= worst[v->narrow].ratio * bound) {
                worst[v->narrow].ratio = bound > 0 ? error / bound : 0;
                worst[v->narrow].op = op->name;
            }
            if (error <= bound)
                continue;
            explain(isa, in, v);
            fail_msg("%s[%lld] = %.9g, reference %.9g: error %.3g over the bound %.3g", op->slots[i].name, (long long)k,
                     y, ref[k], error, bound);
        }
    }
}

static void must_be_equal(const char *isa, const struct op_inputs *in, const struct variant *v, struct outcome got,
                          const struct outcome *first)
{
    for (int i = 0; i < op_table[in->c->op].n_slots; i++)
        if (got.slot[i].base && memcmp(got.slot[i].data, first->slot[i].data, (size_t)in->slot[i].bytes)) {
            explain(isa, in, v);
            fail_msg("%s has other bits than with one thread and all outputs", op_table[in->c->op].slots[i].name);
        }
    outcome_free(&got);
}

/* One case in one type, its gradients written or added to. */
static void check_variant(const char *isa, const struct cpu_kernels *kernels, const struct op_inputs *in, bool narrow,
                          bool add)
{
    static const int threads[] = {2, 3, 5};
    struct variant v = {.narrow = narrow, .add = add, .threads = 1, .poison = 0xFF};
    const struct op_info *op = &op_table[in->c->op];
    struct outcome first = run_kernel(isa, kernels, in, &v), want = run_reference(in, &v);
    compare(isa, in, &v, &first, &want);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        v.threads = threads[i];
        v.shift = (int)i;
        v.poison = (uint8_t)(0x7F + i);
        must_be_equal(isa, in, &v, run_kernel(isa, kernels, in, &v), &first);
    }
    int written = 0;
    for (int i = 0; i < op->n_slots; i++)
        written += in->slot[i].present && slot_writes(op->slots[i].kind);
    for (int i = 0; i < op->n_slots && written > 1; i++) {
        v.absent = 1u << i;
        if (in->slot[i].present && (op->slots[i].kind == SLOT_ACC || op->slots[i].kind == SLOT_MAYBE))
            must_be_equal(isa, in, &v, run_kernel(isa, kernels, in, &v), &first);
    }
    outcome_free(&first);
    outcome_free(&want);
}

/* A NaN among the inputs shows in every output where the reference shows it. (Not in every element: a dropped NaN is 0
 * here, NaN there.) */
static void check_nan(const char *isa, const struct cpu_kernels *kernels, struct op_inputs *in, bool narrow)
{
    struct variant v = {.narrow = narrow, .threads = 2, .poison = 0};
    const struct op_info *op = &op_table[in->c->op];
    for (int i = 0; i < op->n_slots; i++) {
        struct slot_data *s = &in->slot[i];
        if (!slot_reads(op->slots[i].kind) || !s->present || !is_float(s->shape.dtype) || !s->elements)
            continue;
        int64_t at = s->elements / 2;
        s->ref[at] = NAN;
        dtype_convert(s->data, s->shape.dtype, s->ref, DT_F64, s->elements);
        break;
    }
    struct outcome got = run_kernel(isa, kernels, in, &v), want = run_reference(in, &v);
    for (int i = 0; i < op->n_slots; i++) {
        bool in_reference = false, in_kernel = false;
        for (int64_t k = 0; want.slot[i].data && k < in->slot[i].elements; k++) {
            in_reference |= isnan(((double *)want.slot[i].data)[k]);
            in_kernel |= isnan(element(got.slot[i].data, in->slot[i].shape.dtype, k));
        }
        if (in_reference && !in_kernel) {
            explain(isa, in, &v);
            fail_msg("%s has no NaN although an input has", op->slots[i].name);
        }
    }
    outcome_free(&got);
    outcome_free(&want);
}

static void check_isa(const char *isa, const struct cpu_kernels *kernels)
{
    worst[0].ratio = worst[1].ratio = 0;
    for (int i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        bool accumulates = false;
        if (c->long_only && SANITIZED)
            continue;
        for (int k = 0; k < op_table[c->op].n_slots; k++)
            accumulates |= c->args.slot[k].ndim && op_table[c->op].slots[k].kind == SLOT_ACC;
        for (int narrow = 0; narrow <= case_has_narrow(c); narrow++) {
            struct op_inputs in;
            inputs_make(&in, c, narrow);
            for (int add = 0; add <= accumulates; add++)
                check_variant(isa, kernels, &in, narrow, add);
            if (!c->long_only)
                check_nan(isa, kernels, &in, narrow);
            inputs_free(&in);
        }
    }
    print_message("%s: largest error %.2f of its bound in fp32 (%s), %.2f in bf16 (%s)\n", isa, worst[0].ratio,
                  worst[0].op, worst[1].ratio, worst[1].op);
}

static void test_generic(void **state)
{
    (void)state;
    check_isa("generic", &cpu_kernels_generic);
}

#if defined __x86_64__
static void test_avx2(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        skip();
    check_isa("avx2", &cpu_kernels_avx2);
}

static void test_avx512(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vl"))
        skip();
    check_isa("avx512", &cpu_kernels_avx512);
}
#endif

static void test_every_op_has_a_case(void **state)
{
    (void)state;
    for (int op = 1; op < OP_COUNT; op++) {
        bool found = false;
        for (int i = 0; i < n_op_cases; i++)
            found |= (int)op_cases[i].op == op;
        if (!found)
            fail_msg("op %s has no case in tests/op/cases.c", op_table[op].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_has_a_case),
        cmocka_unit_test(test_shape_errors),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_generic),
#if defined __x86_64__
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
