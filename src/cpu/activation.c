/* activation: y = act(x), and its slope. Bound by memory in bf16, by the exponential in fp32.
 * act_bwd: du = dy * slope, and the sums of du over rows. Bound by memory. Order of the sums: columns.h. */
#include "cpu/act.h"
#include "cpu/columns.h"
#include "cpu/kernels.h"

enum { CHUNK = 4096 };

SIMD void activation(const struct args_activation *a, int threads, bool narrow)
{
    int64_t n = tensor_elements(&a->x);
    enum act act = (enum act)a->act;
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES) {
            vf x = vf_get_upto(a->x.data, i, n - i, narrow);
            vf slope = {0}, y = a->slope.data ? vf_act_and_slope(act, x, &slope) : vf_act(act, x);
            vf_put_upto(a->y.data, i, y, n - i, narrow);
            if (a->slope.data)
                vf_put_upto(a->slope.data, i, slope, n - i, narrow);
        }
}

void ISA(cpu_activation)(const struct args_activation *a, const struct call *c)
{
    if (a->x.dtype == DT_BF16)
        activation(a, c->threads, true);
    else
        activation(a, c->threads, false);
}

/* Elements [i, i + left) of du, of which there is at least one. */
SIMD vf act_bwd_at(const struct args_act_bwd *a, int64_t i, int64_t left, bool narrow)
{
    vf du = vf_get_upto(a->slope.data, i, left, narrow) * vf_get_upto(a->dy.data, i, left, narrow);
    vf_put_upto(a->du.data, i, du, left, narrow);
    return du;
}

SIMD void act_bwd(const struct args_act_bwd *a, int threads, bool narrow)
{
    int64_t n = tensor_elements(&a->slope);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES)
            act_bwd_at(a, i, n - i, narrow);
}

/* The same row by row, with sums. */
SIMD void act_bwd_rows(const struct args_act_bwd *a, const struct call *c, bool narrow)
{
    int64_t N = a->slope.shape[0], F = a->slope.shape[1], chunks = row_chunks(N), floats = row_floats(F);
#pragma omp parallel for schedule(static) num_threads(N *F <= CHUNK ? 1 : c->threads)
    for (int64_t i = 0; i < chunks; i++) {
        float *sums = (float *)c->workspace + i * floats;
        memset(sums, 0, 4 * (size_t)floats);
        for (int64_t n = i * N / chunks; n < (i + 1) * N / chunks; n++)
            for (int64_t f = 0; f < F; f += VF_LANES)
                column_add(sums, f, act_bwd_at(a, n * F + f, F - f, narrow));
    }
    columns_finish(&a->dbias, c->workspace, chunks, floats, F);
}

int64_t ISA(cpu_act_bwd_workspace)(const struct args_act_bwd *a, int threads)
{
    (void)threads;
    return a->dbias.ndim ? 4 * row_chunks(a->slope.shape[0]) * row_floats(a->slope.shape[1]) : 0;
}

void ISA(cpu_act_bwd)(const struct args_act_bwd *a, const struct call *c)
{
    bool narrow = a->slope.dtype == DT_BF16;
    if (a->dbias.data)
        act_bwd_rows(a, c, narrow);
    else
        act_bwd(a, c->threads, narrow);
}
