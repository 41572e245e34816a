/* tune.h: choosing algorithms by time: apart from training, before anything asks for workspaces. */
#ifndef CUDA_PRODUCTS_TUNE_H
#define CUDA_PRODUCTS_TUNE_H

#include "base/err.h"
#include "cuda/products/product.h"

struct cuda_products;

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

#endif
