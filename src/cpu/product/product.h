/* product.h: C = act(A B + bias + addend), the matrix product behind linear layers. */
#ifndef CPU_PRODUCT_PRODUCT_H
#define CPU_PRODUCT_PRODUCT_H

#include "cpu/simd/simd.h"
#include "graph/op.h"

struct product {
    int64_t M, N, K;
    const void *a, *b;
    bool a_by_k, b_by_k; /* how they lie: A as (M,K) if a_by_k, else (K,M); B as (N,K) if b_by_k, else (K,N) */
    enum dtype in;       /* of A and B: F32 or BF16; summed in F32 */

    /* Elements from a row of it, as it lies, to the next. 0: as many as a row has. */
    int64_t a_pitch, b_pitch, c_pitch, addend_pitch;

    void *c, *slope; /* (M,N); slope, where wanted, gets act' of what act is applied to: dense */
    enum dtype out;
    bool add; /* C is added to; then act must be none */
    /* With `add`, of an F32 C: sums over k begin with what is there. Parts of K, of multiples of 64, one after the other
     * then give the bits of all of K at once. */
    bool goes_on;
    const float *bias;  /* (N) or NULL */
    const void *addend; /* (M,N) of C's type, or NULL */
    enum act act;
};

/* Workspace of `product_run`; grows with M, N and K. Data pointers are not looked at. */
int64_t ISA(product_workspace)(const struct product *p, int threads);

/* Every element of C is one sum over k in ascending order, cut into runs of fixed length: the bits depend neither on
 * threads nor on M and N. */
void ISA(product_run)(const struct product *p, void *workspace, int threads);

#endif
