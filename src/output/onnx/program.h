/* program.h: the program of an ONNX file in the making: nodes and the tensors that they read, by name, as ONNX has them. Building is
 * sticky: the first failure is remembered, later calls do nothing, onnx_ok tells. Names live in the program's arena and are never
 * NULL. */
#ifndef OUTPUT_ONNX_PROGRAM_H
#define OUTPUT_ONNX_PROGRAM_H

#include "model/model.h"

/* Opset 17 is the first with LayerNormalization, and runs wherever ONNX Runtime 1.12 or newer does. */
enum { ONNX_OPSET = 17, ONNX_IR = 8, ONNX_INPUTS = 5, ONNX_OUTPUTS = 3, ONNX_PARTS = 3 };
enum onnx_type { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_BOOL = 9 }; /* TensorProto.DataType */

enum onnx_attr_kind {
    ONNX_NO_ATTR,
    ONNX_ATTR_FLOAT = 1,
    ONNX_ATTR_INT = 2,
    ONNX_ATTR_INTS = 7
}; /* AttributeProto.AttributeType */
struct onnx_attr {
    const char *name;
    enum onnx_attr_kind kind;
    int64_t x[MAX_DIMS];
    int n; /* of x, of ONNX_ATTR_INTS */
    double real;
};
#define ONNX_AXIS(k) ((struct onnx_attr){.name = "axis", .kind = ONNX_ATTR_INT, .x = {k}})

struct onnx_node {
    const char *op, *name;
    const char *in[ONNX_INPUTS], *out[ONNX_OUTPUTS]; /* up to NULL */
    struct onnx_attr attr;
};

/* A tensor that the file holds: a constant, with its numbers, or a weight of the model, which is read when it is written. */
struct onnx_tensor {
    const char *name;
    enum onnx_type type;
    int ndim;
    int64_t shape[MAX_DIMS];
    const void *data; /* NULL: the weight */
    int weight;       /* its value in the graph */
    bool turned;      /* (O,I) of the model lies here as (I,O) */
    int64_t bytes;
    int64_t at; /* in the file beside, or -1: in this one (onnx_layout) */
};

/* An input or output of the whole: sizes above 0, or those of onnx_size_names. */
enum { ONNX_BATCH = 0, ONNX_LENGTH = -1 };
extern const char *const onnx_size_names[2]; /* by minus the size */
struct onnx_end {
    const char *name;
    enum onnx_type type;
    int ndim;
    int64_t shape[MAX_DIMS];
};

/* What a value of the graph has become. */
struct onnx_value {
    const char *name; /* NULL: nothing yet */
    const char
        *part[ONNX_PARTS]; /* its columns in so many tensors, such as queries, keys and values; NULL: it is in one */
};

struct onnx {
    const struct graph *g;
    const struct model_config *c;
    struct arena arena;
    struct onnx_node *nodes;
    size_t n_nodes, cap_nodes;
    struct onnx_tensor *tensors;
    size_t n_tensors, cap_tensors;
    struct onnx_end inputs[3], outputs[2];
    int n_inputs, n_outputs;
    struct onnx_value *of;  /* by value id */
    bool *turns;            /* by value id: a weight that nothing but products of its rows read */
    struct onnx_made *made; /* of onnx_made */
    size_t n_made, cap_made;
    const char *place; /* what names of nodes begin with */
    struct snug_err err;
};

/* Values of every value id have room; `c` and `g` must stay. */
int onnx_init(struct onnx *x, const struct graph *g, const struct model_config *c, struct snug_err *err);
void onnx_free(struct onnx *x);
int onnx_ok(const struct onnx *x, struct snug_err *err);
void onnx_fail(struct onnx *x, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

const char *onnx_name(struct onnx *x, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a node and gives its output's name. `in`: up to NULL. */
#define ONNX_IN(...)                                                                                                   \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }
const char *onnx_node(struct onnx *x, const char *op, const char *const *in);
const char *onnx_node_with(struct onnx *x, const char *op, const char *const *in, struct onnx_attr attr);
/* Transpose; order: (n) which dimension of `in` each is. */
const char *onnx_transpose(struct onnx *x, const char *in, int n, const int64_t *order);
/* Split into n pieces along an axis. */
void onnx_split(struct onnx *x, const char *in, int64_t axis, int n, const int64_t *sizes, const char **out);
/* Drops nodes that nothing reads, and weights and constants. */
void onnx_prune(struct onnx *x);
/* Gives what is called `from` another name. */
void onnx_rename(struct onnx *x, const char *from, const char *to);

/* Constants; the same one is there once. onnx_list: one that is long, under a name of its own. */
const char *onnx_int(struct onnx *x, int64_t number);
const char *onnx_real(struct onnx *x, double number);
const char *onnx_ints(struct onnx *x, int n, const int64_t *numbers);
#define ONNX_INTS(x, ...)                                                                                              \
    onnx_ints(x, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
const char *onnx_list(struct onnx *x, const char *name, enum onnx_type type, int64_t n, const void *numbers);

/* A weight of the model's file: turned where `turns` says so. */
const char *onnx_weight(struct onnx *x, int id);

/* What several nodes share and is made once: NULL, and then onnx_keep. */
const char *onnx_made(const struct onnx *x, const char *what);
const char *onnx_keep(struct onnx *x, const char *what, const char *name);

#endif
