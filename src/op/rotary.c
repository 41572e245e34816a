/* Rotary position embeddings (Su et al., arXiv 2104.09864), and norms of queries and keys before them:
 *     table[n,i] = factor cos(p f_i) ;  table[n, R/2 + i] = factor sin(p f_i)          p = positions[n], i < R/2
 *     of each q and k, a head's x (D):
 *     x' = x rstd s, where there are gammas                    s = gamma, or 1 + gamma with one_plus
 *     y_i = x'_i cos_i - x'_{i+R/2} sin_i                      i < R/2 ("rotate half"), where there is a table
 *     y_{i+R/2} = x'_{i+R/2} cos_i + x'_i sin_i ;  y_i = x'_i for i >= R
 * Interleaved, the pairs are not (i, i + R/2) but (2i, 2i + 1).
 * qkv, y (T, (A+2K) D) hold for each row A query heads, K key heads, K value heads; those of v stay as they are. With by_group,
 * which goes without gammas, qkv holds for each key head its A/K query heads, the key head and the value head.
 * positions (T), frequencies (R/2), table (T,R). Gammas of (D) normalise each head by itself: rstd (T, A+K). Gammas of (A D)
 * and (K D) normalise all heads of q together, and all of k: rstd (T,2).
 * Backward, with dx' the gradient rotated back, z = x rstd and g = dx' s:
 *     dx = rstd (g - z mean(g z)) ;  dgamma = sum of dx' z over rows, and over heads where they share it */
#include "op/rotary.h"
#include "graph/graph.h"

#include <math.h>

void shape_rotary_table(struct graph *g, struct op_rotary_table *n)
{
    const struct value *p = graph_value(g, n->positions), *f = graph_value(g, n->frequencies);
    if (shape_require(
            g, p->ndim == 1 && p->dtype == DT_I32 && f->ndim == 1 && f->dtype == DT_F64 && dim_is_constant(f->shape[0]),
            "rotary_table", "positions must be (T) I32, frequencies (R/2) F64"))
        n->table = shape_stat(g, SHAPE(p->shape[0], DIM(2 * f->shape[0].c)));
}

/* What an op is about; `gamma`: of q. */
struct rotary_slots {
    const char *op;
    int qkv, table, q_gamma, k_gamma;
    int64_t heads, kv_heads, by_group;
};

static bool heads_fit(struct graph *g, const struct rotary_slots *n)
{
    const struct value *v = graph_value(g, n->qkv);
    int64_t A = n->heads, K = n->kv_heads;
    return shape_require(g, v->ndim == 2 && dim_is_constant(v->shape[1]), n->op, "qkv must be (T, width)") &&
           shape_require(g, A > 0 && K > 0 && A % K == 0, n->op, "kv_heads must divide heads") &&
           shape_require(g, v->shape[1].c % (2 * (A + 2 * K)) == 0, n->op,
                         "the width of qkv must be heads + 2 kv_heads times an even size of a head") &&
           shape_require(g, n->table || n->q_gamma || n->by_group, n->op,
                         "without a table and gammas there is nothing to do") &&
           shape_require(g, !n->q_gamma || !n->by_group, n->op, "by_group goes without gammas");
}

static bool table_fits(struct graph *g, const struct rotary_slots *n, int64_t D)
{
    const struct value *t = graph_value(g, n->table);
    return !n->table || shape_require(g,
                                      t->ndim == 2 && dim_equal(t->shape[0], graph_value(g, n->qkv)->shape[0]) &&
                                          dim_is_constant(t->shape[1]) && t->shape[1].c % 2 == 0 && t->shape[1].c <= D,
                                      n->op, "the table must be (T,R) with an even R of at most a head's size");
}

static bool gammas_fit(struct graph *g, const struct rotary_slots *n, int64_t D)
{
    const struct value *q = graph_value(g, n->q_gamma), *k = graph_value(g, n->k_gamma);
    if (!shape_require(g, !n->q_gamma == !n->k_gamma, n->op, "q_gamma and k_gamma come together") || !n->q_gamma)
        return !g->err.code;
    bool each = q->ndim == 1 && k->ndim == 1 && dim_equal(q->shape[0], DIM(D)) && dim_equal(k->shape[0], DIM(D));
    bool all = q->ndim == 1 && k->ndim == 1 && dim_equal(q->shape[0], DIM(n->heads * D)) &&
               dim_equal(k->shape[0], DIM(n->kv_heads * D));
    return shape_require(g, each || all, n->op, "gammas must be (D), or (A D) of q and (K D) of k");
}

/* The size of a head; 0: the inputs do not fit. */
static int64_t head_size(struct graph *g, const struct rotary_slots *n)
{
    if (!heads_fit(g, n))
        return 0;
    int64_t D = graph_value(g, n->qkv)->shape[1].c / (n->heads + 2 * n->kv_heads);
    return table_fits(g, n, D) && gammas_fit(g, n, D) ? D : 0;
}

/* The groups of heads that are normalised as one. */
static int64_t groups(struct graph *g, const struct rotary_slots *n, int64_t D)
{
    return dim_equal(graph_value(g, n->q_gamma)->shape[0], DIM(D)) ? n->heads + n->kv_heads : 2;
}

void shape_rotary(struct graph *g, struct op_rotary *n)
{
    struct rotary_slots s = {"rotary", n->qkv, n->table, n->q_gamma, n->k_gamma, n->heads, n->kv_heads, n->by_group};
    int64_t D = head_size(g, &s);
    if (!D)
        return;
    struct value qkv = *graph_value(g, n->qkv);
    n->y = shape_out(g, qkv.ndim, qkv.shape);
    if (n->q_gamma)
        n->rstd = shape_stat(g, SHAPE(qkv.shape[0], DIM(groups(g, &s, D))));
}

void shape_rotary_bwd(struct graph *g, struct op_rotary_bwd *n)
{
    struct rotary_slots s = {"rotary_bwd", n->dy, n->table, n->q_gamma, n->k_gamma, n->heads, n->kv_heads, n->by_group};
    int64_t D = head_size(g, &s);
    if (!D || !shape_require(g, !n->qkv == !n->q_gamma && !n->rstd == !n->q_gamma, "rotary_bwd",
                             "qkv and rstd go with gammas"))
        return;
    if ((n->dqkv && !shape_same(g, n->dy, n->dqkv, "rotary_bwd")) ||
        (n->qkv && !shape_same(g, n->dy, n->qkv, "rotary_bwd")) ||
        (n->dq_gamma && !shape_same(g, n->q_gamma, n->dq_gamma, "rotary_bwd")) ||
        (n->dk_gamma && !shape_same(g, n->k_gamma, n->dk_gamma, "rotary_bwd")))
        return;
    const struct value *rstd = graph_value(g, n->rstd);
    shape_require(g, !n->rstd || (rstd->ndim == 2 && dim_equal(rstd->shape[1], DIM(groups(g, &s, D)))), "rotary_bwd",
                  "rstd must be (T, heads + kv_heads), or (T,2) for gammas of all heads");
}

void grad_rotary(struct grads *d, const struct op_rotary *n)
{
    bool norms = n->q_gamma;
    struct op_rotary_bwd b = {.dy = grad_of(d, n->y),
                              .table = n->table,
                              .qkv = norms ? n->qkv : 0,
                              .q_gamma = n->q_gamma,
                              .k_gamma = n->k_gamma,
                              .rstd = n->rstd,
                              .dqkv = grad_target(d, n->qkv),
                              .dq_gamma = grad_target(d, n->q_gamma),
                              .dk_gamma = grad_target(d, n->k_gamma),
                              .heads = n->heads,
                              .kv_heads = n->kv_heads,
                              .one_plus = n->one_plus,
                              .by_group = n->by_group,
                              .interleaved = n->interleaved};
    emit_rotary_bwd(d->g, &b);
}

double flops_rotary_table(const struct args_rotary_table *a)
{
    return 20.0 * (double)a->table.shape[0] * (double)a->table.shape[1]; /* a sine is some 40 operations */
}

double flops_rotary(const struct args_rotary *a)
{
    return (a->q_gamma.ndim ? 7.0 : 3.0) * (double)a->qkv.shape[0] * (double)a->qkv.shape[1];
}

double flops_rotary_bwd(const struct args_rotary_bwd *a)
{
    return (a->q_gamma.ndim ? 13.0 : 3.0) * (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

void ref_rotary_table(const struct args_rotary_table *a, const struct call *c)
{
    (void)c;
    const int32_t *positions = a->positions.data;
    const double *frequencies = a->frequencies.data;
    double *table = a->table.data;
    int64_t T = a->positions.shape[0], half = a->frequencies.shape[0];
    for (int64_t n = 0; n < T; n++)
        for (int64_t i = 0; i < half; i++) {
            double angle = positions[n] * frequencies[i];
            table[2 * n * half + i] = a->factor * cos(angle);
            table[(2 * n + 1) * half + i] = a->factor * sin(angle);
        }
}

/* y = x rstd s over the heads of a group, and rstd. */
static double normalise(const double *x, double *y, const double *gamma, int64_t n, double eps, double one)
{
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    double rstd = 1 / sqrt(squares / (double)n + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * rstd * (one + gamma[i]);
    return rstd;
}

static void rotate(double *x, const double *table, const struct rotary_shape *s)
{
    int64_t half = s->R / 2, distance = rotary_distance(s);
    for (int64_t i = 0; i < half; i++) {
        double *pair = x + rotary_pair(s, i), a = pair[0], b = pair[distance];
        pair[0] = a * table[i] - b * table[i + half];
        pair[distance] = b * table[i] + a * table[i + half];
    }
}

void ref_rotary(const struct args_rotary *a, const struct call *c)
{
    (void)c;
    struct rotary_shape s =
        rotary_shape(&a->qkv, &a->table, &a->q_gamma, a->heads, a->kv_heads, a->by_group, a->interleaved);
    const double *table = a->table.data;
    double *rstd = a->rstd.data;
    for (int64_t n = 0; n < s.T; n++) {
        const double *x = (const double *)a->qkv.data + n * s.width;
        double *y = (double *)a->y.data + n * s.width;
        for (int64_t i = 0; i < s.width; i++)
            y[i] = x[rotary_source(&s, i / s.D) * s.D + i % s.D];
        for (int64_t g = 0; a->q_gamma.data && g < s.groups; g++) {
            struct rotary_group group = rotary_group(&s, g);
            double r =
                normalise(x + group.first * s.D, y + group.first * s.D, group.key ? a->k_gamma.data : a->q_gamma.data,
                          group.count * s.D, a->eps, a->one_plus ? 1 : 0);
            if (rstd)
                rstd[n * s.groups + g] = r;
        }
        for (int64_t h = 0; table && h < s.A + s.K; h++)
            rotate(y + h * s.D, table + n * s.R, &s);
    }
}

/* Element i of a head's gradient dy, rotated back. */
static double rotated_back(const double *dy, const double *table, const struct rotary_shape *s, int64_t i)
{
    if (!table || i >= s->R)
        return dy[i];
    int64_t half = s->R / 2, distance = rotary_distance(s), pair = s->interleaved ? i / 2 : i % half;
    return i == rotary_pair(s, pair) ? dy[i] * table[pair] + dy[i + distance] * table[pair + half]
                                     : dy[i] * table[pair] - dy[i - distance] * table[pair + half];
}

/* A group of heads of row n. */
static void group_bwd(const struct args_rotary_bwd *a, const struct rotary_shape *s, int64_t n, int64_t g)
{
    struct rotary_group group = rotary_group(s, g);
    int64_t at = n * s->width + group.first * s->D, count = group.count * s->D;
    int64_t to = n * s->width + rotary_source(s, group.first) * s->D;
    const double *dy = (const double *)a->dy.data + at, *x = a->qkv.data ? (const double *)a->qkv.data + at : NULL;
    const double *table = a->table.data ? (const double *)a->table.data + n * s->R : NULL;
    const double *gamma = group.key ? a->k_gamma.data : a->q_gamma.data;
    double *dx = a->dqkv.data ? (double *)a->dqkv.data + to : NULL;
    double *dgamma = group.key ? a->dk_gamma.data : a->dq_gamma.data, one = a->one_plus ? 1 : 0, mean_gz = 0;
    double rstd = x ? ((const double *)a->rstd.data)[n * s->groups + g] : 1;
    for (int64_t i = 0; x && i < count; i++) {
        double d = rotated_back(dy + i / s->D * s->D, table, s, i % s->D), z = x[i] * rstd;
        mean_gz += d * (one + gamma[i]) * z / (double)count;
        if (dgamma)
            dgamma[i] += d * z;
    }
    for (int64_t i = 0; dx && i < count; i++) {
        double d = rotated_back(dy + i / s->D * s->D, table, s, i % s->D);
        double grad = x ? rstd * (d * (one + gamma[i]) - x[i] * rstd * mean_gz) : d;
        dx[i] = (a->dqkv.add ? dx[i] : 0) + grad;
    }
}

static void clear(const struct tensor *t)
{
    for (int64_t i = 0; t->data && !t->add && i < t->shape[0]; i++)
        ((double *)t->data)[i] = 0;
}

void ref_rotary_bwd(const struct args_rotary_bwd *a, const struct call *c)
{
    (void)c;
    struct rotary_shape s =
        rotary_shape(&a->dy, &a->table, &a->q_gamma, a->heads, a->kv_heads, a->by_group, a->interleaved);
    const double *dy = a->dy.data;
    double *dx = a->dqkv.data;
    clear(&a->dq_gamma);
    clear(&a->dk_gamma);
    for (int64_t n = 0; n < s.T; n++) {
        for (int64_t g = 0; g < s.groups; g++)
            group_bwd(a, &s, n, g);
        for (int64_t i = (s.A + s.K) * s.D; dx && i < s.width; i++) {
            double *to = &dx[n * s.width + rotary_source(&s, i / s.D) * s.D + i % s.D];
            *to = (a->dqkv.add ? *to : 0) + dy[n * s.width + i];
        }
    }
}
