/* graph.h: the program of a step. Arrays of values and nodes that refer to each other by id (0 is none); the order of
 * the nodes is the order of execution; no control flow. Building never fails half-way: the first failure is remembered,
 * later calls do nothing, and graph_ok tells at the end. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/err.h"
#include "base/mem.h"
#include "graph/dim.h"
#include "graph/op.h"
#include "ranks/shard.h"

/* ORDER role */
enum role {
    ROLE_ACTIVATION,
    ROLE_INPUT,
    ROLE_WEIGHT,
    ROLE_STATE,
    ROLE_GRADIENT,
    ROLE_COPY, /* of a weight, in 16 bits; or what its codes are multiplied with */
    ROLE_SCALAR,
    ROLE_WORKSPACE,
    ROLE_COUNT
};

/* What a value is of a weight: its gradient, its copy in 16 bits, the scales of its codes, or one of the optimizer's states. Its name is the word for
 * this, a dot, and the weight's name. ORDER kin */
enum kin {
    KIN_NONE,
    KIN_GRADIENT,
    KIN_COPY,
    KIN_ABSMAX,              /* of a weight in codes of 4 bits: the largest magnitude of each block */
    KIN_NESTED_ABSMAX,       /* where those are codes themselves: op/codes/quantize.h */
    KIN_SCALE,               /* of a weight in codes of 8 bits: the scale of each row */
    KIN_EXP_AVG,             /* first moment */
    KIN_EXP_AVG_SQ,          /* second moment */
    KIN_EXP_AVG_SQ_ROW,      /* means of the second moment over the last dimension */
    KIN_EXP_AVG_SQ_COL,      /* and over the last but one */
    KIN_EXP_AVG_ABSMAX,      /* of a first moment in 8 bits: the largest of each block */
    KIN_EXP_AVG_SQ_ABSMAX,   /* of a second moment in 8 bits: likewise */
    KIN_MOMENTUM_BUFFER,     /* of SGD and RMSprop */
    KIN_EXP_AVG_SLOW,        /* AdEMAMix's second first moment, of more steps */
    KIN_EXP_AVG_SLOW_ABSMAX, /* of that in 8 bits: the largest of each block */
    KIN_GRAD_AVG,            /* mean of gradients, which centers a second moment */
    KIN_SUM,                 /* of squares of all gradients */
    KIN_AHEAD,               /* schedule-free: how far what steps is ahead of the weight, which is its average */
    KIN_PART,                /* of a gradient: what one rank has of a micro-batch, until ranks add it up */
    KIN_COUNT
};
extern const char *const kin_names[KIN_COUNT];
/* Whether it is what a weight's codes are multiplied with, without which they are no weight. */
static inline bool kin_is_of_codes(enum kin kin)
{
    return kin == KIN_ABSMAX || kin == KIN_NESTED_ABSMAX || kin == KIN_SCALE;
}

/* Where a value lies: where the backend computes, in memory of the host that its kernels reach, or in a file that is mapped into the
 * host's memory, which a device does not reach. Each has an arena. */
enum memory { MEMORY_DEVICE, MEMORY_HOST, MEMORY_DISK, MEMORY_COUNT };

/* What a node keeps busy. Nodes of one lane run one after another. Those of different lanes run side by side where the backend can do
 * that: graph/lanes.h says what waits for what. ORDER lane */
enum lane {
    LANE_COMPUTE,
    LANE_IN,   /* copies from the host's memory, and from other ranks */
    LANE_OUT,  /* and to it */
    LANE_SUMS, /* over ranks */
    LANE_COUNT
};

/* How a weight starts when it is not read from a file, and a state other than as 0. ORDER init */
enum init_kind {
    INIT_NONE,
    INIT_ZERO,
    INIT_ONE,
    INIT_NORMAL,
    INIT_UNIFORM,
    INIT_FIRST,
    INIT_LENGTHS,
    INIT_SINES, /* of a table of positions p, in its first half sin(p w), in its second cos(p w), w = 10000^(-std j) for column j of each */
    INIT_SLOPES, /* of attention's heads, times std (op/attention/attention_general.c) */
    INIT_COUNT
};
struct init {
    enum init_kind kind;
    bool head; /* may be absent from a checkpoint: the part that a task adds */
    double
        std; /* of INIT_NORMAL; of INIT_UNIFORM the largest; of INIT_FIRST the first element, the others being 0; of INIT_LENGTHS, which
                 * are those of the vectors that the matrix beside it (MODULE.weight) has for each output, 1 where it is (I,O) */
    int64_t zero_row; /* of an embedding: the padding row, which starts as 0; -1 for none */
    bool rounded;     /* of INIT_SINES: the power, w and p w are F32 */
    bool constant;    /* of INIT_ONE: it stays so */
};

/* Whether it says all there is to know: a file's tensor for such a weight is not looked at. */
static inline bool init_is_whole(const struct init *i)
{
    return i->kind == INIT_SINES || i->kind == INIT_SLOPES || i->constant;
}

struct value {
    const char *name; /* weights: as in safetensors; inputs, states and gradients have one too; else NULL */
    struct dim shape[MAX_DIMS];
    enum dtype dtype;
    enum role role;
    int ndim;
    int layer; /* 0 embeddings, 1…L layers, L+1 head; for reports and recomputation */
    /* Not 0: a slice of that value, whose id is smaller. It begins at element `at`, and has the elements that follow or,
     * where there is a pitch, columns. */
    int base;
    int64_t at;
    enum kin kin; /* what it is of the weight `of` */
    int of;
    /* Of a matrix: elements from a row to the next, where that is not its columns; else 0. Between them lie the other
     * columns of the base or, in a whole value, zeros (pass_pad). */
    int64_t pitch;
    int64_t pad_rows;   /* of zeros behind the last (pass_pad) */
    bool exact;         /* a statistic that stays F32 (F64 on the reference) under every precision policy */
    bool live_in;       /* holds something before the first node: inputs, weights, states, gradients that accumulate */
    bool live_out;      /* wanted after the last node */
    bool persists;      /* keeps its place between programs of a run */
    enum memory memory; /* a slice lies where its base does; passes say what is elsewhere: place, offload and stage */
    int rank; /* only what persists may be of one rank alone, as what `rank` of a node says; a slice is of its base's */
    /* Not 0: of its elements each of so many ranks has a shard alone, of whole chunks of so many elements (ranks/shard.h). The shape is
     * that of all of them. `view`: a slice of what all ranks have whole, of which each rank's nodes see its shard. */
    int shards;
    int64_t chunk;
    bool view;
    bool group;       /* a weight made of named slices, and no tensor of the file itself */
    struct init init; /* weights and states */
    bool table;       /* a weight whose rows embed looks up */
    bool frozen;      /* a weight that is not trained */
    bool row;         /* a weight that files have as the one row of a matrix */
    bool norm;        /* a weight of a norm, which weight decay leaves out */
    bool written;     /* some node so far writes it (while building) */
};

struct node {
    enum op op;
    int layer;
    bool backward; /* emitted by the gradient pass */
    unsigned add;  /* bit i: ACC slot i is added into */
    int workspace; /* value, 0 if none */
    bool joins;    /* runs at the same time as the node before it */
    int rank;      /* of several ranks only this one executes it, counted from 1; 0: all do */
    enum lane lane;
    int waits; /* of LANE_COMPUTE: begins when another lane has written this value, which it does not use; 0: none */
    int after[LANE_COUNT]; /* of each other lane, the latest node that it waits for; 0: none (lanes_find) */
    union op_any u;
};

struct graph {
    struct arena arena;   /* owns names */
    struct value *values; /* [0] unused */
    int n_values;
    size_t cap_values;
    struct node *nodes; /* [0] unused */
    int n_nodes;
    size_t cap_nodes;
    int *by_name; /* hash table of the ids of named values, 0 where free; graph_find */
    size_t cap_names;
    int n_names;
    int layer;     /* given to what is made next */
    bool backward; /* likewise */
    int rank;      /* likewise, to nodes and states */
    struct snug_err err;
};

int graph_init(struct graph *g, struct snug_err *err);
void graph_free(struct graph *g);
int graph_ok(const struct graph *g, struct snug_err *err); /* SNUG_OK, or the first failure of building */
void graph_fail(struct graph *g, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

static inline struct value *graph_value(const struct graph *g, int id)
{
    return &g->values[id];
}

/* A new value; `name` may be NULL. Floats are made F32 here, and given their dtype by the precision pass. */
int graph_add_value(struct graph *g, const char *name, enum role role, enum dtype dtype, int ndim,
                    const struct dim *shape);
/* Elements [at, at + size of shape) of `base`. */
int graph_add_slice(struct graph *g, const char *name, int base, int64_t at, int ndim, const struct dim *shape);
/* Columns [from, from + n) of the matrix `base`, an activation: with its pitch. */
int graph_add_columns(struct graph *g, int base, int64_t from, int64_t n);
/* What is used instead of `id`, where `instead` has another value for its root: that one, or the same columns or slice of it, which are
 * made once; else `id`. By value, as many as there were. */
int graph_instead(struct graph *g, int id, int *instead);
/* Makes `id`, a matrix that a node has just made, columns of `base`, which is older: the node writes into it. */
void graph_place_columns(struct graph *g, int id, int base, int64_t from);
/* A value that is `kin` of `weight`: named after both, in the weight's layer. */
int graph_add_kin(struct graph *g, enum kin kin, int weight, enum dtype dtype, int ndim, const struct dim *shape);
/* A slice of `base` that is `kin` of `weight`, a slice with the same place in its own base. */
int graph_add_kin_slice(struct graph *g, enum kin kin, int weight, int base);
/* Likewise where `base` has an element for each row of the weight's base: those of the weight's rows. */
int graph_add_kin_of_rows(struct graph *g, enum kin kin, int weight, int base);
/* By weight: the value that is `kin` of it, 0 for none. mem_free'd by the caller; NULL: no memory, and the graph has failed. */
int *graph_kin(struct graph *g, enum kin kin);
int graph_last_layer(const struct graph *g);             /* of its nodes: that of the head; 0 without any */
int graph_find(const struct graph *g, const char *name); /* the value of that name, 0 if none or for NULL */
/* Names a value that has no name yet; `name` is copied. Names are not changed otherwise: graph_find goes by an index. */
void graph_set_name(struct graph *g, int id, const char *name);
/* A name in the graph's arena, printf-like. Never NULL: without memory it is "", and the graph has failed. */
const char *graph_name(struct graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a node: `n` is a struct op_NAME with its inputs and attributes; the shape rule fills in the outputs.
 * emit_NAME does the same with types: struct op_linear l = {.x = x, .w = w}; emit_linear(g, &l); … l.y */
void graph_emit(struct graph *g, enum op op, void *n);
#define OP(name, slots, attrs, diff, text)                                                                             \
    static inline void emit_##name(struct graph *g, struct op_##name *n)                                               \
    {                                                                                                                  \
        graph_emit(g, OP_##name, n);                                                                                   \
    }
#include "graph/ops.h"
#undef OP

/* For passes: replaces the node list by `n` nodes (complete, outputs and all), which are copied. */
void graph_set_nodes(struct graph *g, const struct node *nodes, int n);

/* Reading nodes generically. */
static inline const struct op_info *node_op(const struct node *n)
{
    return &op_table[n->op];
}
static inline bool node_reads(const struct node *n, int slot)
{
    return slot_reads(node_op(n)->slots[slot].kind) || (n->add >> slot & 1);
}
static inline bool node_writes(const struct node *n, int slot)
{
    return slot_writes(node_op(n)->slots[slot].kind);
}
/* Whether a rank executes it. The first one, which has the largest weight, stands for all where times are reckoned. */
static inline bool node_is_of(const struct node *n, int rank)
{
    return !n->rank || n->rank == rank;
}
/* Whether it matters which of two nodes comes first: one writes what the other reads or writes. */
bool node_conflicts(const struct graph *g, const struct node *a, const struct node *b);
static inline void *node_attr(const struct node *n, int attr)
{
    return (char *)&n->u + node_op(n)->attr_offset + 8 * (size_t)attr;
}

/* Size of a value in elements, all shards of it, and of what a rank has of it in bytes with its padding. */
int64_t value_elements(const struct value *v, struct dims n);
int64_t value_bytes(const struct value *v, struct dims n);

/* Whether it, a weight, is kept in codes: of 4 bits (op/codes/quantize.h), or of 8 with a scale for each row (op/codes/fp8.h). */
static inline bool value_is_coded(const struct value *v)
{
    return v->dtype == DT_F4 || v->dtype == DT_F8_E4M3;
}
/* Rows of a weight of several dimensions: all but the last one count them. */
static inline int64_t value_rows(const struct value *v)
{
    return value_elements(v, (struct dims){0}) / v->shape[v->ndim - 1].c;
}

/* The shard of rank `me`, counted from 0; below 0: of that with most elements. */
struct shard value_shard(const struct value *v, int me);
/* The shard of `base`, which all ranks have whole, that each works with. */
int graph_add_view(struct graph *g, int base, int shards, int64_t chunk);

/* The value whose memory `id` lies in: itself, or the one it is a slice of, or a slice of a slice. */
static inline int value_root(const struct graph *g, int id)
{
    while (g->values[id].base)
        id = g->values[id].base;
    return id;
}
/* Whether it is columns of a wider matrix. */
static inline bool value_is_columns(const struct value *v)
{
    return v->base && v->pitch;
}
/* Its first element there. */
static inline int64_t value_at(const struct graph *g, int id)
{
    int64_t at = 0;
    for (; g->values[id].base; id = g->values[id].base)
        at += g->values[id].at;
    return at;
}

/* For shape rules: an output of given shape in the common float type; checks of inputs that fail the graph. */
int shape_out(struct graph *g, int ndim, const struct dim *shape);
int shape_stat(struct graph *g, int ndim, const struct dim *shape);
#define SHAPE(...)                                                                                                     \
    (int)(sizeof((struct dim[]){__VA_ARGS__}) / sizeof(struct dim)), (const struct dim[])                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
bool shape_require(struct graph *g, bool holds, const char *op, const char *what); /* returns `holds` */
bool shape_same(struct graph *g, int a, int b, const char *op);

/* For gradient rules. grad_of: the gradient value of `id`, 0 where nothing flows back through it. grad_target: the
 * value to write (or add) the gradient of `id` into, 0 where it is not wanted. */
struct grads {
    struct graph *g;
    int *of; /* by value id */
    bool *wanted;
    int n; /* values that exist in the forward pass */
};
int grad_cu(const struct grads *d, int rows); /* the cu_seqlens of a value's rows: of tokens, or of source tokens */
int grad_of(struct grads *d, int id);
int grad_target(struct grads *d, int id);
void grad_set(struct grads *d, int id, int gradient); /* for a value that only this node reads */

/* text.c: one line a value or node; reads back what it prints. */
int graph_print(const struct graph *g, struct arena *a, char **text, struct snug_err *err);
int graph_parse(struct graph *g, const char *text, struct snug_err *err);

/* check.c: every id in range, slots filled as declared, written before read, shapes as the op's rule has them, one
 * dtype for the activations of a node, slices inside their bases. A failure is a bug of the pass named. */
int graph_check(const struct graph *g, const char *pass, struct snug_err *err);

#endif
