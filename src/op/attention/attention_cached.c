/* Attention of new rows to all rows of their sequences, whose keys and values are kept from call to call:
 *     qkv (T, (A+2K) D) of the new rows, sequence b's being cu[b] … cu[b+1]-1;  past (B): how many rows it has had before
 *     keys, values (B, L, K D): row past[b] + i becomes that of new row i of sequence b
 *     o_i = sum_j softmax_j(cap(scale q_i . k_j) + table[bucket, head]) v_j
 *                                                 j from 0, or from past[b] + i + 1 - window, to past[b] + i
 * So a prompt is read at once, in pieces or row by row, and the next token is one new row. The cap, the window and the sinks are those
 * of op/attention/attention.c, the bias is that of op/attention/attention_general.c, by the distance from past[b] + i to j. Requires
 * past[b] >= 0 and past[b] + new rows <= L.
 *
 * Or attention to the rows of other sequences, an encoder's, which come once:
 *     qkv (T, A D) are the queries; kv (S, 2 K D) keys and values, sequence b's being kv_cu[b] … kv_cu[b+1]-1
 *     row i of these becomes row i of keys and values; j from 0 to past[b] - 1
 * past[b] counts those that are new with this call. Requires past[b] <= L.
 *
 * With `at`, sequences need not have caches of their own: row j of sequence b, a new one too, is row at[b, j] of the B L rows of keys
 * and values, or with kv (at is (B) then) row at[b] + j. So several sequences that begin alike have one copy of what they share. Requires
 * that a new row is no other sequence's; with kv, at[b] + past[b] <= B L instead of past[b] <= L.
 *
 * What lies in a sequence's cache behind its last row does not matter. Padding rows (from cu[B] on) get o = 0; so do queries that see
 * no key. */
#include "op/attention/bias_bucket.h"

#include "graph/graph.h"

#include <math.h>

static bool rows_fit(struct graph *g, const struct op_attention_cached *n, const char *op)
{
    const struct value *qkv = graph_value(g, n->qkv), *kv = graph_value(g, n->kv), *keys = graph_value(g, n->keys);
    int64_t parts = n->kv ? n->heads : n->heads + 2 * n->kv_heads;
    if (!shape_require(g, qkv->ndim == 2 && dim_is_constant(qkv->shape[1]), op, "qkv must be (T, width)") ||
        !shape_require(g, n->heads > 0 && n->kv_heads > 0 && n->heads % n->kv_heads == 0, op,
                       "kv_heads must divide heads") ||
        !shape_require(g, qkv->shape[1].c % parts == 0, op,
                       "the width of qkv must be a multiple of heads + 2 kv_heads, with kv of heads") ||
        !shape_require(g, (n->kv != 0) == (n->kv_cu != 0), op, "kv and kv_cu come together") ||
        !shape_same(g, n->keys, n->values, op))
        return false;
    const struct value *at = graph_value(g, n->at);
    if (n->at && !shape_require(g, n->kv ? at->ndim == 1 : at->ndim == 2 && dim_equal(at->shape[1], keys->shape[1]), op,
                                "at must be (B, L), or with kv (B)"))
        return false;
    struct dim width = DIM(n->kv_heads * (qkv->shape[1].c / parts));
    return shape_require(g, keys->ndim == 3 && dim_equal(keys->shape[2], width), op,
                         "keys must be (B, L, kv_heads D)") &&
           shape_require(g, !n->kv || (kv->ndim == 2 && dim_equal(kv->shape[1], DIM(2 * width.c))), op,
                         "kv must be (S, 2 kv_heads D)");
}

void shape_attention_cached(struct graph *g, struct op_attention_cached *n)
{
    const struct value *t = graph_value(g, n->table), *sinks = graph_value(g, n->sinks);
    const char *op = "attention_cached";
    if (!rows_fit(g, n, op) || !shape_require(g, n->window >= 0, op, "window must be 0 or above it") ||
        !shape_require(g, n->softcap >= 0 && n->softcap < INFINITY, op, "softcap must be 0 or above it") ||
        !shape_require(g, !n->kv || (!n->table && !n->window && !n->sinks), op,
                       "with kv there are no table, no window and no sinks") ||
        !shape_require(g, !n->sinks || (sinks->ndim == 1 && dim_equal(sinks->shape[0], DIM(n->heads))), op,
                       "sinks must be (heads)") ||
        !shape_require(g, !n->table || (t->ndim == 2 && dim_equal(t->shape[1], DIM(n->heads))), op,
                       "table must be (buckets, heads)") ||
        !shape_require(g, !n->table || n->furthest || dim_equal(t->shape[0], DIM(1)), op,
                       "with furthest 0 the table must be (1, heads)") ||
        !shape_require(g,
                       !n->table || !n->furthest ||
                           (dim_is_constant(t->shape[0]) && t->shape[0].c >= 4 && t->shape[0].c % 2 == 0 &&
                            n->furthest > t->shape[0].c / 2),
                       op, "buckets must be even and 4 at least, and furthest above half of them"))
        return;
    struct dim T = graph_value(g, n->qkv)->shape[0];
    int64_t D = graph_value(g, n->keys)->shape[2].c / n->kv_heads;
    n->o = shape_out(g, SHAPE(T, DIM(n->heads * D)));
}

/* As if every cache were half full, but what others have. */
double flops_attention_cached(const struct args_attention_cached *a)
{
    double limit = (double)a->keys.shape[1] / (a->kv.ndim ? 1 : 2);
    double seen = a->window ? fmin((double)a->window, limit) : limit;
    return 4 * seen * (double)a->o.shape[0] * (double)a->o.shape[1];
}

/* A new row of sequence b, `at` in the sequence, and the keys that it sees: from `first`, before `end`. */
struct place {
    int64_t row, b, at, first, end;
};

static struct place place_of(const struct args_attention_cached *a, int64_t b, int64_t row)
{
    int64_t past = ((const int32_t *)a->past.data)[b], at = past + row - ((const int32_t *)a->cu.data)[b];
    if (a->kv.data)
        return (struct place){.row = row, .b = b, .end = past};
    return (struct place){
        .row = row, .b = b, .at = at, .first = a->window && at >= a->window ? at - a->window + 1 : 0, .end = at + 1};
}

/* Which row of the caches is row j of sequence b. */
static int64_t cache_row(const struct args_attention_cached *a, int64_t b, int64_t j)
{
    int64_t L = a->keys.shape[1];
    const int32_t *at = a->at.data;
    return !at ? b * L + j : a->kv.data ? at[b] + j : at[b * L + j];
}

/* Keys k, and values behind them, to row `at` of sequence b. */
static void append(const struct args_attention_cached *a, int64_t b, int64_t at, const double *k)
{
    int64_t width = a->keys.shape[2], to = cache_row(a, b, at) * width;
    for (int64_t i = 0; i < width; i++) {
        ((double *)a->keys.data)[to + i] = k[i];
        ((double *)a->values.data)[to + i] = k[width + i];
    }
}

static double score(const struct args_attention_cached *a, struct place p, int64_t head, const double *q,
                    const double *k, int64_t j)
{
    int64_t D = a->keys.shape[2] / a->kv_heads;
    double sum = 0;
    for (int64_t d = 0; d < D; d++)
        sum += q[d] * k[d];
    sum = a->softcap > 0 ? a->softcap * tanh(a->scale * sum / a->softcap) : a->scale * sum;
    if (!a->table.data)
        return sum;
    if (!a->furthest)
        return sum + (double)(j - p.at) * ((const double *)a->table.data)[head];
    int64_t bucket = bias_bucket(p.at, j, a->table.shape[0], a->furthest, true);
    return sum + ((const double *)a->table.data)[bucket * a->heads + head];
}

static void attend(const struct args_attention_cached *a, struct place p, int64_t head)
{
    int64_t width = a->keys.shape[2], D = width / a->kv_heads, kv = head / (a->heads / a->kv_heads);
    const double *q = (const double *)a->qkv.data + p.row * a->qkv.shape[1] + head * D;
    const double *keys = (const double *)a->keys.data + kv * D, *values = (const double *)a->values.data + kv * D;
    double *o = (double *)a->o.data + p.row * a->o.shape[1] + head * D, max, sum;
    const double *sink = a->sinks.data ? (const double *)a->sinks.data + head : NULL;
    max = sink ? *sink : -INFINITY;
    for (int64_t j = p.first; j < p.end; j++) {
        double s = score(a, p, head, q, keys + cache_row(a, p.b, j) * width, j);
        max = s > max || isnan(s) ? s : max;
    }
    sum = sink ? exp(*sink - max) : 0;
    for (int64_t j = p.first; j < p.end; j++) {
        int64_t row = cache_row(a, p.b, j) * width;
        double e = exp(score(a, p, head, q, keys + row, j) - max);
        sum += e;
        for (int64_t d = 0; d < D; d++)
            o[d] += e * values[row + d];
    }
    for (int64_t d = 0; d < D && p.end > p.first; d++)
        o[d] /= sum;
}

void ref_attention_cached(const struct args_attention_cached *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data, *kv_cu = a->kv_cu.data;
    const double *qkv = a->qkv.data, *kv = a->kv.data;
    int64_t width = a->keys.shape[2];
    for (int64_t i = 0; i < a->o.shape[0] * a->o.shape[1]; i++)
        ((double *)a->o.data)[i] = 0;
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++) {
        for (int64_t row = kv ? kv_cu[b] : 0; kv && row < kv_cu[b + 1]; row++)
            append(a, b, row - kv_cu[b], kv + row * 2 * width);
        for (int64_t row = cu[b]; row < cu[b + 1]; row++) {
            struct place p = place_of(a, b, row);
            if (!kv)
                append(a, b, p.at, qkv + (row + 1) * a->qkv.shape[1] - 2 * width);
            for (int64_t head = 0; head < a->heads; head++)
                attend(a, p, head);
        }
    }
}
