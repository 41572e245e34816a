/* Attention of new rows to all rows of their sequences, whose keys and values are kept from call to call:
 *     qkv (T, (A+2K) D) of the new rows, sequence b's being cu[b] … cu[b+1]-1;  past (B): how many rows it has had before
 *     keys, values (B, L, K D): row past[b] + i becomes that of new row i of sequence b
 *     o_i = sum_j softmax_j(cap(scale q_i . k_j)) v_j     j from 0, or from past[b] + i + 1 - window, to past[b] + i
 * So a prompt is read at once, in pieces or row by row, and the next token is one new row. The cap and the window are those of
 * op/attention.c. Requires past[b] >= 0 and past[b] + new rows <= L. What lies in a sequence's cache behind its last row does
 * not matter. Padding rows (from cu[B] on) get o = 0. */
#include "graph/graph.h"

#include <math.h>

void shape_attention_cached(struct graph *g, struct op_attention_cached *n)
{
    const struct value *qkv = graph_value(g, n->qkv), *keys = graph_value(g, n->keys);
    const char *op = "attention_cached";
    if (!shape_require(g, qkv->ndim == 2 && dim_is_constant(qkv->shape[1]), op, "qkv must be (T, width)") ||
        !shape_require(g, n->heads > 0 && n->kv_heads > 0 && n->heads % n->kv_heads == 0, op,
                       "kv_heads must divide heads") ||
        !shape_require(g, qkv->shape[1].c % (n->heads + 2 * n->kv_heads) == 0, op,
                       "the width of qkv must be a multiple of heads + 2 kv_heads") ||
        !shape_require(g, n->window >= 0, op, "window must be 0 or above it") ||
        !shape_require(g, n->softcap >= 0 && n->softcap < INFINITY, op, "softcap must be 0 or above it") ||
        !shape_same(g, n->keys, n->values, op))
        return;
    int64_t D = qkv->shape[1].c / (n->heads + 2 * n->kv_heads);
    if (shape_require(g, keys->ndim == 3 && dim_equal(keys->shape[2], DIM(n->kv_heads * D)), op,
                      "keys must be (B, L, kv_heads D)"))
        n->o = shape_out(g, SHAPE(qkv->shape[0], DIM(n->heads * D)));
}

/* As if every cache were half full. */
double flops_attention_cached(const struct args_attention_cached *a)
{
    double limit = (double)a->keys.shape[1] / 2;
    double seen = a->window ? fmin((double)a->window, limit) : limit;
    return 4 * seen * (double)a->o.shape[0] * (double)a->o.shape[1];
}

/* A new row of sequence b, `at` in the sequence. */
struct place {
    int64_t row, b, at;
};

static void append(const struct args_attention_cached *a, struct place p)
{
    int64_t width = a->keys.shape[2], to = (p.b * a->keys.shape[1] + p.at) * width;
    const double *k = (const double *)a->qkv.data + (p.row + 1) * a->qkv.shape[1] - 2 * width;
    for (int64_t i = 0; i < width; i++) {
        ((double *)a->keys.data)[to + i] = k[i];
        ((double *)a->values.data)[to + i] = k[width + i];
    }
}

static double score(const struct args_attention_cached *a, const double *q, const double *k, int64_t D)
{
    double sum = 0;
    for (int64_t d = 0; d < D; d++)
        sum += q[d] * k[d];
    return a->softcap > 0 ? a->softcap * tanh(a->scale * sum / a->softcap) : a->scale * sum;
}

static void attend(const struct args_attention_cached *a, struct place p, int64_t head)
{
    int64_t width = a->keys.shape[2], D = width / a->kv_heads, kv = head / (a->heads / a->kv_heads);
    int64_t cache = p.b * a->keys.shape[1] * width + kv * D;
    const double *q = (const double *)a->qkv.data + p.row * a->qkv.shape[1] + head * D;
    const double *keys = (const double *)a->keys.data + cache, *values = (const double *)a->values.data + cache;
    double *o = (double *)a->o.data + p.row * a->o.shape[1] + head * D, max = -INFINITY, sum = 0;
    int64_t first = a->window && p.at >= a->window ? p.at - a->window + 1 : 0;
    for (int64_t j = first; j <= p.at; j++) {
        double s = score(a, q, keys + j * width, D);
        max = s > max || isnan(s) ? s : max;
    }
    for (int64_t j = first; j <= p.at; j++) {
        double e = exp(score(a, q, keys + j * width, D) - max);
        sum += e;
        for (int64_t d = 0; d < D; d++)
            o[d] += e * values[j * width + d];
    }
    for (int64_t d = 0; d < D; d++)
        o[d] /= sum;
}

void ref_attention_cached(const struct args_attention_cached *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data, *past = a->past.data;
    for (int64_t i = 0; i < a->o.shape[0] * a->o.shape[1]; i++)
        ((double *)a->o.data)[i] = 0;
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t row = cu[b]; row < cu[b + 1]; row++) {
            struct place p = {row, b, past[b] + row - cu[b]};
            append(a, p);
            for (int64_t head = 0; head < a->heads; head++)
                attend(a, p, head);
        }
}
