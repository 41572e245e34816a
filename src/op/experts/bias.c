/* Biases of E experts' linear layers, each on its own rows n of x, those from offsets[e] to offsets[e+1]-1:
 *     y[n,o] = x[n,o] + b[e,o]                       x and y (N,O), b (E,O), offsets (E+1) I32 from 0 to N
 * Backward:
 *     dx = dy ;  db[e,o] = sum_n dy[n,o], 0 for an expert without rows */
#include "graph/graph.h"

static bool fits(struct graph *g, int rows, int bias, int offsets, const char *op)
{
    const struct value *x = graph_value(g, rows), *b = graph_value(g, bias), *at = graph_value(g, offsets);
    return shape_require(g,
                         x->ndim == 2 && b->ndim == 2 && dim_equal(x->shape[1], b->shape[1]) && at->ndim == 1 &&
                             at->dtype == DT_I32 && dim_equal(at->shape[0], dim_plus(b->shape[0], 1, DIM(1))),
                         op, "x must be (N,O), b (E,O), offsets (E+1) I32");
}

void shape_expert_bias(struct graph *g, struct op_expert_bias *n)
{
    const struct value *x = graph_value(g, n->x);
    if (fits(g, n->x, n->b, n->offsets, "expert_bias"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void shape_expert_bias_bwd(struct graph *g, struct op_expert_bias_bwd *n)
{
    if (n->db)
        fits(g, n->dy, n->db, n->offsets, "expert_bias_bwd");
}

void grad_expert_bias(struct grads *d, const struct op_expert_bias *n)
{
    int dy = grad_of(d, n->y);
    struct op_expert_bias_bwd b = {.dy = dy, .offsets = n->offsets, .db = grad_target(d, n->b)};
    if (b.db)
        emit_expert_bias_bwd(d->g, &b);
    grad_set(d, n->x, dy);
}

double flops_expert_bias(const struct args_expert_bias *a)
{
    return (double)tensor_elements(&a->x);
}

double flops_expert_bias_bwd(const struct args_expert_bias_bwd *a)
{
    return (double)tensor_elements(&a->dy);
}

void ref_expert_bias(const struct args_expert_bias *a, const struct call *c)
{
    (void)c;
    const int32_t *offsets = a->offsets.data;
    int64_t E = a->b.shape[0], O = a->b.shape[1];
    for (int64_t e = 0; e < E; e++)
        for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
            for (int64_t o = 0; o < O; o++)
                ((double *)a->y.data)[n * O + o] =
                    ((const double *)a->x.data)[n * O + o] + ((const double *)a->b.data)[e * O + o];
}

void ref_expert_bias_bwd(const struct args_expert_bias_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *offsets = a->offsets.data;
    double *db = a->db.data;
    int64_t E = a->offsets.shape[0] - 1, O = a->dy.shape[1];
    for (int64_t e = 0; db && e < E; e++)
        for (int64_t o = 0; o < O; o++) {
            double sum = a->db.add ? db[e * O + o] : 0;
            for (int64_t n = offsets[e]; n < offsets[e + 1]; n++)
                sum += ((const double *)a->dy.data)[n * O + o];
            db[e * O + o] = sum;
        }
}
