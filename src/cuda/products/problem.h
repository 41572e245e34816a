/* problem.h: a product as cuBLASLt sees it: its matrices, which algorithms do it, and doing it by one of them. Only algorithms
 * that add up in a fixed order are asked for: no split of the sum, or partial sums in F32 added in a step of their own. */
#ifndef CUDA_PRODUCTS_PROBLEM_H
#define CUDA_PRODUCTS_PROBLEM_H

#include "cuda/products/cublaslt.h"
#include "cuda/products/product.h"

enum { PRODUCT_WORKSPACE_CAP = 32 << 20 }; /* bytes: what cuBLASLt may ask for at most */

struct CUstream_st;

/* What cuBLASLt wants to be told of it. */
struct problem {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d; /* d is C as well */
};

/* Makes the descriptions of a product's matrices in *out, which problem_free gives back. SNUG_ERR_ENV: cuBLASLt refuses; nothing is
 * left to free then. */
int problem_make(const struct cublaslt *lt, const struct cuda_product *product, struct problem *out,
                 struct snug_err *err);
void problem_free(const struct cublaslt *lt, struct problem *problem);

/* Whether cuBLASLt takes the algorithm within `workspace` bytes, and how many it wants. */
bool problem_takes(const struct cublaslt *lt, const struct problem *problem, const cublasLtMatmulAlgo_t *algo,
                   int64_t workspace, int64_t *wants);

/* Up to `max` deterministic algorithms within `workspace` bytes, in the order of cuBLASLt's estimate; *n may be 0. */
int problem_candidates(const struct cublaslt *lt, const struct cuda_product *product, const struct problem *problem,
                       int64_t workspace, int max, cublasLtMatmulHeuristicResult_t *results, int *n,
                       struct snug_err *err);

/* Enqueues it. Capturable. */
int problem_run(const struct cublaslt *lt, const struct cuda_product *product, const struct problem *problem,
                const cublasLtMatmulAlgo_t *algo, int64_t workspace_bytes, const struct product_data *data,
                struct CUstream_st *stream, struct snug_err *err);

/* SNUG_OK, or SNUG_ERR_ENV with what cuBLASLt says of the product; where the device has failed, as cuda_check. */
int problem_status(const struct cublaslt *lt, const struct cuda_product *product, cublasStatus_t status,
                   struct snug_err *err);

#endif
