/* product.h: a matrix product of a linear layer, as what an algorithm is chosen for. */
#ifndef CUDA_PRODUCTS_PRODUCT_H
#define CUDA_PRODUCTS_PRODUCT_H

#include "graph/op.h"

struct cuda_product {
    enum op op;      /* OP_linear: (N,O) = x W^T; OP_linear_dx: (N,I) = dy W; OP_linear_dw: (O,I) = dy^T x */
    int64_t N, I, O; /* rows, inputs, outputs of the layer; none is 0 */
    enum dtype in;   /* of both factors: F32, BF16, F16 or, of linear, F8_E4M3; sums are F32 */
    enum dtype out;  /* of the result */
    enum dtype bias; /* of the bias; DT_U8 where there is none */
    bool in_out;     /* W, or its gradient, is (I,O) */
    bool add;        /* the result is added to */
    bool tf32;       /* factors in F32 may be rounded to tf32 */
    bool own;        /* of linear and linear_dx: by the kernel of linear_sm90.cu, which does the rest of the node too */
    enum act act;    /* of those: the activation of a linear layer */
    int align;       /* all pointers are multiples of it: 16, or less down to an element */
    /* Elements from a row to the next of what struct product_data calls so; 0: as many as a row has. */
    int64_t rows_pitch, factor_pitch, result_pitch;
    int64_t
        heads; /* 0: one product; else one for each of so many heads, whose matrices begin as many elements apart: */
    int64_t rows_step, factor_step, result_step;
};

/* What it is run on. */
struct product_data {
    const void *rows;   /* x, or dy */
    const void *factor; /* W; of linear_dw: x */
    void *result;       /* y, dx or dw */
    const void *addend; /* what the product is added to, laid out as the result; NULL: what lies there */
    const void *bias;   /* b; a multiple of 16 */
    const float *rows_scale, *factor_scale; /* of factors in F8_E4M3: of each of their rows */
    void *workspace;                        /* cuda_products_workspace bytes; a multiple of 256 */
};

/* "linear 16384x1024x4096 BF16>BF16 b BF16 gelu_tanh": for messages and reports. */
void cuda_product_name(const struct cuda_product *p, char name[128]);

/* All products of one layer have the same workspace: of its other numbers of rows, and with other epilogues. */
bool product_same_layer(const struct cuda_product *a, const struct cuda_product *b);
/* But for the number of rows. */
bool product_same_form(const struct cuda_product *a, const struct cuda_product *b);
bool product_equal(const struct cuda_product *a, const struct cuda_product *b);

#endif
