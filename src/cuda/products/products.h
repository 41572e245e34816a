/* products.h: the matrix products of linear layers through cuBLASLt, each by one algorithm that is the same in every
 * run: one that a tuning step measured (tune.h; kept in the device's profile and in checkpoints), else the first
 * that cuBLASLt's own heuristic proposes. Only algorithms that add up in a fixed order are taken: no split of the sum,
 * or partial sums in F32 added in a step of their own.
 *
 * Used by one thread at a time. */
#ifndef CUDA_PRODUCTS_PRODUCTS_H
#define CUDA_PRODUCTS_PRODUCTS_H

#include "base/err.h"
#include "cuda/products/product.h"

struct CUstream_st;
struct cuda_products;

/* Opens cuBLASLt on the current device. scales_rows: whether it multiplies by scales of rows there (cuda/facts.h). SNUG_ERR_ENV: it is not
 * there. */
int cuda_products_open(struct cuda_products **out, bool scales_rows, struct snug_err *err);
/* For planning without a device, from a table of choices (algorithms_import): nothing can be run or measured. A layer
 * that is not in the table is reckoned with the most workspace that there may be, 32 MiB. */
int cuda_products_open_absent(int64_t cublaslt, bool scales_rows, struct cuda_products **out, struct snug_err *err);
/* Whether products of factors in F8_E4M3 are multiplied by the scales of their rows. Else they are plain sums of products of codes. */
bool cuda_products_scale_rows(const struct cuda_products *p);
void cuda_products_close(struct cuda_products *p);            /* NULL is fine */
int64_t cuda_products_version(const struct cuda_products *p); /* of cuBLASLt, such as 130100 */

/* Bytes of workspace, the same at every N of one layer and for all of its epilogues: what the measured algorithms of
 * this layer want, or what the heuristic's first wants at the N that is asked for first. To be asked before the product
 * is run: a plan asks for the largest N, and at smaller ones only algorithms within that are used. */
int64_t cuda_products_workspace(struct cuda_products *p, const struct cuda_product *product);
/* Asks for all that are known: where another has planned the run, whose algorithms were taken. */
void cuda_products_grant(struct cuda_products *p);

/* Whether cuBLASLt can do it in this form. */
bool cuda_products_supported(struct cuda_products *p, const struct cuda_product *product);

/* Whether a product of our own won where it was measured: at this N, or else at the nearest. */
bool cuda_products_chosen(const struct cuda_products *p, const struct cuda_product *own);

/* Enqueues it. Capturable. SNUG_ERR_ENV: cuBLASLt cannot do it, or fails. */
int cuda_products_run(struct cuda_products *p, const struct cuda_product *product, const struct product_data *data,
                      struct CUstream_st *stream, struct snug_err *err);

/* How many products run by an algorithm that was not measured at any N: a run says so. */
int cuda_products_unmeasured(const struct cuda_products *p);

#endif
