/* Sums of embedding rows, and back. Bound by memory. */
#include "cpu/kernels.h"

SIMD void sum_rows(const struct args_embed *a, int64_t n, bool bf16)
{
    int64_t H = a->y.shape[1];
    const int32_t *ids = a->ids.data, *ids2 = a->ids2.data, *ids3 = a->ids3.data;
    const float *row = (const float *)a->table.data + ids[n] * H;
    const float *row2 = ids2 ? (const float *)a->table2.data + ids2[n] * H : NULL;
    const float *row3 = ids3 ? (const float *)a->table3.data + ids3[n] * H : NULL;
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf sum = vf_get_upto(row, h, H - h, false);
        if (row2)
            sum += vf_get_upto(row2, h, H - h, false);
        if (row3)
            sum += vf_get_upto(row3, h, H - h, false);
        vf_put_upto(a->y.data, n * H + h, sum, H - h, bf16);
    }
}

void ISA(cpu_embed)(const struct args_embed *a, const struct call *c)
{
    int64_t N = a->y.shape[0], H = a->y.shape[1];
#pragma omp parallel for schedule(static) num_threads(N *H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        if (a->y.dtype == DT_BF16)
            sum_rows(a, n, true);
        else
            sum_rows(a, n, false);
}

/* Columns [first, end) of all real rows, in order. */
SIMD void scatter_columns(const struct args_embed_bwd *a, int64_t first, int64_t end, bool bf16)
{
    const int32_t *ids = a->ids.data, *cu = a->cu.data;
    int64_t H = a->dy.shape[1], N = cu[a->cu.shape[0] - 1];
    for (int64_t n = 0; n < N; n++) {
        float *to = (float *)a->dtable.data + ids[n] * H;
        for (int64_t h = first; h < end; h += VF_LANES)
            vf_put_upto(to, h, vf_get_upto(to, h, end - h, false) + vf_get_upto(a->dy.data, n * H + h, end - h, bf16),
                        end - h, false);
    }
}

/* Threads share out columns, so that every element gets its sum in the order of the rows: no atomics, no sorting. */
void ISA(cpu_embed_bwd)(const struct args_embed_bwd *a, const struct call *c)
{
    int64_t V = a->dtable.shape[0], H = a->dy.shape[1], width = (H / c->threads + 64) / 64 * 64;
    if (!a->dtable.data)
        return;
    if (!a->dtable.add) {
#pragma omp parallel for schedule(static) num_threads(V *H < PARALLEL_FROM ? 1 : c->threads)
        for (int64_t v = 0; v < V; v++)
            memset((float *)a->dtable.data + v * H, 0, 4 * (size_t)H);
    }
#pragma omp parallel for schedule(static) num_threads(a->dy.shape[0] * H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t first = 0; first < H; first += width) {
        int64_t end = first + width < H ? first + width : H;
        if (a->dy.dtype == DT_BF16)
            scatter_columns(a, first, end, true);
        else
            scatter_columns(a, first, end, false);
    }
}
