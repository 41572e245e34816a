/* Sums of embedding rows, and back. Bound by memory. */
#include "cpu/kernels.h"

/* bf16: y is; narrow: the tables are. */
SIMD void sum_rows(const struct args_embed *a, int64_t n, bool bf16, bool narrow)
{
    int64_t H = a->y.shape[1];
    const int32_t *ids = a->ids.data, *ids2 = a->ids2.data, *ids3 = a->ids3.data;
    int64_t row = ids[n] * H, row2 = ids2 ? ids2[n] * H : 0, row3 = ids3 ? ids3[n] * H : 0;
    for (int64_t h = 0; h < H; h += VF_LANES) {
        vf sum = vf_get_upto(a->table.data, row + h, H - h, narrow);
        if (ids2)
            sum += vf_get_upto(a->table2.data, row2 + h, H - h, narrow);
        if (ids3)
            sum += vf_get_upto(a->table3.data, row3 + h, H - h, narrow);
        vf_put_upto(a->y.data, n * H + h, sum, H - h, bf16);
    }
}

void ISA(cpu_embed)(const struct args_embed *a, const struct call *c)
{
    int64_t N = a->y.shape[0], H = a->y.shape[1];
    bool narrow = a->table.dtype == DT_BF16; /* all tables have one type */
#pragma omp parallel for schedule(static) num_threads(N *H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        if (a->y.dtype == DT_BF16)
            narrow ? sum_rows(a, n, true, true) : sum_rows(a, n, true, false);
        else
            narrow ? sum_rows(a, n, false, true) : sum_rows(a, n, false, false);
}

/* Columns [first, end) of all real rows, in order. */
SIMD void scatter_columns(const struct args_embed_bwd *a, int64_t first, int64_t end, bool bf16)
{
    const int32_t *ids = a->ids.data, *cu = a->cu.data;
    int64_t H = a->dy.shape[1], N = cu[a->cu.shape[0] - 1];
    for (int64_t n = 0; n < N; n++) {
        float *to = (float *)a->dtable.data + ids[n] * H;
        for (int64_t h = first; h < end && ids[n] != a->still - 1; h += VF_LANES)
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
