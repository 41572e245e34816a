/* head.h: the matrix products of linear_cross_entropy, which are those of linear layers of a chunk of its rows. */
#ifndef CUDA_PRODUCTS_HEAD_H
#define CUDA_PRODUCTS_HEAD_H

#include "cuda/products/tune.h"
#include "op/linear_cross_entropy.h"

/* A chunk of that many rows, without data. The logits are padded as the weight is. */
struct head_chunk cuda_head_chunk(const struct args_linear_cross_entropy *a, int64_t rows);

/* The products of a node as nodes of their own, for tuning: itself, or those of the largest chunk of linear_cross_entropy. Gives
 * their number, 0 where it has none. */
enum { HEAD_PRODUCTS = 3 };
int cuda_head_products(enum op op, const union args_any *args, struct cuda_product_node out[HEAD_PRODUCTS]);

#endif
