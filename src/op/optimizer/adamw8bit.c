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
#include "op/optimizer/dynamic_map.h"

#include "graph/graph.h"
#include "op/optimizer/rounding.h"

#include <math.h>
#include <string.h>

void shape_adamw8bit(struct graph *g, struct op_adamw8bit *n)
{
    if (!shape_same(g, n->p, n->g, "adamw8bit") || !shape_same(g, n->p, n->m, "adamw8bit") ||
        !shape_same(g, n->p, n->v, "adamw8bit") || (n->copy && !shape_same(g, n->p, n->copy, "adamw8bit")))
        return;
    const struct value *a = graph_value(g, n->absmax_m), *b = graph_value(g, n->absmax_v);
    int64_t blocks = (value_elements(graph_value(g, n->p), (struct dims){0}) + MAP_BLOCK - 1) / MAP_BLOCK;
    shape_require(g,
                  graph_value(g, n->m)->dtype == DT_U8 && graph_value(g, n->v)->dtype == DT_U8 && a->ndim == 1 &&
                      b->ndim == 1 && dim_equal(a->shape[0], DIM(blocks)) && dim_equal(b->shape[0], DIM(blocks)),
                  "adamw8bit", "m and v must be U8, and have one absmax for every 256 elements");
}

double flops_adamw8bit(const struct args_adamw8bit *a)
{
    return 15.0 * (double)tensor_elements(&a->p);
}

/* The code whose value is nearest; values ascend. */
static int nearest(const float *map, double x)
{
    int low = 0, high = MAP_CODES - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if ((double)map[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return x - (double)map[low] <= (double)map[high] - x ? low : high;
}

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

void ref_adamw8bit(const struct args_adamw8bit *a, const struct call *c)
{
    (void)c;
    const double *step = a->step.data, *g = a->g.data;
    double *p = a->p.data, *most_m = a->absmax_m.data, *most_v = a->absmax_v.data;
    uint8_t *code_m = a->m.data, *code_v = a->v.data;
    double coef = a->coef.data ? *(const double *)a->coef.data : 1, lr = step[STEP_LR];
    double c1 = 1 - pow(a->beta1, step[STEP_UPDATE]), c2 = sqrt(1 - pow(a->beta2, step[STEP_UPDATE]));
    float map_m[MAP_CODES], map_v[MAP_CODES];
    if (coef < 0)
        return;
    for (int i = 0; i < MAP_CODES; i++) {
        map_m[i] = map_signed(i);
        map_v[i] = map_unsigned(i);
    }
    for (int64_t from = 0, b = 0, all = tensor_elements(&a->p); from < all; from += MAP_BLOCK, b++) {
        double m[MAP_BLOCK], v[MAP_BLOCK];
        int64_t n = all - from < MAP_BLOCK ? all - from : MAP_BLOCK;
        for (int64_t i = 0; i < n; i++) {
            int64_t k = from + i;
            double grad = coef * g[k];
            m[i] = a->beta1 * (double)map_m[code_m[k]] * most_m[b] + (1 - a->beta1) * grad;
            v[i] = a->beta2 * (double)map_v[code_v[k]] * most_v[b] + (1 - a->beta2) * grad * grad;
            double w = p[k] - lr / c1 * m[i] / (sqrt(v[i]) / c2 + a->eps);
            p[k] = rounding_store(step, a->noise, ROUND_WEIGHT, k, w - lr * a->weight_decay * w);
        }
        most_m[b] = largest(m, n);
        most_v[b] = largest(v, n);
        for (int64_t i = 0; i < n; i++) {
            int code = nearest(map_m, most_m[b] > 0 ? m[i] / most_m[b] : 0);
            code_m[from + i] = (uint8_t)(m[i] < 0 && code >= MAP_SIGNED_ZERO ? MAP_SIGNED_ZERO - 1 : code);
            code_v[from + i] = (uint8_t)nearest(map_v, most_v[b] > 0 ? v[i] / most_v[b] : 0);
        }
    }
    if (a->copy.data)
        memcpy(a->copy.data, p, sizeof(double) * (size_t)tensor_elements(&a->p));
}
