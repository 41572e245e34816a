/* What a language model predicts: best[n] = the first v with the largest z[n,v], or -1 where label y[n] is negative and
 * nobody asks. NaN counts as -infinity. logits z (N,V); labels (N) I32; best (N) I32. */
#include "graph/graph.h"

#include <math.h>

void shape_argmax(struct graph *g, struct op_argmax *n)
{
    const struct value *z = graph_value(g, n->logits), *y = graph_value(g, n->labels);
    if (!shape_require(g, z->ndim == 2 && y->ndim == 1 && y->dtype == DT_I32 && dim_equal(y->shape[0], z->shape[0]),
                       "argmax", "logits must be (N,V), labels (N) I32"))
        return;
    n->best = shape_stat(g, SHAPE(z->shape[0]));
    graph_value(g, n->best)->dtype = DT_I32;
}

double flops_argmax(const struct args_argmax *a)
{
    return (double)a->logits.shape[0] * (double)a->logits.shape[1];
}

void ref_argmax(const struct args_argmax *a, const struct call *c)
{
    (void)c;
    int64_t N = a->logits.shape[0], V = a->logits.shape[1];
    for (int64_t n = 0; n < N; n++) {
        const double *z = (const double *)a->logits.data + n * V;
        double max = -INFINITY;
        int32_t best = 0;
        for (int64_t v = 0; v < V; v++)
            if (z[v] > max) {
                max = z[v];
                best = (int32_t)v;
            }
        ((int32_t *)a->best.data)[n] = ((const int32_t *)a->labels.data)[n] < 0 ? -1 : best;
    }
}
