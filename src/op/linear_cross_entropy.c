/* The head of a language model with its loss and their gradients, of `chunk` rows at a time, so that the logits of all rows
 * need no room (as in Wijmans et al., arXiv 2411.09009, but with chunks of rows):
 *     z[n,v] = sum_h x[n,h] w[v,h] + b[v] ;  with a softcap c above 0: z = c tanh(z / c)
 *     loss and dz as cross_entropy has them (loss.c), best as argmax has it (argmax.c)
 *     dx[n,h] = sum_v dz[n,v] w[v,h] ;  dw[v,h] = sum_n dz[n,v] x[n,h] ;  db[v] = sum_n dz[n,v]
 * `more` is added to the loss (1). Rows with a negative label have no part in it: their dx is 0, their best -1. x (N,H), w (V,H), b (V)
 * as linear has it, labels (N) I32, loss (1), best (N) I32. The chunk's logits have x's type. dw and db are sums over chunks and
 * therefore F32. */
#include "op/linear_cross_entropy.h"

#include "graph/graph.h"

#include <math.h>

static bool is_shape(const struct graph *g, int id, int ndim, const struct dim *shape)
{
    const struct value *v = graph_value(g, id);
    bool same = !id || v->ndim == ndim;
    for (int d = 0; id && same && d < ndim; d++)
        same = dim_equal(v->shape[d], shape[d]);
    return same;
}

void shape_linear_cross_entropy(struct graph *g, struct op_linear_cross_entropy *n)
{
    const struct value *x = graph_value(g, n->x), *w = graph_value(g, n->w), *y = graph_value(g, n->labels);
    if (!shape_require(g,
                       x->ndim == 2 && w->ndim == 2 && dim_equal(x->shape[1], w->shape[1]) && y->ndim == 1 &&
                           y->dtype == DT_I32 && dim_equal(y->shape[0], x->shape[0]),
                       "linear_cross_entropy", "x must be (N,H), w (V,H), labels (N) I32") ||
        !shape_require(g, n->chunk > 0 && n->softcap >= 0, "linear_cross_entropy",
                       "chunk must be above 0, softcap 0 or above it") ||
        !shape_require(g, !n->scaler || graph_value(g, n->scaler)->dtype == DT_F64, "linear_cross_entropy",
                       "the scaler must be F64"))
        return;
    struct dim N = x->shape[0], V = w->shape[0], H = x->shape[1];
    if (!shape_require(g,
                       is_shape(g, n->more, SHAPE(DIM(1))) && is_shape(g, n->b, SHAPE(V)) &&
                           is_shape(g, n->dx, SHAPE(N, H)) && is_shape(g, n->dw, SHAPE(V, H)) &&
                           is_shape(g, n->db, SHAPE(V)),
                       "linear_cross_entropy", "more must be (1), b and db (V), dx (N,H), dw (V,H)"))
        return;
    n->loss = shape_stat(g, SHAPE(DIM(1)));
    n->best = shape_stat(g, SHAPE(N));
    graph_value(g, n->best)->dtype = DT_I32;
}

double flops_linear_cross_entropy(const struct args_linear_cross_entropy *a)
{
    double products = 1 + (a->dx.ndim > 0) + (a->dw.ndim > 0), elements = (double)a->x.shape[0] * (double)a->w.shape[0];
    return elements * (2 * products * (double)a->x.shape[1] + (head_has_gradient(a) ? 24 : 12));
}

/* z[n,v]. It is made anew wherever it is asked for: a chunk of the definition is one logit. */
static double logit(const struct args_linear_cross_entropy *a, int64_t n, int64_t v)
{
    int64_t H = a->x.shape[1];
    const double *x = (const double *)a->x.data + n * H, *w = (const double *)a->w.data + v * H;
    double z = a->b.data ? ((const double *)a->b.data)[v] : 0;
    for (int64_t h = 0; h < H; h++)
        z += x[h] * w[h];
    return a->softcap > 0 ? a->softcap * tanh(z / a->softcap) : z;
}

/* Gives the loss of a row and its lse. */
static double row_loss(const struct args_linear_cross_entropy *a, int64_t n, int32_t label, double *lse)
{
    int64_t V = a->w.shape[0];
    double max = -INFINITY, largest = -INFINITY, sum = 0, all = 0, own = 0;
    int32_t best = 0;
    for (int64_t v = 0; v < V; v++) {
        double z = logit(a, n, v);
        max = z > max || isnan(z) ? z : max;
        best = z > largest ? (int32_t)v : best;
        largest = z > largest ? z : largest;
    }
    for (int64_t v = 0; v < V; v++) {
        double z = logit(a, n, v);
        sum += exp(z - max);
        all += (max - z) / (double)V;
        own = v == label ? max - z : own;
    }
    if (a->best.data)
        ((int32_t *)a->best.data)[n] = best;
    *lse = max + log(sum);
    return log(sum) + (1 - a->smoothing) * own + a->smoothing * all;
}

static void row_gradient(const struct args_linear_cross_entropy *a, int64_t n, int32_t label, double lse)
{
    int64_t V = a->w.shape[0], H = a->x.shape[1];
    double *dx = a->dx.data, *dw = a->dw.data, *db = a->db.data;
    const double *x = (const double *)a->x.data + n * H;
    double seed = ((const double *)a->step.data)[STEP_INV_N];
    seed *= a->scaler.data ? ((const double *)a->scaler.data)[SCALER_SCALE] : 1;
    for (int64_t v = 0; v < V; v++) {
        const double *w = (const double *)a->w.data + v * H;
        double z = logit(a, n, v), t = a->softcap > 0 ? z / a->softcap : 0;
        double target = (v == label) * (1 - a->smoothing) + a->smoothing / (double)V;
        double dz = (exp(z - lse) - target) * seed * (1 - t * t);
        for (int64_t h = 0; dx && h < H; h++)
            dx[n * H + h] += dz * w[h];
        for (int64_t h = 0; dw && h < H; h++)
            dw[v * H + h] += dz * x[h];
        if (db)
            db[v] += dz;
    }
}

static void clear(const struct tensor *t)
{
    for (int64_t i = 0; t->data && !t->add && i < tensor_elements(t); i++)
        ((double *)t->data)[i] = 0;
}

void ref_linear_cross_entropy(const struct args_linear_cross_entropy *a, const struct call *c)
{
    (void)c;
    double loss = 0, lse;
    clear(&a->dx);
    clear(&a->dw);
    clear(&a->db);
    for (int64_t n = 0; n < a->x.shape[0]; n++) {
        int32_t label = ((const int32_t *)a->labels.data)[n];
        if (label < 0) {
            if (a->best.data)
                ((int32_t *)a->best.data)[n] = -1;
            continue;
        }
        loss += row_loss(a, n, label, &lse);
        if (head_has_gradient(a))
            row_gradient(a, n, label, lse);
    }
    *(double *)a->loss.data =
        loss * ((const double *)a->step.data)[STEP_INV_N] + (a->more.data ? *(const double *)a->more.data : 0);
}
