#include "graph/graph.h"

#include <assert.h>
#include <stddef.h>

#define IN(a) {#a, SLOT_IN},
#define OPT(a) {#a, SLOT_OPT},
#define OUT(a) {#a, SLOT_OUT},
#define MAYBE(a) {#a, SLOT_MAYBE},
#define F32(a) {#a, SLOT_F32},
#define ACC(a) {#a, SLOT_ACC},
#define INOUT(a) {#a, SLOT_INOUT},
#define UPD(a) {#a, SLOT_UPD},
#define OP(name, slots, attrs, diff, text) static const struct slot_info slots_##name[] = {slots};
#include "graph/ops.h"
#undef OP

/* An op without attributes still needs an element; n_attrs leaves it out. */
#define INT(a) {#a, ATTR_INT},
#define REAL(a) {#a, ATTR_REAL},
#define FLAG(a) {#a, ATTR_FLAG},
#define ACT(a) {#a, ATTR_ACT},
#define OP(name, slots, attrs, diff, text) static const struct attr_info attrs_##name[] = {attrs{0, ATTR_INT}};
#include "graph/ops.h"
#undef OP

/* Function pointers in the table take void *: these pass it on with its type. */
#define WRAP_DIFF(name)                                                                                                \
    static void grad_any_##name(struct grads *d, const void *n)                                                        \
    {                                                                                                                  \
        grad_##name(d, n);                                                                                             \
    }
#define WRAP_NONE(name)
#define OP(name, slots, attrs, diff, text)                                                                             \
    static void shape_any_##name(struct graph *g, void *n)                                                             \
    {                                                                                                                  \
        shape_##name(g, n);                                                                                            \
    }                                                                                                                  \
    WRAP_##diff(name) static double flops_any_##name(const void *a)                                                    \
    {                                                                                                                  \
        return flops_##name(a);                                                                                        \
    }
#include "graph/ops.h"
#undef OP

static const uint8_t slot_properties[OP_COUNT][OP_MAX_SLOTS] = {
#define SLOT(op, slot, properties) [OP_##op][OP_SLOT(op, slot)] = properties,
#include "graph/ops.h"
};

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
#define ALIGN8(bytes) (((bytes) + 7) / 8 * 8)
#define GRAD_DIFF(name) grad_any_##name
#define GRAD_NONE(name) NULL

const struct op_info op_table[OP_COUNT] = {
#define OP(opname, in_out, attributes, diff, definition)                                                               \
    [OP_##opname] = {.name = #opname,                                                                                  \
                     .text = definition,                                                                               \
                     .slots = slots_##opname,                                                                          \
                     .attrs = attrs_##opname,                                                                          \
                     .properties = slot_properties[OP_##opname],                                                       \
                     .n_slots = COUNT(slots_##opname),                                                                 \
                     .n_attrs = COUNT(attrs_##opname) - 1,                                                             \
                     .node_bytes = sizeof(struct op_##opname),                                                         \
                     .attr_offset = ALIGN8(COUNT(slots_##opname) * sizeof(int)),                                       \
                     .shape = shape_any_##opname,                                                                      \
                     .grad = GRAD_##diff(opname),                                                                      \
                     .flops = flops_any_##opname},
#include "graph/ops.h"
#undef OP
};

/* The generic code reaches slots as an int array and attributes by offset; both must be where the table says. */
#define OP(name, slots, attrs, diff, text)                                                                             \
    static_assert(                                                                                                     \
        COUNT(slots_##name) <= OP_MAX_SLOTS && COUNT(attrs_##name) - 1 <= OP_MAX_ATTRS &&                              \
            sizeof(struct op_##name) ==                                                                                \
                (COUNT(attrs_##name) > 1 ? ALIGN8(COUNT(slots_##name) * sizeof(int)) + 8 * (COUNT(attrs_##name) - 1)   \
                                         : COUNT(slots_##name) * sizeof(int)) &&                                       \
            sizeof(struct args_##name) == COUNT(slots_##name) * sizeof(struct tensor) + 8 * (COUNT(attrs_##name) - 1), \
        "op " #name);
#include "graph/ops.h"
#undef OP

const char *const act_names[ACT_COUNT] = {
#define ACT_ROW(name) #name,
    ACTS(ACT_ROW)
#undef ACT_ROW
};
