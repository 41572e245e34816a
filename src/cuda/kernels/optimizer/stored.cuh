/* stored.cuh: a weight or one of its states as an update reads and writes it: F32 as it is, or bf16, which is rounded
 * stochastically as it is stored (op/optimizer/rounding.h). They are read with load_floats. */
#ifndef CUDA_STORED_CUH
#define CUDA_STORED_CUH

#include "cuda/kernels/many.cuh"

extern "C" {
#include "op/optimizer/rounding.h"
}

/* Runs the statement with P as the type of a weight and its states: __nv_bfloat16 where `pure`, else float. */
#define WITH_STORED_TYPE(pure, P, ...)                                                                                 \
    if (pure) {                                                                                                        \
        using P = __nv_bfloat16;                                                                                       \
        __VA_ARGS__;                                                                                                   \
    } else {                                                                                                           \
        using P = float;                                                                                               \
        __VA_ARGS__;                                                                                                   \
    }

/* Elements [i, i + N) of the tensor p; i a multiple of N, which divides ROUNDING_BLOCK: their numbers are of one call. */
template <int N>
__device__ static inline void store_stored(float *p, int64_t i, const float (&v)[N], const struct rounding &r,
                                           enum rounding_part part)
{
    (void)r, (void)part;
    store_floats(p + i, v);
}

template <int N>
__device__ static inline void store_stored(__nv_bfloat16 *p, int64_t i, const float (&v)[N], const struct rounding &r,
                                           enum rounding_part part)
{
    static_assert(ROUNDING_BLOCK % N == 0, "one call");
    struct philox bits = rounding_bits(r, part, i);
    /* A whole block begins with 0: said here, or its words would lie in memory, to be indexed. */
    const int64_t first = N == ROUNDING_BLOCK ? 0 : i;
    pack<uint16_t, N> x;
#pragma unroll
    for (int e = 0; e < N; e++)
        x.v[e] = rounding_to_bf16(__float_as_uint(v[e]), rounding_number(bits, first + e));
    *(pack<uint16_t, N> *)(p + i) = x;
}

#endif
