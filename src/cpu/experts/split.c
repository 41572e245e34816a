/* split_experts and its gradient (op/experts/split.c). Bound by bytes: each element once. A thread takes rows m of all experts, which lie in
 * one row of w where that has columns of experts. */
#include "op/experts/split.h"
#include "cpu/kernels.h"

static int threads_for(int64_t elements, const struct call *c)
{
    return elements < PARALLEL_FROM ? 1 : c->threads;
}

SIMD void split_row(const struct args_split_experts *a, int64_t e, int64_t m, bool bf16)
{
    int64_t E = a->y.shape[0], M = a->y.shape[1], N = a->y.shape[2], at = (e * M + m) * N;
    struct split_row from = split_row_of(e, m, E, M, N, a->columns);
    for (int64_t n = 0; n < N; n++)
        if (bf16)
            ((uint16_t *)a->y.data)[at + n] = ((const uint16_t *)a->w.data)[from.first + n * from.step];
        else
            ((float *)a->y.data)[at + n] = ((const float *)a->w.data)[from.first + n * from.step];
}

void ISA(cpu_split_experts)(const struct args_split_experts *a, const struct call *c)
{
    bool bf16 = a->y.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(threads_for(tensor_elements(&a->y), c))
    for (int64_t m = 0; m < a->y.shape[1]; m++)
        for (int64_t e = 0; e < a->y.shape[0]; e++)
            bf16 ? split_row(a, e, m, true) : split_row(a, e, m, false);
}

SIMD void split_bwd_row(const struct args_split_experts_bwd *a, int64_t e, int64_t m, bool bf16)
{
    int64_t E = a->dy.shape[0], M = a->dy.shape[1], N = a->dy.shape[2], at = (e * M + m) * N;
    struct split_row to = split_row_of(e, m, E, M, N, a->columns);
    bool narrow = a->dw.dtype == DT_BF16;
    for (int64_t n = 0; n < N; n++)
        put_or_add(&a->dw, to.first + n * to.step, vf_get_upto(a->dy.data, at + n, 1, bf16), 1, narrow);
}

void ISA(cpu_split_experts_bwd)(const struct args_split_experts_bwd *a, const struct call *c)
{
    bool bf16 = a->dy.dtype == DT_BF16;
    int64_t M = a->dw.data ? a->dy.shape[1] : 0;
#pragma omp parallel for schedule(static) num_threads(threads_for(tensor_elements(&a->dy), c))
    for (int64_t m = 0; m < M; m++)
        for (int64_t e = 0; e < a->dy.shape[0]; e++)
            bf16 ? split_bwd_row(a, e, m, true) : split_bwd_row(a, e, m, false);
}
