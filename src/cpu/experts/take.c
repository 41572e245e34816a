/* take, combine and their gradients (op/experts/take.c). Bound by bytes: each row once. */
#include "cpu/kernels.h"

static int threads_for(int64_t elements, const struct call *c)
{
    return elements < PARALLEL_FROM ? 1 : c->threads;
}

void ISA(cpu_take)(const struct args_take *a, const struct call *c)
{
    const int32_t *places = a->places.data;
    int64_t rows = a->places.shape[0], row_bytes = dtype_bytes(a->x.dtype, a->x.shape[1]);
#pragma omp parallel for schedule(static) num_threads(threads_for(tensor_elements(&a->y), c))
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)a->y.data + places[i] * row_bytes, (const char *)a->x.data + i / a->k * row_bytes,
               (size_t)row_bytes);
}

SIMD void take_bwd_row(const struct args_take_bwd *a, int64_t n, bool bf16)
{
    const int32_t *places = (const int32_t *)a->places.data + n * a->k;
    int64_t H = a->dy.shape[1];
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf sum = vf_set1(0);
        for (int64_t j = 0; j < a->k; j++)
            sum += vf_get_upto(a->dy.data, places[j] * H + h, H - h, bf16);
        put_or_add(&a->dx, n * H + h, sum, H - h, bf16);
    }
}

void ISA(cpu_take_bwd)(const struct args_take_bwd *a, const struct call *c)
{
    bool bf16 = a->dy.dtype == DT_BF16;
    int64_t N = a->dx.data ? a->dx.shape[0] : 0;
#pragma omp parallel for schedule(static) num_threads(threads_for(tensor_elements(&a->dy), c))
    for (int64_t n = 0; n < N; n++)
        bf16 ? take_bwd_row(a, n, true) : take_bwd_row(a, n, false);
}

SIMD void combine_row(const struct args_combine *a, int64_t n, bool bf16)
{
    int64_t H = a->x.shape[1], k = a->gates.shape[1];
    const int32_t *places = (const int32_t *)a->places.data + n * k;
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf sum = vf_set1(0);
        for (int64_t j = 0; j < k; j++) {
            vf gate = vf_set1(vf_get_upto(a->gates.data, n * k + j, 1, bf16)[0]);
            sum = vf_fma(gate, vf_get_upto(a->x.data, places[j] * H + h, H - h, bf16), sum);
        }
        vf_put_upto(a->y.data, n * H + h, sum, H - h, bf16);
    }
}

void ISA(cpu_combine)(const struct args_combine *a, const struct call *c)
{
    bool bf16 = a->x.dtype == DT_BF16;
    int64_t N = a->y.shape[0];
#pragma omp parallel for schedule(static) num_threads(threads_for(tensor_elements(&a->x), c))
    for (int64_t n = 0; n < N; n++)
        bf16 ? combine_row(a, n, true) : combine_row(a, n, false);
}

/* Of token i / k's row i % k. */
SIMD void combine_bwd_row(const struct args_combine_bwd *a, int64_t i, bool bf16)
{
    int64_t H = a->x.shape[1], from = i / a->gates.shape[1] * H, row = ((const int32_t *)a->places.data)[i] * H;
    vf gate = vf_set1(vf_get_upto(a->gates.data, i, 1, bf16)[0]), dot = vf_set1(0);
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf dy = vf_get_upto(a->dy.data, from + h, H - h, bf16);
        dot = vf_fma(dy, vf_get_upto(a->x.data, row + h, H - h, bf16), dot);
        if (a->dx.data)
            put_or_add(&a->dx, row + h, gate * dy, H - h, bf16);
    }
    if (a->dgates.data)
        put_or_add(&a->dgates, i, vf_set1(vf_hsum(dot)), 1, bf16);
}

void ISA(cpu_combine_bwd)(const struct args_combine_bwd *a, const struct call *c)
{
    bool bf16 = a->x.dtype == DT_BF16;
    int64_t rows = a->places.shape[0];
#pragma omp parallel for schedule(static) num_threads(threads_for(tensor_elements(&a->x), c))
    for (int64_t i = 0; i < rows; i++)
        bf16 ? combine_bwd_row(a, i, true) : combine_bwd_row(a, i, false);
}
