/* AdamW with states of 8 bits, in blocks of MAP_BLOCK consecutive elements (Dettmers et al., arXiv 2110.02861), as
 * bitsandbytes has it: a state's element is a code (op/optimizer/dynamic_map.h) times the largest magnitude of its block. t =
 * step[STEP_UPDATE], g scaled by coef (negative: change nothing).
 *
 *     m = b1 map[m] absmax_m + (1-b1) g ;  v = b2 map[v] absmax_v + (1-b2) g^2
 *     p -= lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps)      with m and v as they are before they are rounded to codes
 *     p -= lr wd p                                           after the update, where torch's AdamW decays before it
 *     absmax_m = max |m|, absmax_v = max v of the block ;  m, v = the nearest codes
 *
 * A negative m never becomes 0. A block of zeros has absmax 0 and the codes of 0. With `noise`, p is rounded as it is stored
 * (op/optimizer/rounding.h); the largest magnitudes, a number for 256 elements, stay F32. */
#include "op/optimizer/codes.h"

#include "graph/graph.h"
#include "op/optimizer/update.h"

#include <math.h>

void shape_adamw8bit(struct graph *g, struct op_adamw8bit *n)
{
    if (shape_same(g, n->p, n->g, "adamw8bit") && codes_fit(g, n->p, n->m, n->absmax_m, "adamw8bit") &&
        codes_fit(g, n->p, n->v, n->absmax_v, "adamw8bit") && n->copy)
        shape_same(g, n->p, n->copy, "adamw8bit");
}

double flops_adamw8bit(const struct args_adamw8bit *a)
{
    return 15.0 * (double)tensor_elements(&a->p);
}

void ref_adamw8bit(const struct args_adamw8bit *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data;
    double *p = a->p.data, coef = update_coefficient(&a->coef), lr = step[STEP_LR];
    double c1 = 1 - pow(a->beta1, step[STEP_UPDATE]), c2 = sqrt(1 - pow(a->beta2, step[STEP_UPDATE]));
    struct codes m_codes, v_codes;
    if (coef < 0)
        return;
    codes_open(&m_codes, &a->m, &a->absmax_m, true);
    codes_open(&v_codes, &a->v, &a->absmax_v, false);
    for (int64_t from = 0, all = tensor_elements(&a->p); from < all; from += MAP_BLOCK) {
        double m[MAP_BLOCK], v[MAP_BLOCK];
        int64_t n = all - from < MAP_BLOCK ? all - from : MAP_BLOCK;
        codes_read(&m_codes, from, n, m);
        codes_read(&v_codes, from, n, v);
        for (int64_t i = 0; i < n; i++) {
            double grad = coef * g[from + i], *w = &p[from + i];
            m[i] = a->beta1 * m[i] + (1 - a->beta1) * grad;
            v[i] = a->beta2 * v[i] + (1 - a->beta2) * grad * grad;
            *w -= lr / c1 * m[i] / (sqrt(v[i]) / c2 + a->eps);
            *w -= lr * a->weight_decay * *w;
        }
        codes_write(&m_codes, from, n, m);
        codes_write(&v_codes, from, n, v);
    }
    update_round(step, a->noise, ROUND_WEIGHT, a->p.first, tensor_elements(&a->p), p);
    update_write_copy(&a->copy, &a->p);
}
