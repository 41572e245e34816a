/* split.h: where the matrices of experts lie in the one matrix that PEFT makes of them, for all backends. */
#ifndef OP_EXPERTS_SPLIT_H
#define OP_EXPERTS_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

/* Row m of expert e's matrix (M,N): its first element in w, and elements from one to the next. */
struct split_row {
    int64_t first, step;
};

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline struct split_row
    split_row_of(int64_t e, int64_t m, int64_t E, int64_t M, int64_t N, bool columns)
{
    struct split_row columns_of = {m * N * E + e, E}, rows_of = {(e * M + m) * N, 1};
    return columns ? columns_of : rows_of;
}

#endif
