/* products.h: the matrix products of linear layers through cuBLASLt, each by one algorithm that is the same in every
 * run: one that a tuning step measured (cuda/products/tune.c; kept in the device's profile and in checkpoints), else the first
 * that cuBLASLt's own heuristic proposes. Only algorithms that add up in a fixed order are taken: no split of the sum,
 * or partial sums in F32 added in a step of their own.
 *
 * Used by one thread at a time. */
#ifndef CUDA_PRODUCTS_PRODUCTS_H
#define CUDA_PRODUCTS_PRODUCTS_H

#include "base/err.h"
#include "base/hash.h"
#include "graph/op.h"

#include <jansson.h>

struct CUstream_st;
struct cuda_call;
struct cuda_products;

/* A product: what an algorithm is chosen for. */
struct cuda_product {
    enum op op;      /* OP_linear: (N,O) = x W^T; OP_linear_dx: (N,I) = dy W; OP_linear_dw: (O,I) = dy^T x */
    int64_t N, I, O; /* rows, inputs, outputs of the layer; none is 0 */
    enum dtype in;   /* of both factors: F32, BF16 or F16; sums are F32 */
    enum dtype out;  /* of the result */
    enum dtype bias; /* of the bias; DT_U8 where there is none */
    bool in_out;     /* W, or its gradient, is (I,O) */
    bool add;        /* the result is added to */
    bool tf32;       /* factors in F32 may be rounded to tf32 */
    bool own;        /* of linear and linear_dx: by the kernel of linear_sm90.cu, which does the rest of the node too */
    enum act act;    /* of those: the activation of a linear layer */
    int align;       /* all pointers are multiples of it: 16, or less down to an element */
};

/* The product of a node: `args` of an op that is one (op_is_product); data pointers may be NULL. That of linear_dx_act is
 * linear_dx's. The bias of a linear layer is in its epilogue, in b's type, or in y's where cuBLASLt takes no other: the
 * caller rounds it then. */
struct cuda_product cuda_product_of(struct cuda_products *p, enum op op, const union args_any *args, bool tf32);

/* "linear 16384x1024x4096 BF16>BF16 b BF16 gelu_tanh": for messages and reports. */
void cuda_product_name(const struct cuda_product *p, char name[128]);

/* The product of the same node by a kernel of our own, if that takes it. It is used where the whole node was measured to be
 * faster so: with a slope and without, so that what is computed again has the same bits. (cuBLASLt's own epilogues are not used
 * but for the bias: its GELU is the tanh form, and only where u is kept; its sums of dy for a bias gradient add 39 us on an
 * H200 to 126, the kernel of ours 26: docs/performance.md.) */
bool cuda_product_own(enum op op, const union args_any *args, const struct cuda_product *product,
                      const struct cuda_call *c, struct cuda_product *own);

struct product_data {
    const void *rows;   /* x, or dy */
    const void *factor; /* W; of linear_dw: x */
    void *result;       /* y, dx or dw */
    const void *bias;   /* b; a multiple of 16 */
    void *workspace;    /* cuda_products_workspace bytes; a multiple of 256 */
};

/* Opens cuBLASLt on the current device. SNUG_ERR_ENV: it is not there. */
int cuda_products_open(struct cuda_products **out, struct snug_err *err);
/* For planning without a device, from a table of choices (cuda_products_import): nothing can be run or measured. A layer
 * that is not in the table is reckoned with the most workspace that there may be, 32 MiB. */
int cuda_products_open_absent(int64_t cublaslt, struct cuda_products **out, struct snug_err *err);
void cuda_products_close(struct cuda_products *p);            /* NULL is fine */
int64_t cuda_products_version(const struct cuda_products *p); /* of cuBLASLt, such as 130100 */

/* Bytes of workspace, the same at every N of one layer and for all of its epilogues: what the measured algorithms of
 * this layer want, or what the heuristic's first wants at the N that is asked for first. To be asked before the product
 * is run: a plan asks for the largest N, and at smaller ones only algorithms within that are used. */
int64_t cuda_products_workspace(struct cuda_products *p, const struct cuda_product *product);

/* Whether cuBLASLt can do it in this form. */
bool cuda_products_supported(struct cuda_products *p, const struct cuda_product *product);

/* Whether a product of our own won where it was measured: at this N, or else at the nearest. */
bool cuda_products_chosen(const struct cuda_products *p, const struct cuda_product *own);

/* Enqueues it. Capturable. SNUG_ERR_ENV: cuBLASLt cannot do it, or fails. */
int cuda_products_run(struct cuda_products *p, const struct cuda_product *product, const struct product_data *data,
                      struct CUstream_st *stream, struct snug_err *err);

/* ---- measuring: apart from training, before anything asks for workspaces ---- */

struct cuda_product_node {
    enum op op; /* without a product: passed over */
    union args_any args;
};

/* What measuring tells. */
struct cuda_tuning {
    /* Called for each product; us[0] by the heuristic's first choice that runs, us[1] by the best; of a product of
     * our own the whole node without and with it; may be NULL. */
    void (*tell)(void *ctx, const struct cuda_product *product, int candidates, const double us[2]);
    void (*begins)(void *ctx); /* called before the first one is measured; may be NULL */
    void *ctx;
};

/* Times the algorithms of the products of `nodes` that were not measured before, with random data in memory beyond the
 * L2 cache, out of CUDA graphs, and keeps the best of each. Takes device memory for that, and gives it back. */
int cuda_products_tune(struct cuda_products *p, const struct cuda_product_node *nodes, int n, bool tf32,
                       const struct cuda_tuning *tuning, struct snug_err *err);

/* Microseconds of a whole node by its launcher, with the choices as they are, in the same way. Apart from training. */
int cuda_products_time_node(struct cuda_products *p, const struct cuda_product_node *node, bool tf32, double *us,
                            struct snug_err *err);

/* ---- what was chosen ---- */

/* How many products run by an algorithm that was not measured at any N: a run says so. */
int cuda_products_unmeasured(const struct cuda_products *p);

/* The table of choices as a JSON array; a new reference. Of one device and version of cuBLASLt only. */
enum cuda_choices {
    CUDA_CHOICES_ALL,
    CUDA_CHOICES_MEASURED, /* for profiles: not those that a checkpoint recorded */
    CUDA_CHOICES_OF_RUN,   /* for checkpoints: those that workspace was asked for, at any number of rows */
};
int cuda_products_export(const struct cuda_products *p, enum cuda_choices which, json_t **out, struct snug_err *err);

/* And back: replaces the table. `where` is the file, for messages. */
int cuda_products_import(struct cuda_products *p, json_t *choices, const char *where, struct snug_err *err);

/* Adds to such an array what is news, which stands in the place of the same product's. */
int cuda_products_merge(json_t *choices, json_t *news, struct snug_err *err);

/* Adds what a checkpoint recorded: it stands in the place of what the table has of the same layers, which are not
 * measured again. *refused: how many of them cuBLASLt does not take; these are left out, and `name` is one of them. */
int cuda_products_add_recorded(struct cuda_products *p, json_t *choices, const char *where, int *refused,
                               char name[128], struct snug_err *err);

/* Of the measured choices of the run: equal where the same algorithms are used. */
struct hash128 cuda_products_hash(const struct cuda_products *p);

#endif
