#include "harness.h"

#include "base/dtype.h"
#include "cases.h"
#include "checks.h"
#include "tolerance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct variant {
    enum dtype narrow; /* what the policy's type is */
    bool add;
    unsigned absent; /* bit i: slot i is left out */
    int threads;
    int shift; /* tensors start so many elements after an aligned address */
    uint8_t poison;
};

static const uint8_t GUARD_BYTE = 0xA5;

static struct buffer buffer_make(int64_t bytes, int64_t shift, const void *content, uint8_t poison)
{
    struct buffer b = {.bytes = bytes, .all_bytes = (bytes + 4 * GUARD - 1) / GUARD * GUARD};
    b.base = aligned_alloc(GUARD, (size_t)b.all_bytes);
    assert_non_null(b.base);
    b.data = b.base + GUARD + shift;
    memset(b.base, GUARD_BYTE, (size_t)b.all_bytes);
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
    for (const uint8_t *p = b->data + b->bytes; p < b->base + b->all_bytes; p++)
        if (*p != GUARD_BYTE)
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

static void explain(const struct op_runner *r, const struct op_inputs *in, const struct variant *v)
{
    print_error("%s: %s, %s: %s, %d threads%s%s%s\n", r->name, op_table[in->c->op].name, in->c->name,
                dtype_name(v->narrow), v->threads, v->add ? ", added" : "", v->absent ? ", slots left out" : "",
                v->shift ? ", unaligned" : "");
}

static struct outcome run_kernel(const struct op_runner *r, const struct op_inputs *in, const struct variant *v)
{
    struct outcome out = {0};
    enum op op = in->c->op;
    union args_any args = make_args(in, v);
    struct buffer workspace = buffer_make(r->workspace(r, op, &args, v->threads), 0, NULL, v->poison);
    for (int i = 0; i < op_table[op].n_slots; i++) {
        const struct slot_data *s = &in->slot[i];
        if (slot_absent(in, v, i))
            continue;
        int64_t shift = dtype_bytes(s->shape.dtype, v->shift);
        out.slot[i] = buffer_make(s->bytes, shift, content_before(in, v, i, s->data), v->poison);
    }
    r->run(r, op, &args, out.slot, &workspace, v->threads);
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
        explain(r, in, v);
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
        out.slot[i] = s->ref ? buffer_make(8 * s->elements, 0, content_before(in, v, i, s->ref), 0xFF)
                             : buffer_make(s->bytes, 0, content_before(in, v, i, s->data), 0xFF);
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

/* Largest error over its bound in the run so far, by policy's type (in 16 bits a result's own rounding is nearly all).
 */
static struct {
    double ratio;
    const char *op;
} worst[DT_COUNT];

/* Integers that are no codes: the same. */
static void compare_integers(const struct op_runner *r, const struct op_inputs *in, const struct variant *v, int slot,
                             const struct outcome *got, const struct outcome *want)
{
    const int32_t *x = (const int32_t *)got->slot[slot].data, *y = (const int32_t *)want->slot[slot].data;
    for (int64_t i = 0; i < in->slot[slot].elements; i++)
        if (x[i] != y[i]) {
            explain(r, in, v);
            fail_msg("%s[%lld] is %d, reference %d", op_table[in->c->op].slots[slot].name, (long long)i, x[i], y[i]);
        }
}

/* Codes of 8 bits: the same, but for a few between which the exact number stands. */
static void compare_codes(const struct op_runner *r, const struct op_inputs *in, const struct variant *v, int slot,
                          const struct outcome *got, const struct outcome *want)
{
    int64_t n = in->slot[slot].elements, off = 0;
    for (int64_t i = 0; i < n; i++) {
        int far = abs(got->slot[slot].data[i] - want->slot[slot].data[i]);
        off += far == 1;
        if (far <= 1 && off <= 1 + n / 1000)
            continue;
        explain(r, in, v);
        fail_msg("%s[%lld] is code %d, reference %d (%lld neighbours so far)", op_table[in->c->op].slots[slot].name,
                 (long long)i, got->slot[slot].data[i], want->slot[slot].data[i], (long long)off);
    }
}

/* Numbers rounded stochastically: the same, but for a few whose remainder is that close to the random number, and those are
 * neighbours; or, of terms that cancel, as far from each other as sums of floats are. */
static void compare_rounded(const struct op_runner *r, const struct op_inputs *in, const struct variant *v, int slot,
                            const struct outcome *got, const struct outcome *want)
{
    int64_t n = in->slot[slot].elements, off = 0;
    const double *all = (const double *)want->slot[slot].data;
    double size = rms(all, n);
    for (int64_t i = 0; i < n; i++) {
        double y = element(got->slot[slot].data, DT_BF16, i), ref = all[i];
        bool near = fabs(y - ref) <= 2 * UNIT_BF16 * fabs(ref) + UNITS * UNIT_F32 * size;
        off += y != ref;
        if (y == ref || (isnan(y) && isnan(ref)) || (near && off <= 1 + n / 500))
            continue;
        explain(r, in, v);
        fail_msg("%s[%lld] is %.9g, reference %.9g (%lld others so far)", op_table[in->c->op].slots[slot].name,
                 (long long)i, y, ref, (long long)off);
    }
}

static void compare(const struct op_runner *r, const struct op_inputs *in, const struct variant *v,
                    const struct outcome *got, const struct outcome *want)
{
    union args_any args = make_args(in, v);
    const struct op_info *op = &op_table[in->c->op];
    double condition = in->c->condition > 0 ? in->c->condition : 1;
    for (int i = 0; i < op->n_slots; i++) {
        const struct slot_data *s = &in->slot[i];
        const double *ref = (const double *)want->slot[i].data;
        int sized = sized_as(in->c->op, i);
        const double *sums = (const double *)want->slot[sized].data;
        if (!ref)
            continue;
        if (!s->ref) {
            (s->shape.dtype == DT_I32 ? compare_integers : compare_codes)(r, in, v, i, got, want);
            continue;
        }
        if (in->c->rounds && s->shape.dtype == DT_BF16 && slot_writes(op->slots[i].kind)) {
            compare_rounded(r, in, v, i, got, want);
            continue;
        }
        int64_t row = s->shape.ndim ? s->shape.shape[s->shape.ndim - 1] : 1;
        double all = fmax(rms(ref, s->elements), rms(sums, in->slot[sized].elements)), size = all;
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
            explain(r, in, v);
            fail_msg("%s[%lld] = %.9g, reference %.9g: error %.3g over the bound %.3g", op->slots[i].name, (long long)k,
                     y, ref[k], error, bound);
        }
    }
}

static void must_be_equal(const struct op_runner *r, const struct op_inputs *in, const struct variant *v,
                          struct outcome got, const struct outcome *first)
{
    for (int i = 0; i < op_table[in->c->op].n_slots; i++)
        if (got.slot[i].base && memcmp(got.slot[i].data, first->slot[i].data, (size_t)in->slot[i].bytes)) {
            explain(r, in, v);
            fail_msg("%s has other bits than with one thread and all outputs", op_table[in->c->op].slots[i].name);
        }
    outcome_free(&got);
}

/* Where each run takes long, fewer of them have to do. */
static bool is_brief(void)
{
    return SANITIZED || getenv("SNUG_TEST_SHORT");
}

/* One case in one type, its gradients written or added to. */
static void check_variant(const struct op_runner *r, const struct op_inputs *in, enum dtype narrow, bool add)
{
    static const int threads[] = {2, 3, 5};
    struct variant v = {.narrow = narrow, .add = add, .threads = 1, .poison = 0xFF};
    const struct op_info *op = &op_table[in->c->op];
    struct outcome first = run_kernel(r, in, &v), want = run_reference(in, &v);
    compare(r, in, &v, &first, &want);
    for (size_t i = is_brief(); i < (is_brief() ? 2 : sizeof threads / sizeof *threads); i++) {
        v.threads = threads[i];
        v.shift = !r->takes_unaligned || r->takes_unaligned(in->c->op) ? (int)i : 0;
        v.poison = (uint8_t)(0x7F + i);
        struct outcome again = run_kernel(r, in, &v);
        if (r->alignment_free || v.shift == 0)
            must_be_equal(r, in, &v, again, &first);
        else {
            compare(r, in, &v, &again, &want);
            outcome_free(&again);
        }
    }
    int written = 0;
    for (int i = 0; i < op->n_slots; i++)
        written += in->slot[i].present && slot_writes(op->slots[i].kind);
    v.shift = r->alignment_free ? v.shift : 0;
    for (int i = 0; i < op->n_slots && written > 1 && !(add && is_brief()); i++) {
        v.absent = 1u << i;
        if (in->slot[i].present && (op->slots[i].kind == SLOT_ACC || op->slots[i].kind == SLOT_MAYBE))
            must_be_equal(r, in, &v, run_kernel(r, in, &v), &first);
    }
    outcome_free(&first);
    outcome_free(&want);
}

/* A NaN among the inputs shows in every output where the reference shows it. (Not in every element: a dropped NaN is 0
 * here, NaN there.) */
static void check_nan(const struct op_runner *r, struct op_inputs *in, enum dtype narrow)
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
    struct outcome got = run_kernel(r, in, &v), want = run_reference(in, &v);
    for (int i = 0; i < op->n_slots; i++) {
        bool in_reference = false, in_kernel = false;
        for (int64_t k = 0; want.slot[i].data && in->slot[i].ref && k < in->slot[i].elements; k++) {
            in_reference |= isnan(((double *)want.slot[i].data)[k]);
            in_kernel |= isnan(element(got.slot[i].data, in->slot[i].shape.dtype, k));
        }
        if (in_reference && !in_kernel) {
            explain(r, in, &v);
            fail_msg("%s has no NaN although an input has", op->slots[i].name);
        }
    }
    outcome_free(&got);
    outcome_free(&want);
}

static void check_case(const struct op_runner *r, const struct op_case *c, enum dtype narrow)
{
    bool accumulates = false;
    struct op_inputs in;
    for (int k = 0; k < op_table[c->op].n_slots; k++)
        accumulates |= c->args.slot[k].ndim && op_table[c->op].slots[k].kind == SLOT_ACC;
    inputs_make(&in, c, narrow);
    for (int add = 0; add <= (accumulates && !c->once); add++)
        check_variant(r, &in, narrow, add);
    if (!c->long_only)
        check_nan(r, &in, narrow);
    inputs_free(&in);
}

void check_runner(const struct op_runner *r, bool (*wanted)(enum op op))
{
    int not_taken = 0;
    memset(worst, 0, sizeof worst);
    for (int i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if ((c->long_only && is_brief()) || (wanted && !wanted(c->op)))
            continue;
        for (int t = 0; t < 3; t++) {
            enum dtype narrow = ((enum dtype[]){DT_F32, DT_BF16, DT_F16})[t];
            if ((c->rounds && narrow != DT_BF16) ||
                (narrow != DT_F32 && (!case_has_narrow(c) || (narrow == DT_F16 && !r->fp16))))
                continue;
            if (r->takes && !r->takes(c, narrow))
                not_taken++;
            else
                check_case(r, c, narrow);
        }
    }
    if (not_taken)
        print_message("%s: %d cases are not for these kernels in one type or another\n", r->name, not_taken);
    for (int t = 0; t < DT_COUNT; t++)
        if (worst[t].op)
            print_message("%s: largest error %.2f of its bound in %s (%s)\n", r->name, worst[t].ratio,
                          dtype_name((enum dtype)t), worst[t].op);
}
