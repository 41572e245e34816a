/* nodes.h: the products of nodes. */
#ifndef CUDA_PRODUCTS_NODES_H
#define CUDA_PRODUCTS_NODES_H

#include "cuda/products/product.h"

struct cuda_call;
struct cuda_products;

/* The product of a node: `args` of an op that is one (op_is_product); data pointers may be NULL. That of linear_dx_act is
 * linear_dx's, that of linear_fp8 linear's. The bias of a linear layer is in its epilogue, in b's type, or in y's where cuBLASLt takes no other: the
 * caller rounds it then. */
struct cuda_product cuda_product_of(struct cuda_products *p, enum op op, const union args_any *args, bool tf32);

/* The product of the same node by a kernel of our own, if that takes it. It is used where the whole node was measured to be
 * faster so: with a slope and without, so that what is computed again has the same bits. (cuBLASLt's own epilogues are not used
 * but for the bias: its GELU is the tanh form, and only where u is kept; its sums of dy for a bias gradient add 39 us on an
 * H200 to 126, the kernel of ours 26: docs/performance.md.) */
bool cuda_product_own(enum op op, const union args_any *args, const struct cuda_product *product,
                      const struct cuda_call *c, struct cuda_product *own);

#endif
