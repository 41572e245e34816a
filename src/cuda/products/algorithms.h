/* algorithms.h: struct cuda_products from the inside: the table of the algorithms that were chosen, and of the workspace that was
 * promised by them. For the files of this folder. */
#ifndef CUDA_PRODUCTS_ALGORITHMS_H
#define CUDA_PRODUCTS_ALGORITHMS_H

#include "cuda/products/problem.h"
#include "cuda/products/products.h"

/* What was chosen for a product. */
struct algorithm {
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
    struct cuda_product layer; /* compared by product_same_layer */
    int64_t bytes;
};

struct cuda_products {
    struct cublaslt lt; /* without a handle: there is no device, only the table */
    struct algorithm *algorithms;
    size_t n_algorithms, cap_algorithms;
    struct grant *grants;
    size_t n_grants, cap_grants;
};

/* ---- the table ---- */

/* NULL: none. Valid until the next one is put. */
struct algorithm *algorithm_find(const struct cuda_products *p, const struct cuda_product *product);

/* The measured one of the same form at the nearest N (by ratio; of two, the smaller). NULL: none. */
const struct algorithm *algorithm_nearest(const struct cuda_products *p, const struct cuda_product *product);

/* Replaces that of the same product, or adds it. On success its problem belongs to the table. */
int algorithm_put(struct cuda_products *p, const struct algorithm *a, struct snug_err *err);

/* Puts a recorded one, which hides all others of its layer. */
int algorithm_put_recorded(struct cuda_products *p, const struct algorithm *a, struct snug_err *err);

/* Whether the layer of `product` has recorded ones: it is not measured again. */
bool algorithm_is_recorded(const struct cuda_products *p, const struct cuda_product *product);

/* The most bytes that one of the layer of `product` wants; -1: there is none. */
int64_t algorithms_workspace(const struct cuda_products *p, const struct cuda_product *product);

int algorithms_unmeasured(const struct cuda_products *p); /* how many of one matrix were not measured at any N */

void algorithms_forget(struct cuda_products *p); /* all, and what was promised by them */
void algorithms_close(struct cuda_products *p);

/* ---- grants ---- */

/* Bytes that the layer of `product` was promised. -1: nobody has asked, it is none of the run's. */
int64_t algorithms_granted(const struct cuda_products *p, const struct cuda_product *product);

/* Without memory for this note nothing is promised. */
void algorithms_grant(struct cuda_products *p, const struct cuda_product *product, int64_t bytes);

/* To be called when what was promised knew nothing of what has been put since. */
void algorithms_forget_grants(struct cuda_products *p);

#endif
