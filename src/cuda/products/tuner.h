/* tuner.h: the device while products are timed: a stream of its own, and memory with the operands of one node at a time: copies
 * that together exceed the L2 cache, filled with random numbers (zeros would run faster). */
#ifndef CUDA_PRODUCTS_TUNER_H
#define CUDA_PRODUCTS_TUNER_H

#include "cuda/kernels.h"
#include "cuda/products/algorithms.h"
#include "cuda/products/tune.h"

#include <cuda_runtime_api.h>

struct tuner {
    struct cuda_products *p;
    bool tf32;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    char *pool; /* device memory of the product at hand, and the workspace at its end */
    void *pattern;
    enum dtype pattern_type;
    struct cuda_call device; /* what a call says of it */
    int64_t l2_bytes;
    bool no_memory; /* the device's ran out */
    struct snug_err *err;
};

/* Of a tuner with p, tf32 and err set. To be closed even where it fails. */
int tuner_open(struct tuner *t);
void tuner_close(struct tuner *t);

/* As cuda_check; notes that the device has no memory. */
int tuner_check(struct tuner *t, int code);

/* Operands of a node, one set behind the other in the pool. */
struct operands {
    struct cuda_product_node node;
    const struct tensor *tensors[OP_MAX_SLOTS]; /* those of the node that are present */
    int64_t at[OP_MAX_SLOTS], set_bytes;
    int n_tensors, n_sets, launches; /* launches: of the node, in one graph */
    void *workspace;
    int64_t workspace_bytes;
};

/* Places as many sets of a node's operands in the tuner's pool as a measurement wants, so that none is still in the cache when its
 * turn comes, filled with random numbers. They stay the pool's: operands_release. */
int operands_make(struct tuner *t, const struct cuda_product_node *node, struct operands *out);
void operands_release(struct tuner *t);
void operands_use(const struct tuner *t, struct operands *o, int i); /* points the node's tensors at the i-th set */
double operands_flops(const struct operands *o);                     /* of one launch */
struct cuda_call tuner_call(const struct tuner *t, const struct operands *o);

#endif
