/* act_bwd: du = dy * act'(u). Bound by memory in bf16, by arithmetic in gelu. */
#include "cpu/act.h"
#include "cpu/kernels.h"

enum { CHUNK = 4096 };

SIMD void act_bwd(const struct args_act_bwd *a, int threads, enum act act, bool narrow)
{
    int64_t n = tensor_elements(&a->u);
#pragma omp parallel for schedule(static) num_threads(n <= CHUNK ? 1 : threads)
    for (int64_t start = 0; start < n; start += CHUNK)
        for (int64_t i = start; i < start + CHUNK && i < n; i += VF_LANES) {
            vf u = vf_get_upto(a->u.data, i, n - i, narrow), dy = vf_get_upto(a->dy.data, i, n - i, narrow);
            vf_put_upto(a->du.data, i, dy * vf_act_slope(act, u), n - i, narrow);
        }
}

void ISA(cpu_act_bwd)(const struct args_act_bwd *a, const struct call *c)
{
    bool narrow = a->u.dtype == DT_BF16;
    switch ((enum act)a->act) {
#define ACT_ROW(name)                                                                                                  \
    case ACT_##name:                                                                                                   \
        act_bwd(a, c->threads, ACT_##name, narrow);                                                                    \
        break;
        ACTS(ACT_ROW)
#undef ACT_ROW
    default:
        break;
    }
}
