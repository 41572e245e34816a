/* act_bwd: du = dy * act'(u), and the sums of du over rows. Bound by memory in bf16, by arithmetic in gelu. Order of the
 * sums: columns.h. */
#include "cpu/act.h"
#include "cpu/columns.h"
#include "cpu/kernels.h"

enum { CHUNK = 4096 };

/* Elements [i, i + left) of du, of which there is at least one. */
SIMD vf act_bwd_at(const struct args_act_bwd *a, int64_t i, int64_t left, enum act act, bool narrow)
{
    vf u = vf_get_upto(a->u.data, i, left, narrow), dy = vf_get_upto(a->dy.data, i, left, narrow);
    vf du = dy * vf_act_slope(act, u);
    vf_put_upto(a->du.data, i, du, left, narrow);
    return du;
}

SIMD void act_bwd(const struct args_act_bwd *a, int threads, enum act act, bool narrow)
{
    int64_t n = tensor_elements(&a->u);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES)
            act_bwd_at(a, i, n - i, act, narrow);
}

/* The same row by row, with sums. */
SIMD void act_bwd_rows(const struct args_act_bwd *a, const struct call *c, enum act act, bool narrow)
{
    int64_t N = a->u.shape[0], F = a->u.shape[1], chunks = row_chunks(N), floats = row_floats(F);
#pragma omp parallel for schedule(static) num_threads(N *F <= CHUNK ? 1 : c->threads)
    for (int64_t i = 0; i < chunks; i++) {
        float *sums = (float *)c->workspace + i * floats;
        memset(sums, 0, 4 * (size_t)floats);
        for (int64_t n = i * N / chunks; n < (i + 1) * N / chunks; n++)
            for (int64_t f = 0; f < F; f += VF_LANES)
                column_add(sums, f, act_bwd_at(a, n * F + f, F - f, act, narrow));
    }
    columns_finish(&a->dbias, c->workspace, chunks, floats, F);
}

int64_t ISA(cpu_act_bwd_workspace)(const struct args_act_bwd *a, int threads)
{
    (void)threads;
    return a->dbias.ndim ? 4 * row_chunks(a->u.shape[0]) * row_floats(a->u.shape[1]) : 0;
}

void ISA(cpu_act_bwd)(const struct args_act_bwd *a, const struct call *c)
{
    bool narrow = a->u.dtype == DT_BF16;
    switch ((enum act)a->act) {
#define ACT_ROW(name)                                                                                                  \
    case ACT_##name:                                                                                                   \
        if (a->dbias.data)                                                                                             \
            act_bwd_rows(a, c, ACT_##name, narrow);                                                                    \
        else                                                                                                           \
            act_bwd(a, c->threads, ACT_##name, narrow);                                                                \
        break;
        ACTS(ACT_ROW)
#undef ACT_ROW
    default:
        break;
    }
}
