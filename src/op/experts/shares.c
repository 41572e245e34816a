/* How uneven experts are, of all layers so far: the shares that the busiest and the idlest have of the choices of the real rows,
 *     y[0] = max over e of n[e] / (k cu[B]), and before[0] ;  y[1] = min over e of the same, and before[1]
 * with the rows n[e] of expert e that are no padding: those of tokens from cu[B] on are. Both are 0 where there are no rows. places
 * (k N) and offsets (E+1) I32 of route, before and y (2). For the log: nothing learns from it. */
#include "graph/graph.h"

void shape_expert_shares(struct graph *g, struct op_expert_shares *n)
{
    const struct value *places = graph_value(g, n->places), *offsets = graph_value(g, n->offsets);
    const struct value *before = graph_value(g, n->before);
    if (shape_require(g,
                      places->ndim == 1 && places->dtype == DT_I32 && offsets->ndim == 1 && offsets->dtype == DT_I32 &&
                          n->k > 0 && (!n->before || (before->ndim == 1 && dim_equal(before->shape[0], DIM(2)))),
                      "expert_shares", "places must be (k N), offsets (E+1) I32, before (2)"))
        n->y = shape_stat(g, SHAPE(DIM(2)));
}

double flops_expert_shares(const struct args_expert_shares *a)
{
    return 2 * (double)a->offsets.shape[0];
}

void ref_expert_shares(const struct args_expert_shares *a, const struct call *c)
{
    (void)c;
    const int32_t *places = a->places.data, *offsets = a->offsets.data;
    const double *before = a->before.data;
    double *y = a->y.data, most = 0, least = 0;
    int64_t real = a->k * ((const int32_t *)a->cu.data)[a->cu.shape[0] - 1];
    for (int64_t e = 0; e < a->offsets.shape[0] - 1 && real > 0; e++) {
        double n = offsets[e + 1] - offsets[e];
        for (int64_t i = real; i < a->places.shape[0]; i++)
            n -= places[i] >= offsets[e] && places[i] < offsets[e + 1];
        most = n / (double)real > most ? n / (double)real : most;
        least = e == 0 || n / (double)real < least ? n / (double)real : least;
    }
    y[0] = before && before[0] > most ? before[0] : most;
    y[1] = before && before[1] < least ? before[1] : least;
}
