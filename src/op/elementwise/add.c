/* The sum of two activations, where no norm reads it that could add them on the way: y = a + b, all (N,H). Both have y's
 * gradient: da = dy, db = dy. */
#include "graph/graph.h"

void shape_add(struct graph *g, struct op_add *n)
{
    const struct value *a = graph_value(g, n->a);
    if (shape_require(g, a->ndim == 2, "add", "a must be (N,H)") && shape_same(g, n->a, n->b, "add"))
        n->y = shape_out(g, SHAPE(a->shape[0], a->shape[1]));
}

void shape_add_bwd(struct graph *g, struct op_add_bwd *n)
{
    if (!n->da || shape_same(g, n->dy, n->da, "add_bwd"))
        if (n->db)
            shape_same(g, n->dy, n->db, "add_bwd");
}

void grad_add(struct grads *d, const struct op_add *n)
{
    struct op_add_bwd b = {.dy = grad_of(d, n->y), .da = grad_target(d, n->a), .db = grad_target(d, n->b)};
    emit_add_bwd(d->g, &b);
}

double flops_add(const struct args_add *a)
{
    return (double)a->y.shape[0] * (double)a->y.shape[1];
}

double flops_add_bwd(const struct args_add_bwd *a)
{
    return 2.0 * (double)tensor_elements(&a->dy);
}

void ref_add(const struct args_add *a, const struct call *c)
{
    (void)c;
    for (int64_t i = 0; i < tensor_elements(&a->y); i++)
        ((double *)a->y.data)[i] = ((const double *)a->a.data)[i] + ((const double *)a->b.data)[i];
}

static void put_or_add(const struct tensor *to, const double *dy)
{
    double *d = to->data;
    for (int64_t i = 0; d && i < tensor_elements(to); i++)
        d[i] = (to->add ? d[i] : 0) + dy[i];
}

void ref_add_bwd(const struct args_add_bwd *a, const struct call *c)
{
    (void)c;
    put_or_add(&a->da, a->dy.data);
    put_or_add(&a->db, a->dy.data);
}
