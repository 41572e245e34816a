/* gate_rows and its gradient (op/experts/gate_rows.c). Bound by bytes: each row once. A row's dot product adds up a lane of its own every so many
 * columns, then the lanes. */
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"

static int threads_for(int64_t elements, const struct call *c)
{
    return elements < PARALLEL_FROM ? 1 : c->threads;
}

SIMD vf sigmoid(vf z)
{
    return vf_set1(1) / (vf_set1(1) + vf_exp(-z));
}

SIMD vf logit(const struct tensor *logits, int64_t n, bool bf16)
{
    return vf_set1(vf_get_upto(logits->data, n, 1, bf16)[0]);
}

SIMD void gate_row(const struct args_gate_rows *a, int64_t n, bool bf16)
{
    int64_t H = a->x.shape[1];
    vf s = sigmoid(logit(&a->logits, n, bf16));
    for (int64_t h = 0; h < H; h += VF_LANES)
        vf_put_upto(a->y.data, n * H + h, s * vf_get_upto(a->x.data, n * H + h, H - h, bf16), H - h, bf16);
}

void ISA(cpu_gate_rows)(const struct args_gate_rows *a, const struct call *c)
{
    bool bf16 = a->x.dtype == DT_BF16;
    int64_t N = a->x.shape[0];
#pragma omp parallel for schedule(static) num_threads(threads_for(tensor_elements(&a->x), c))
    for (int64_t n = 0; n < N; n++)
        bf16 ? gate_row(a, n, true) : gate_row(a, n, false);
}

SIMD void gate_bwd_row(const struct args_gate_rows_bwd *a, int64_t n, bool bf16)
{
    int64_t H = a->x.shape[1];
    vf z = logit(&a->logits, n, bf16), s = sigmoid(z), dot = vf_set1(0);
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf dy = vf_get_upto(a->dy.data, n * H + h, H - h, bf16);
        dot = vf_fma(dy, vf_get_upto(a->x.data, n * H + h, H - h, bf16), dot);
        if (a->dx.data)
            put_or_add(&a->dx, n * H + h, s * dy, H - h, bf16);
    }
    if (a->dlogits.data) /* sigmoid(-z) is 1 - s without its lost digits */
        put_or_add(&a->dlogits, n, s * sigmoid(-z) * vf_set1(vf_hsum(dot)), 1, bf16);
}

void ISA(cpu_gate_rows_bwd)(const struct args_gate_rows_bwd *a, const struct call *c)
{
    bool bf16 = a->x.dtype == DT_BF16;
    int64_t N = a->x.shape[0];
#pragma omp parallel for schedule(static) num_threads(threads_for(tensor_elements(&a->x), c))
    for (int64_t n = 0; n < N; n++)
        bf16 ? gate_bwd_row(a, n, true) : gate_bwd_row(a, n, false);
}
