/* Ranks add up what each has of a gradient: g = the sum of the ranks' g, the first rank's first. g has any shape. Each rank makes a part of
 * the sum and puts it into everybody's g: all get the same bits, whoever comes when. */
#include "base/ranks.h"
#include "graph/graph.h"

void shape_all_reduce(struct graph *g, struct op_all_reduce *n)
{
    shape_require(g, n->g && graph_value(g, n->g)->role == ROLE_GRADIENT, "all_reduce", "g must be a gradient");
}

double flops_all_reduce(const struct args_all_reduce *a)
{
    return (double)tensor_elements(&a->g);
}

void ref_all_reduce(const struct args_all_reduce *a, const struct call *c)
{
    int64_t n = tensor_elements(&a->g);
    void *const *of = c->rank ? ranks_meet(c->rank, a->g.data) : NULL;
    for (int64_t i = of ? n * c->rank->me / c->rank->n : 0; of && i < n * (c->rank->me + 1) / c->rank->n; i++) {
        double sum = ((const double *)of[0])[i];
        for (int k = 1; k < c->rank->n; k++)
            sum += ((const double *)of[k])[i];
        for (int k = 0; k < c->rank->n; k++)
            ((double *)of[k])[i] = sum;
    }
    if (of)
        ranks_meet(c->rank, NULL);
}
