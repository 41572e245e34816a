/* op.h: what the rows of ops.h become in C. For an op `linear`: OP_linear; struct op_linear with the ids of its values
 * and its attributes (a node, and what a builder fills in); struct args_linear with the same members as tensors (what a
 * kernel gets). */
#ifndef GRAPH_OP_H
#define GRAPH_OP_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct graph;
struct grads;

enum { OP_MAX_SLOTS = 13, OP_MAX_ATTRS = 10, MAX_DIMS = 4 };

/* Activation functions. gelu is x(1+erf(x/sqrt 2))/2; gelu_tanh is what configurations call gelu_new and
 * gelu_pytorch_tanh; relu2 is max(x, 0)^2. */
#define ACTS(ACT_ROW)                                                                                                  \
    ACT_ROW(none)                                                                                                      \
    ACT_ROW(gelu)                                                                                                      \
    ACT_ROW(gelu_tanh)                                                                                                 \
    ACT_ROW(relu)                                                                                                      \
    ACT_ROW(relu2)                                                                                                     \
    ACT_ROW(tanh)                                                                                                      \
    ACT_ROW(silu)

enum act {
#define ACT_ROW(name) ACT_##name,
    ACTS(ACT_ROW)
#undef ACT_ROW
        ACT_COUNT
};

/* Elements of the `step` input. */
enum step_scalar { STEP_INV_N, STEP_LR, STEP_UPDATE, STEP_SEED_LOW, STEP_SEED_HIGH, STEP_AVERAGE, STEP_SCALARS = 8 };

/* Elements of the state "loss_scaler": what the loss is multiplied with, good steps in a row, steps skipped so far. */
enum scaler_scalar { SCALER_SCALE, SCALER_GOOD, SCALER_SKIPPED, SCALER_SCALARS = 4 };
enum { LOSS_SCALE_START = 65536 };

/* Elements that `sumsq` sums into one partial. */
enum { SUMSQ_CHUNK = 65536 };

/* A tensor as a kernel sees it, row-major. `add`: an ACC slot that is added into instead of overwritten. */
struct tensor {
    void *data; /* NULL: the slot is absent */
    int64_t shape[MAX_DIMS];
    int64_t pitch;    /* of a matrix: elements from a row to the next; 0: as many as a row has */
    int64_t pad_rows; /* of zeros behind the last (pass_pad) */
    enum dtype dtype;
    int8_t ndim;
    bool add;
    bool columns;  /* of a wider matrix: what lies between its rows is not its own; else that is zeros (pass_pad) */
    int64_t first; /* of a shard, which is a vector: where it begins in the whole */
};

static inline int64_t tensor_elements(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

/* Elements from a row of a matrix to the next. */
static inline int64_t tensor_pitch(const struct tensor *t)
{
    return t->pitch ? t->pitch : t->shape[1];
}

/* Columns of a matrix that products may go through: with the zeros at the end of its rows. */
static inline int64_t tensor_columns(const struct tensor *t)
{
    return t->columns ? t->shape[1] : tensor_pitch(t);
}

/* Elements from its first to its last, zeros included. */
static inline int64_t tensor_room(const struct tensor *t)
{
    int64_t n = 1;
    if (t->pitch)
        return t->shape[0] > 0 ? (t->shape[0] - 1) * t->pitch + tensor_columns(t) : 0;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i] + (i == 0 ? t->pad_rows : 0);
    return n;
}

/* What a kernel may use besides its tensors. */
struct call {
    void *workspace;         /* as many bytes as the backend asked for this node; aligned to 64 */
    int threads;             /* at most; results do not depend on it */
    const struct rank *rank; /* which of several ranks this is (ranks/ranks.h); NULL: there is only one */
    char *const *arenas;     /* theirs, where they have one memory: a value lies at the same place in each */
};

enum op {
    OP_none,
#define OP(name, slots, attrs, diff, text) OP_##name,
#include "graph/ops.h"
#undef OP
    OP_COUNT
};

#define INT(a) int64_t a;
#define REAL(a) double a;
#define FLAG(a) int64_t a;
#define ACT(a) int64_t a;

#define IN(a) int a;
#define OPT(a) int a;
#define OUT(a) int a;
#define MAYBE(a) int a;
#define F32(a) int a;
#define ACC(a) int a;
#define INOUT(a) int a;
#define UPD(a) int a;
#define OP(name, slots, attrs, diff, text)                                                                             \
    struct op_##name {                                                                                                 \
        slots attrs                                                                                                    \
    };
#include "graph/ops.h"
#undef OP

union op_any {
    int slot[OP_MAX_SLOTS];
#define OP(name, slots, attrs, diff, text) struct op_##name name;
#include "graph/ops.h"
#undef OP
};

#undef IN
#undef OPT
#undef OUT
#undef MAYBE
#undef F32
#undef ACC
#undef INOUT
#undef UPD

#define IN(a) struct tensor a;
#define OPT(a) struct tensor a;
#define OUT(a) struct tensor a;
#define MAYBE(a) struct tensor a;
#define F32(a) struct tensor a;
#define ACC(a) struct tensor a;
#define INOUT(a) struct tensor a;
#define UPD(a) struct tensor a;
#define OP(name, slots, attrs, diff, text)                                                                             \
    struct args_##name {                                                                                               \
        slots attrs                                                                                                    \
    };
#include "graph/ops.h"
#undef OP

union args_any {
    struct tensor slot[OP_MAX_SLOTS];
#define OP(name, slots, attrs, diff, text) struct args_##name name;
#include "graph/ops.h"
#undef OP
};

#undef IN
#undef OPT
#undef OUT
#undef MAYBE
#undef F32
#undef ACC
#undef INOUT
#undef UPD
#undef INT
#undef REAL
#undef FLAG
#undef ACT

/* The first of those that it writes. */
static inline double *sumsq_partials(const struct args_sumsq *a)
{
    return (double *)a->partials.data + a->at + a->g.first / SUMSQ_CHUNK;
}

enum slot_kind { SLOT_IN, SLOT_OPT, SLOT_OUT, SLOT_MAYBE, SLOT_F32, SLOT_ACC, SLOT_INOUT, SLOT_UPD };
enum attr_kind { ATTR_INT, ATTR_REAL, ATTR_FLAG, ATTR_ACT };

struct slot_info {
    const char *name;
    enum slot_kind kind;
};

/* What a slot knows besides; bits. Rows of zeros behind the last one may be behind any matrix or vector. */
enum slot_property {
    SLOT_PITCH = 1,  /* columns of a wider matrix, on every backend */
    SLOT_PADDED = 2, /* zeros at the end of each row, on backends whose products have sizes (pass_pad) */
    /* A weight comes in the type of the node's activations: a product's matrix. A weight whose slot has none of these
     * four comes in the wide type: a norm's. */
    SLOT_NODE_TYPE = 4,
    SLOT_EITHER_TYPE = 8,  /* or in either, where the backend says so: a product's bias */
    SLOT_STORED_TYPE = 16, /* or in whichever of the two it is stored: a table */
    SLOT_OVERWRITES = 64,  /* what is written may be there already: a buffer that is used again, a state */
    SLOT_ANY_TYPE = 32, /* likewise, and it is stored as its other readers want it: what an adapter's norm looks at */
};

/* The place of a slot by its name. */
#define OP_SLOT(op, slot) (int)(offsetof(struct op_##op, slot) / sizeof(int))

struct attr_info {
    const char *name;
    enum attr_kind kind;
};

struct op_info {
    const char *name, *text;
    const struct slot_info *slots;
    const struct attr_info *attrs;
    const uint8_t *properties; /* of slots: enum slot_property */
    int n_slots, n_attrs;
    size_t node_bytes;  /* of struct op_NAME */
    size_t attr_offset; /* of the first attribute in it; each has 8 bytes */
    /* Checks inputs and makes outputs; failure is sticky in the graph. */
    void (*shape)(struct graph *, void *node);
    /* Emits the backward nodes. NULL for ops that are never differentiated. */
    void (*grad)(struct grads *, const void *node);
    /* Of one run at these shapes. */
    double (*flops)(const void *args);
};

extern const struct op_info op_table[OP_COUNT]; /* row 0 is empty */
extern const char *const act_names[ACT_COUNT];

/* Whether an op is the update of a weight: those rows, and no others, start with what they update. */
static inline bool op_is_update(enum op op)
{
    return op_table[op].n_slots > 0 && op_table[op].slots[0].kind == SLOT_INOUT;
}

/* Whether ranks exchange something in it: all of them execute it, in the same order. What a rank pulls it takes by itself, where they
 * have one memory. */
static inline bool op_exchanges(enum op op)
{
    return op == OP_all_reduce || op == OP_broadcast;
}

/* Whether it is a matrix product of a linear layer, with or without what is joined to it. */
static inline bool op_is_product(enum op op)
{
    return op == OP_linear || op == OP_linear_dx || op == OP_linear_dw || op == OP_linear_dx_act || op == OP_linear_fp8;
}

static inline bool op_slot_is(enum op op, int slot, enum slot_property property)
{
    return op_table[op].properties[slot] & property;
}

static inline bool slot_reads(enum slot_kind k)
{
    return k == SLOT_IN || k == SLOT_OPT || k == SLOT_INOUT || k == SLOT_UPD;
}

static inline bool slot_writes(enum slot_kind k)
{
    return k != SLOT_IN && k != SLOT_OPT;
}

/* Written in op/NAME.c for every row: the shape rule, the gradient rule where there is one, the floating-point
 * operations, and the reference kernel, which is the definition: plain C, every float tensor F64. */
#define PROTOTYPE_DIFF(name) void grad_##name(struct grads *d, const struct op_##name *n);
#define PROTOTYPE_NONE(name)
#define OP(name, slots, attrs, diff, text)                                                                             \
    void shape_##name(struct graph *g, struct op_##name *n);                                                           \
    PROTOTYPE_##diff(name) double flops_##name(const struct args_##name *a);                                           \
    void ref_##name(const struct args_##name *a, const struct call *c);
#include "graph/ops.h"
#undef OP

#endif
