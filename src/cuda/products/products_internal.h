/* products_internal.h: what products.c and tune.c share. */
#ifndef CUDA_PRODUCTS_PRODUCTS_INTERNAL_H
#define CUDA_PRODUCTS_PRODUCTS_INTERNAL_H

#include "cuda/products/cublaslt.h"
#include "cuda/products/products.h"

/* A product as cuBLASLt sees it. */
struct problem {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d; /* d is C as well */
};

struct choice {
    struct cuda_product product;
    bool supported; /* false: there is no algorithm, or another form of the node is faster */
    bool recorded;  /* taken from a checkpoint */
    bool hidden;    /* recorded ones of the same layer stand in its place */
    cublasLtMatmulAlgo_t algo;
    int64_t workspace;
    double us;  /* measured; 0: not */
    bool ready; /* `problem` is made, and cuBLASLt takes the algorithm for it */
    struct problem problem;
};

/* The workspace that the products of one layer were promised. */
struct grant {
    struct cuda_product layer; /* compared by op, I, O, in, out, in_out */
    int64_t bytes;
};

struct cuda_products {
    struct cublaslt lt;
    cublasLtHandle_t handle; /* NULL: there is no device, only the table */
    int64_t version;
    struct choice *choices;
    size_t n_choices, cap_choices;
    struct grant *grants;
    size_t n_grants, cap_grants;
};

enum { PRODUCT_WORKSPACE_CAP = 32 << 20 }; /* bytes: what cuBLASLt may ask for at most */

bool product_equal(const struct cuda_product *a, const struct cuda_product *b);
int product_status(struct cuda_products *p, const struct cuda_product *product, cublasStatus_t status,
                   struct snug_err *err);
int problem_make(struct cuda_products *p, const struct cuda_product *product, struct problem *out,
                 struct snug_err *err);
void problem_free(struct cuda_products *p, struct problem *problem);
/* Whether cuBLASLt takes the algorithm within `workspace` bytes, and how many it wants. */
bool problem_takes(struct cuda_products *p, const struct problem *problem, const cublasLtMatmulAlgo_t *algo,
                   int64_t workspace, int64_t *wants);
/* Up to `max` deterministic algorithms within `workspace` bytes, in the order of cuBLASLt's estimate; *n may be 0. */
int problem_candidates(struct cuda_products *p, const struct cuda_product *product, const struct problem *problem,
                       int64_t workspace, int max, cublasLtMatmulHeuristicResult_t *results, int *n,
                       struct snug_err *err);
int problem_run(struct cuda_products *p, const struct cuda_product *product, const struct problem *problem,
                const cublasLtMatmulAlgo_t *algo, int64_t workspace_bytes, const struct product_data *data,
                struct CUstream_st *stream, struct snug_err *err);
/* Replaces the choice for `product`, or adds it. */
int choice_put(struct cuda_products *p, const struct choice *c, struct snug_err *err);
/* Whether a run asked for workspace for the layer of `product`: it is one of the run's. */
bool choice_is_runs(const struct cuda_products *p, const struct cuda_product *product);
/* Puts a recorded choice in the place of all others of the layer. */
int choice_put_recorded(struct cuda_products *p, const struct choice *c, struct snug_err *err);
bool layer_is_recorded(const struct cuda_products *p, const struct cuda_product *product);
void choices_forget(struct cuda_products *p); /* all, and what was promised by them */
struct choice *choice_find(struct cuda_products *p, const struct cuda_product *product); /* NULL: none */

#endif
