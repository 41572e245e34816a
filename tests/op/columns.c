/* The cases of ops that know a pitch once more, with every such slot as columns of a wider matrix, whose other columns are NaN:
 * they must not be read, and must stay. */
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t OTHER_COLUMNS = 0xFF;

/* Columns of the wider matrix before those of the slot. Vectors of 16 bytes start where its own do, or nowhere. */
static int64_t columns_before(const struct tensor *t)
{
    return t->shape[1] % 8 ? 3 : 8;
}

static bool widen(enum op op, int slot, struct tensor *t)
{
    if (t->ndim != 2 || !op_slot_is(op, slot, SLOT_PITCH))
        return false;
    t->pitch = t->shape[1] + 2 * columns_before(t);
    t->columns = true;
    return true;
}

static int64_t workspace(const struct op_runner *r, enum op op, const union args_any *args, int threads)
{
    const struct op_runner *inner = r->kernels;
    union args_any wide = *args;
    for (int i = 0; i < op_table[op].n_slots; i++)
        widen(op, i, &wide.slot[i]);
    return inner->workspace(inner, op, &wide, threads);
}

/* Between the wider matrix and what the slot has without it. */
static void copy_columns(const struct tensor *t, const struct buffer *wide, const struct buffer *dense, bool back)
{
    int64_t row = dtype_bytes(t->dtype, t->shape[1]), pitch = dtype_bytes(t->dtype, t->pitch);
    for (int64_t n = 0; n < t->shape[0]; n++) {
        uint8_t *there = wide->data + n * pitch, *here = dense->data + n * row;
        memcpy(back ? here : there, back ? there : here, (size_t)row);
        if (back)
            memset(there, OTHER_COLUMNS, (size_t)row);
    }
}

static struct buffer make_wide(const struct tensor *t, const struct buffer *dense)
{
    struct buffer b = {.bytes = dtype_bytes(t->dtype, tensor_room(t))};
    int64_t before = dtype_bytes(t->dtype, columns_before(t)), shift = (dense->data - dense->base) % GUARD;
    b.all_bytes = (GUARD + shift + before + b.bytes + 2 * GUARD) / GUARD * GUARD;
    b.base = aligned_alloc(GUARD, (size_t)b.all_bytes);
    assert_non_null(b.base);
    memset(b.base, OTHER_COLUMNS, (size_t)b.all_bytes);
    b.data = b.base + GUARD + shift + before;
    copy_columns(t, &b, dense, false);
    return b;
}

static void run(const struct op_runner *r, enum op op, union args_any *args, const struct buffer *slots,
                const struct buffer *space, int threads)
{
    const struct op_runner *inner = r->kernels;
    struct buffer all[OP_MAX_SLOTS];
    bool wide[OP_MAX_SLOTS] = {0};
    memcpy(all, slots, (size_t)op_table[op].n_slots * sizeof *all);
    for (int i = 0; i < op_table[op].n_slots; i++)
        if (slots[i].base && (wide[i] = widen(op, i, &args->slot[i])))
            all[i] = make_wide(&args->slot[i], &slots[i]);
    inner->run(inner, op, args, all, space, threads);
    for (int i = 0; i < op_table[op].n_slots; i++) {
        if (!wide[i])
            continue;
        copy_columns(&args->slot[i], &all[i], &slots[i], true);
        for (int64_t k = 0; k < all[i].all_bytes; k++)
            if (all[i].base[k] != OTHER_COLUMNS)
                fail_msg("%s: %s: other columns than those of %s were written", r->name, op_table[op].name,
                         op_table[op].slots[i].name);
        free(all[i].base);
    }
}

static bool (*is_wanted)(enum op op);

static bool knows_columns(enum op op)
{
    bool some = false;
    for (int i = 0; i < op_table[op].n_slots; i++)
        some |= op_slot_is(op, i, SLOT_PITCH);
    return some && (!is_wanted || is_wanted(op));
}

void check_columns(const struct op_runner *r, bool (*wanted)(enum op op))
{
    struct op_runner wide = *r;
    char name[64];
    snprintf(name, sizeof name, "%s, columns", r->name);
    wide.name = name;
    wide.workspace = workspace;
    wide.run = run;
    wide.kernels = r;
    is_wanted = wanted;
    check_runner(&wide, knows_columns);
}
