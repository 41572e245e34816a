/* Tokens to the experts that route chose for them, and back:
 *     take      y[places[n k + j]] = x[n]                         x (N,H), y (k N,H)
 *     combine   y[n] = sum_j gates[n,j] x[places[n k + j]]        x (k N,H), gates (N,k), y (N,H)
 * Backward:
 *     dx[n] = sum_j dy[places[n k + j]]
 *     dx[places[n k + j]] = gates[n,j] dy[n] ;  dgates[n,j] = the dot product of dy[n] and x[places[n k + j]]
 * places (k N) I32 has each row once. */
#include "graph/graph.h"
#include "op/experts/rows.h"

void shape_take(struct graph *g, struct op_take *n)
{
    const struct value *x = graph_value(g, n->x), *places = graph_value(g, n->places);
    if (shape_require(g, x->ndim == 2 && n->k > 0 && experts_places_fit(places, x->shape[0], n->k), "take",
                      "x must be (N,H), places (k N) I32"))
        n->y = shape_out(g, SHAPE(places->shape[0], x->shape[1]));
}

void shape_take_bwd(struct graph *g, struct op_take_bwd *n)
{
    const struct value *dy = graph_value(g, n->dy), *places = graph_value(g, n->places), *dx = graph_value(g, n->dx);
    shape_require(g,
                  dy->ndim == 2 && dim_equal(dy->shape[0], places->shape[0]) &&
                      (!n->dx || (dx->ndim == 2 && n->k > 0 && dim_equal(dx->shape[1], dy->shape[1]) &&
                                  experts_places_fit(places, dx->shape[0], n->k))),
                  "take_bwd", "dy must be (k N,H), places (k N) I32, dx (N,H)");
}

/* Of combine, with a gradient y as its result, too. */
static bool combine_fits(struct graph *g, int rows, int gates, int places, const char *op)
{
    const struct value *x = graph_value(g, rows), *w = graph_value(g, gates), *p = graph_value(g, places);
    return shape_require(g,
                         x->ndim == 2 && w->ndim == 2 && dim_is_constant(w->shape[1]) &&
                             experts_places_fit(p, w->shape[0], w->shape[1].c) && dim_equal(x->shape[0], p->shape[0]),
                         op, "x must be (k N,H), gates (N,k), places (k N) I32");
}

void shape_combine(struct graph *g, struct op_combine *n)
{
    if (combine_fits(g, n->x, n->gates, n->places, "combine"))
        n->y = shape_out(g, SHAPE(graph_value(g, n->gates)->shape[0], graph_value(g, n->x)->shape[1]));
}

void shape_combine_bwd(struct graph *g, struct op_combine_bwd *n)
{
    if (!combine_fits(g, n->x, n->gates, n->places, "combine_bwd"))
        return;
    const struct value *x = graph_value(g, n->x), *gates = graph_value(g, n->gates), *dy = graph_value(g, n->dy);
    shape_require(g, dy->ndim == 2 && dim_equal(dy->shape[0], gates->shape[0]) && dim_equal(dy->shape[1], x->shape[1]),
                  "combine_bwd", "dy must be (N,H)");
    if (n->dx)
        shape_same(g, n->x, n->dx, "combine_bwd");
    if (n->dgates)
        shape_same(g, n->gates, n->dgates, "combine_bwd");
}

void grad_take(struct grads *d, const struct op_take *n)
{
    struct op_take_bwd b = {.dy = grad_of(d, n->y), .places = n->places, .dx = grad_target(d, n->x), .k = n->k};
    if (b.dx)
        emit_take_bwd(d->g, &b);
}

void grad_combine(struct grads *d, const struct op_combine *n)
{
    struct op_combine_bwd b = {.dy = grad_of(d, n->y),
                               .x = n->x,
                               .gates = n->gates,
                               .places = n->places,
                               .dx = grad_target(d, n->x),
                               .dgates = grad_target(d, n->gates)};
    if (b.dx || b.dgates)
        emit_combine_bwd(d->g, &b);
}

double flops_take(const struct args_take *a)
{
    (void)a;
    return 0;
}

double flops_take_bwd(const struct args_take_bwd *a)
{
    return (double)tensor_elements(&a->dy);
}

double flops_combine(const struct args_combine *a)
{
    return 2.0 * (double)tensor_elements(&a->x);
}

double flops_combine_bwd(const struct args_combine_bwd *a)
{
    return 3.0 * (double)tensor_elements(&a->x);
}

void ref_take(const struct args_take *a, const struct call *c)
{
    (void)c;
    const int32_t *places = a->places.data;
    int64_t H = a->x.shape[1];
    for (int64_t i = 0; i < a->places.shape[0]; i++)
        for (int64_t h = 0; h < H; h++)
            ((double *)a->y.data)[places[i] * H + h] = ((const double *)a->x.data)[i / a->k * H + h];
}

void ref_take_bwd(const struct args_take_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *places = a->places.data;
    const double *dy = a->dy.data;
    double *dx = a->dx.data;
    int64_t H = a->dy.shape[1];
    for (int64_t n = 0; dx && n < a->dx.shape[0]; n++)
        for (int64_t h = 0; h < H; h++) {
            double sum = a->dx.add ? dx[n * H + h] : 0;
            for (int64_t j = 0; j < a->k; j++)
                sum += dy[places[n * a->k + j] * H + h];
            dx[n * H + h] = sum;
        }
}

void ref_combine(const struct args_combine *a, const struct call *c)
{
    (void)c;
    const int32_t *places = a->places.data;
    const double *x = a->x.data, *gates = a->gates.data;
    int64_t H = a->x.shape[1], k = a->gates.shape[1];
    for (int64_t n = 0; n < a->y.shape[0]; n++)
        for (int64_t h = 0; h < H; h++) {
            double sum = 0;
            for (int64_t j = 0; j < k; j++)
                sum += gates[n * k + j] * x[places[n * k + j] * H + h];
            ((double *)a->y.data)[n * H + h] = sum;
        }
}

void ref_combine_bwd(const struct args_combine_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *places = a->places.data;
    const double *dy = a->dy.data, *x = a->x.data, *gates = a->gates.data;
    double *dx = a->dx.data, *dgates = a->dgates.data;
    int64_t H = a->x.shape[1], k = a->gates.shape[1];
    for (int64_t i = 0; i < a->places.shape[0]; i++) {
        int64_t n = i / k, row = places[i] * H;
        double dot = 0;
        for (int64_t h = 0; h < H; h++) {
            dot += dy[n * H + h] * x[row + h];
            if (dx)
                dx[row + h] = (a->dx.add ? dx[row + h] : 0) + gates[i] * dy[n * H + h];
        }
        if (dgates)
            dgates[i] = (a->dgates.add ? dgates[i] : 0) + dot;
    }
}
