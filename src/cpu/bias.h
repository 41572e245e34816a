/* bias.h: a bias that is added to a row. */
#ifndef CPU_BIAS_H
#define CPU_BIAS_H

#include "cpu/kernels.h"

/* y[n,o] = x[n,o] + b[o], of O columns; x and y of one type. */
SIMD void put_biased(const struct tensor *y, const struct tensor *x, const float *b, int64_t n)
{
    int64_t O = x->shape[1];
    bool bf16 = x->dtype == DT_BF16;
    for (int64_t o = 0; o < O; o += VF_LANES)
        vf_put_upto(y->data, n * O + o, vf_get_upto(x->data, n * O + o, O - o, bf16) + vf_get_upto(b, o, O - o, false),
                    O - o, bf16);
}

#endif
