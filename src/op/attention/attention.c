/* Scaled dot-product attention over packed sequences (Vaswani et al., arXiv 1706.03762), grouped heads allowed:
 *     S[i,j] = cap(scale q_i . k_j)     i, j rows of one sequence; j <= i when causal; |i - j| < window
 *     P = softmax(S) over j ;  lse[i] = log sum_j exp(S[i,j]) ;  o_i = sum_j mask[i,j] P[i,j] v_j
 *     qkv (T, (A+2K) D) holds for each row A query heads, K key heads, K value heads; o (T, A D); lse (A,T)
 * Backward, with P rebuilt from lse and M the mask with its scale (Dao, arXiv 2307.08691):
 *     dv_j = sum_i M P do_i ;  dP = M (do_i . v_j) ;  dS = P (dP - do_i . o_i)
 *     dq_i = scale sum_j dS k_j ;  dk_j = scale sum_i dS q_i
 *     dbias = sum of dqkv over the rows, the gradient of a bias that was added to make qkv
 * cap(s) = s, or c tanh(s/c) where softcap is c > 0 (Gemma Team, arXiv 2408.00118); dS is then also multiplied with its
 * slope, 1 - tanh(s/c)^2. A query sees itself and window - 1 rows before it and, where not causal, behind it (Beltagy et al.,
 * arXiv 2004.05150); window 0: all rows. So transformers' sliding_window of a decoder is `window`, and ModernBERT's
 * local_attention is 2 (window - 1).
 * A head's sink is a score more in the sum, without a key and a value (Xiao et al., arXiv 2309.17453):
 *     lse[i] = log(exp(sink) + sum_j exp(S[i,j])) ;  dsink = - sum_i exp(sink - lse[i]) (do_i . o_i)
 * so the formulas above stay, with this lse.
 * No sequence has more than `longest` rows; 0: not known.
 * Padding rows (from cu[B] on) get o = 0, lse = 0, dqkv = 0.
 * Only the first `queries` rows of a sequence ask, where that is not 0: the others get o = 0, lse = 0, dq = 0, and their do is
 * not read. (Of its last layer a classifier wants one row a sequence.)
 * `mask`, where dropout and `longest` are known, is room for a bit per head, query and key: from the forward pass a backend may
 * leave its decisions there for the backward pass, which makes them again otherwise. How they lie is the backend's own.
 * Queries come in groups of 16 of one sequence, keys in groups of 64; sequence b begins at row (cu[b] + 15 b) / 16 * 16,
 * which is behind all groups of those before it. */
#include "graph/graph.h"
#include "op/mask.h"

#include <math.h>

static bool heads_fit(struct graph *g, int qkv, int64_t heads, int64_t kv_heads, int64_t queries, int64_t causal)
{
    const struct value *v = graph_value(g, qkv);
    return shape_require(g, v->ndim == 2 && dim_is_constant(v->shape[1]), "attention", "qkv must be (T, width)") &&
           shape_require(g, heads > 0 && kv_heads > 0 && heads % kv_heads == 0, "attention",
                         "kv_heads must divide heads") &&
           shape_require(g, queries == 0 || (queries > 0 && !causal), "attention",
                         "queries must be 0, or above it and not causal") &&
           shape_require(g, v->shape[1].c % (heads + 2 * kv_heads) == 0, "attention",
                         "the width of qkv must be a multiple of heads + 2 kv_heads");
}

static bool scores_fit(struct graph *g, int64_t window, double softcap)
{
    return shape_require(g, window >= 0, "attention", "window must be 0 or above it") &&
           shape_require(g, softcap >= 0 && softcap < INFINITY, "attention", "softcap must be 0 or above it");
}

static bool sinks_fit(struct graph *g, int sinks, int64_t heads, const char *op)
{
    const struct value *v = graph_value(g, sinks);
    return shape_require(g, v->ndim == 1 && dim_equal(v->shape[0], DIM(heads)), op, "sinks must be (heads)");
}

void shape_attention(struct graph *g, struct op_attention *n)
{
    if (!heads_fit(g, n->qkv, n->heads, n->kv_heads, n->queries, n->causal) || !scores_fit(g, n->window, n->softcap) ||
        (n->sinks && !sinks_fit(g, n->sinks, n->heads, "attention")) ||
        !shape_require(g, !n->sinks || !n->queries, "attention", "with sinks all queries are asked"))
        return;
    struct dim T = graph_value(g, n->qkv)->shape[0];
    int64_t D = graph_value(g, n->qkv)->shape[1].c / (n->heads + 2 * n->kv_heads);
    n->o = shape_out(g, SHAPE(T, DIM(n->heads * D)));
    n->lse = shape_stat(g, SHAPE(DIM(n->heads), T));
    if (n->p > 0 && n->coords && n->longest > 0 && !n->queries) {
        struct dim B = dim_plus(graph_value(g, n->cu)->shape[0], -1, DIM(1));
        n->mask = shape_stat(g, SHAPE(dim_plus(T, 15, B), DIM(n->heads * ((n->longest + 63) / 64) * 8)));
        graph_value(g, n->mask)->dtype = DT_U8;
    }
}

void shape_attention_bwd(struct graph *g, struct op_attention_bwd *n)
{
    if (!heads_fit(g, n->qkv, n->heads, n->kv_heads, n->queries, n->causal) || !scores_fit(g, n->window, n->softcap) ||
        !shape_same(g, n->o, n->dout, "attention_bwd"))
        return;
    const struct value *v = graph_value(g, n->qkv), *dbias = graph_value(g, n->dbias);
    if (shape_require(g, !n->dbias || (dbias->ndim == 1 && dim_equal(dbias->shape[0], v->shape[1])), "attention_bwd",
                      "dbias must be as wide as qkv"))
        n->dqkv = shape_out(g, SHAPE(v->shape[0], v->shape[1]));
}

void shape_attention_sinks_bwd(struct graph *g, struct op_attention_sinks_bwd *n)
{
    const char *op = "attention_sinks_bwd";
    const struct value *lse = graph_value(g, n->lse), *o = graph_value(g, n->o), *sinks = graph_value(g, n->sinks);
    if (!shape_require(g, lse->ndim == 2 && dim_is_constant(lse->shape[0]), op, "lse must be (heads, T)") ||
        !sinks_fit(g, n->sinks, lse->shape[0].c, op) || !shape_same(g, n->o, n->dout, op) ||
        !shape_require(g,
                       o->ndim == 2 && dim_equal(o->shape[0], lse->shape[1]) && dim_is_constant(o->shape[1]) &&
                           o->shape[1].c % sinks->shape[0].c == 0,
                       op, "o must be (T, heads D)"))
        return;
    if (n->dsinks)
        shape_same(g, n->sinks, n->dsinks, op);
}

void grad_attention(struct grads *d, const struct op_attention *n)
{
    struct op_attention_sinks_bwd s = {.sinks = n->sinks,
                                       .o = n->o,
                                       .lse = n->lse,
                                       .dout = grad_of(d, n->o),
                                       .cu = n->cu,
                                       .dsinks = n->sinks ? grad_target(d, n->sinks) : 0};
    if (s.dsinks)
        emit_attention_sinks_bwd(d->g, &s);
    struct op_attention_bwd b = {.qkv = n->qkv,
                                 .o = n->o,
                                 .lse = n->lse,
                                 .dout = grad_of(d, n->o),
                                 .cu = n->cu,
                                 .coords = n->coords,
                                 .rng = n->rng,
                                 .mask = n->mask,
                                 .heads = n->heads,
                                 .kv_heads = n->kv_heads,
                                 .causal = n->causal,
                                 .scale = n->scale,
                                 .p = n->p,
                                 .site = n->site,
                                 .longest = n->longest,
                                 .queries = n->queries,
                                 .window = n->window,
                                 .softcap = n->softcap};
    emit_attention_bwd(d->g, &b);
    grad_set(d, n->qkv, b.dqkv);
}

/* The area under min(x, limit) from 0 to n: scores of n queries of which the x-th sees x keys, but no more than the limit. */
static double area(double n, double limit)
{
    return n < limit ? n * n / 2 : limit * n - limit * limit / 2;
}

/* Scores of a head, at most: as if the rows were B sequences of equal length. */
static double scores_of(const struct tensor *o, const struct tensor *cu, int64_t causal, int64_t queries,
                        int64_t window)
{
    double T = (double)o->shape[0], B = (double)(cu->shape[0] > 1 ? cu->shape[0] - 1 : 1), length = T / B;
    double asking = queries ? fmin((double)queries, length) : length, limit = window ? (double)window : length;
    double behind = area(asking, limit), ahead = area(length, limit) - area(length - asking, limit);
    return B * (causal ? behind : behind + ahead);
}

double flops_attention(const struct args_attention *a)
{
    return 4.0 * scores_of(&a->o, &a->cu, a->causal, a->queries, a->window) * (double)a->o.shape[1];
}

double flops_attention_sinks_bwd(const struct args_attention_sinks_bwd *a)
{
    return 2.0 * (double)a->o.shape[0] * (double)a->o.shape[1];
}

double flops_attention_bwd(const struct args_attention_bwd *a)
{
    return 10.0 * scores_of(&a->o, &a->cu, a->causal, a->queries, a->window) * (double)a->o.shape[1];
}

/* One (sequence, head): where its rows and its slices of qkv lie. */
struct task {
    int64_t first, length, queries, width, D, q, k, v; /* q, k, v: offsets within a row */
    int64_t head, window;
    bool causal;
    double scale, softcap;
};

/* Of either op's arguments, which have what it wants under the same names. */
#define TASK(a, b, head)                                                                                               \
    make_task(&(a)->qkv, (a)->cu.data, b, head,                                                                        \
              (struct op_attention){.heads = (a)->heads,                                                               \
                                    .kv_heads = (a)->kv_heads,                                                         \
                                    .causal = (a)->causal,                                                             \
                                    .scale = (a)->scale,                                                               \
                                    .queries = (a)->queries,                                                           \
                                    .window = (a)->window,                                                             \
                                    .softcap = (a)->softcap})

static struct task make_task(const struct tensor *qkv, const int32_t *cu, int64_t b, int64_t head,
                             struct op_attention n)
{
    int64_t D = qkv->shape[1] / (n.heads + 2 * n.kv_heads), kv = head / (n.heads / n.kv_heads);
    int64_t length = cu[b + 1] - cu[b];
    return (struct task){.first = cu[b],
                         .length = length,
                         .queries = n.queries && n.queries < length ? n.queries : length,
                         .width = qkv->shape[1],
                         .D = D,
                         .q = head * D,
                         .k = (n.heads + kv) * D,
                         .v = (n.heads + n.kv_heads + kv) * D,
                         .head = head,
                         .window = n.window,
                         .causal = n.causal,
                         .scale = n.scale,
                         .softcap = n.softcap};
}

/* The keys that query i sees are those from first_key to end_key - 1. */
static int64_t first_key(const struct task *t, int64_t i)
{
    return t->window && i >= t->window ? i - t->window + 1 : 0;
}

static int64_t end_key(const struct task *t, int64_t i)
{
    if (t->causal)
        return i + 1;
    return t->window && t->length - i > t->window ? i + t->window : t->length;
}

/* The slope is that of the capped score by the score before. */
static double score(const struct task *t, const double *qkv, int64_t i, int64_t j, double *slope)
{
    const double *q = qkv + (t->first + i) * t->width + t->q, *k = qkv + (t->first + j) * t->width + t->k;
    double sum = 0;
    for (int64_t d = 0; d < t->D; d++)
        sum += q[d] * k[d];
    *slope = 1;
    if (t->softcap <= 0)
        return t->scale * sum;
    double bent = tanh(t->scale * sum / t->softcap);
    *slope = 1 - bent * bent;
    return t->softcap * bent;
}

/* What dropout multiplies the weight of (i, j) with. */
static double mask(const struct task *t, const int32_t *coords, const int32_t *rng, int64_t site, double p, int64_t i,
                   int64_t j)
{
    if (p <= 0 || !coords)
        return 1;
    struct philox bits = mask_attention_bits(rng, site, coords[2 * t->first], t->head, i, j);
    return mask_keeps_key(bits, j, mask_threshold8(p)) ? mask_scale8(p) : 0;
}

static void forward_row(const struct args_attention *a, const struct task *t, int64_t i)
{
    const double *qkv = a->qkv.data;
    double *o = (double *)a->o.data + (t->first + i) * a->o.shape[1] + t->head * t->D;
    const double *sink = a->sinks.data ? (const double *)a->sinks.data + t->head : NULL;
    double max = sink ? *sink : -INFINITY, sum, slope;
    for (int64_t j = first_key(t, i); j < end_key(t, i); j++) {
        double s = score(t, qkv, i, j, &slope);
        max = s > max || isnan(s) ? s : max;
    }
    sum = sink ? exp(*sink - max) : 0;
    for (int64_t d = 0; d < t->D; d++)
        o[d] = 0;
    for (int64_t j = first_key(t, i); j < end_key(t, i); j++) {
        double e = exp(score(t, qkv, i, j, &slope) - max);
        double m = mask(t, a->coords.data, a->rng.data, a->site, a->p, i, j);
        const double *v = qkv + (t->first + j) * t->width + t->v;
        sum += e;
        for (int64_t d = 0; d < t->D; d++)
            o[d] += m * e * v[d];
    }
    for (int64_t d = 0; d < t->D; d++)
        o[d] /= sum;
    ((double *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i] = max + log(sum);
}

void ref_attention(const struct args_attention *a, const struct call *c)
{
    (void)c;
    int64_t B = a->cu.shape[0] - 1, T = a->o.shape[0];
    double *o = a->o.data, *lse = a->lse.data;
    for (int64_t i = 0; i < T * a->o.shape[1]; i++)
        o[i] = 0;
    for (int64_t i = 0; i < T * a->heads; i++)
        lse[i] = 0;
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            struct task t = TASK(a, b, h);
            for (int64_t i = 0; i < t.queries; i++)
                forward_row(a, &t, i);
        }
}

void ref_attention_sinks_bwd(const struct args_attention_sinks_bwd *a, const struct call *c)
{
    (void)c;
    const double *o = a->o.data, *dout = a->dout.data, *lse = a->lse.data;
    int64_t heads = a->sinks.shape[0], T = a->o.shape[0], D = a->o.shape[1] / heads;
    int32_t rows = ((const int32_t *)a->cu.data)[a->cu.shape[0] - 1];
    for (int64_t h = 0; a->dsinks.data && h < heads; h++) {
        double *to = (double *)a->dsinks.data + h, sum = a->dsinks.add ? *to : 0;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t d = 0; d < D; d++)
                sum -= exp(((const double *)a->sinks.data)[h] - lse[h * T + i]) * o[(i * heads + h) * D + d] *
                       dout[(i * heads + h) * D + d];
        *to = sum;
    }
}

static void backward_row(const struct args_attention_bwd *a, const struct task *t, int64_t i)
{
    const double *qkv = a->qkv.data, *q = qkv + (t->first + i) * t->width + t->q;
    int64_t at = (t->first + i) * a->o.shape[1] + t->head * t->D;
    const double *o = (const double *)a->o.data + at, *dout = (const double *)a->dout.data + at;
    double lse = ((const double *)a->lse.data)[t->head * a->lse.shape[1] + t->first + i];
    double *dqkv = a->dqkv.data, *dq = dqkv + (t->first + i) * t->width + t->q, delta = 0;
    for (int64_t d = 0; d < t->D; d++)
        delta += dout[d] * o[d];
    for (int64_t j = first_key(t, i); j < end_key(t, i); j++) {
        const double *k = qkv + (t->first + j) * t->width + t->k, *v = qkv + (t->first + j) * t->width + t->v;
        double *dk = dqkv + (t->first + j) * t->width + t->k, *dv = dqkv + (t->first + j) * t->width + t->v;
        double slope, p = exp(score(t, qkv, i, j, &slope) - lse), dp = 0;
        double m = mask(t, a->coords.data, a->rng.data, a->site, a->p, i, j);
        for (int64_t d = 0; d < t->D; d++)
            dp += dout[d] * v[d];
        double ds = p * (m * dp - delta) * slope;
        for (int64_t d = 0; d < t->D; d++) {
            dv[d] += m * p * dout[d];
            dq[d] += t->scale * ds * k[d];
            dk[d] += t->scale * ds * q[d];
        }
    }
}

void ref_attention_bwd(const struct args_attention_bwd *a, const struct call *c)
{
    (void)c;
    double *dqkv = a->dqkv.data, *dbias = a->dbias.data;
    int64_t T = a->dqkv.shape[0], width = a->dqkv.shape[1];
    for (int64_t i = 0; i < T * width; i++)
        dqkv[i] = 0;
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            struct task t = TASK(a, b, h);
            for (int64_t i = 0; i < t.queries; i++)
                backward_row(a, &t, i);
        }
    for (int64_t i = 0; dbias && i < width; i++) {
        double sum = a->dbias.add ? dbias[i] : 0;
        for (int64_t t = 0; t < T; t++)
            sum += dqkv[t * width + i];
        dbias[i] = sum;
    }
}
