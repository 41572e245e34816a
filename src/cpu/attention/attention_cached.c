/* Attention of new rows to a cache, a row and a head at a time: first all scores, then their exponentials, then the sum of
 * values. Bound by the bytes of the cache where each sequence has one new row. The buckets of biases are looked up by distance.
 *
 * Order of sums: a score over D by lanes, folded at the end; the values in order of keys, so a row's result does not depend on
 * how many rows came with it. Nothing crosses threads. */
#include "cpu/columns.h"
#include "cpu/kernels.h"
#include "cpu/sequences/bounds.h"
#include "cpu/simd/simd_math.h"
#include "op/attention/bias_bucket.h"

#include <omp.h>

#define LOG2E 1.44269504f

struct cached {
    int64_t width, D, longest, row_width; /* of the cache's rows, a head; rows of a cache; of qkv's rows */
    float *scores, *o;                    /* of this thread: (most_rows), (D), with room to the next vector */
    const int32_t *buckets;               /* (longest) of all threads: by distance, where there is a table of biases */
};

/* A row and head of sequence b, `at` in the sequence, which sees n keys from `first`. */
struct query {
    int64_t row, b, at, head, first, n;
};

static struct query query_of(const struct args_attention_cached *a, int64_t row, int64_t head, int64_t b)
{
    int64_t past = ((const int32_t *)a->past.data)[b], at = past + row - ((const int32_t *)a->cu.data)[b];
    int64_t first = a->window && at >= a->window ? at - a->window + 1 : 0;
    if (a->kv.data)
        return (struct query){.row = row, .b = b, .head = head, .n = past};
    return (struct query){.row = row, .b = b, .at = at, .head = head, .first = first, .n = at + 1 - first};
}

/* Which row of the caches is row j of sequence b. */
static inline int64_t cache_row(const struct args_attention_cached *a, int64_t longest, int64_t b, int64_t j)
{
    const int32_t *at = a->at.data;
    return !at ? b * longest + j : a->kv.data ? at[b] + j : at[b * longest + j];
}

SIMD void add_biases(const struct args_attention_cached *a, const struct cached *s, const struct query *p)
{
    bool bf16 = a->table.dtype == DT_BF16;
    for (int64_t j = 0; j < p->n; j++) {
        int64_t distance = p->at - p->first - j;
        float entry = vf_get_n(a->table.data, s->buckets[distance] * a->heads + p->head, 1, bf16)[0];
        s->scores[j] += a->furthest ? entry : entry * (float)-distance;
    }
}

/* Scores of the keys, of which the query's head has the elements from `head` on, and their maximum. */
SIMD float score_keys(const struct args_attention_cached *a, const struct cached *s, const struct query *p,
                      int64_t head, bool bf16)
{
    int64_t n = p->n, q = p->row * s->row_width + p->head * s->D;
    float max = -INFINITY, softcap = (float)a->softcap, scale = (float)a->scale;
    for (int64_t j = 0; j < n; j++) {
        vf sum = {0};
        int64_t k = cache_row(a, s->longest, p->b, p->first + j) * s->width + head;
        for (int64_t d = 0; d < s->D; d += VF_LANES)
            sum = vf_fma(vf_get_upto(a->qkv.data, q + d, s->D - d, bf16),
                         vf_get_upto(a->keys.data, k + d, s->D - d, bf16), sum);
        s->scores[j] = vf_hsum(sum) * scale;
    }
    for (int64_t j = 0; j < n && softcap > 0; j += VF_LANES)
        vf_store(s->scores + j, vf_tanh(vf_load(s->scores + j) * (1 / softcap)) * softcap);
    if (a->table.data)
        add_biases(a, s, p);
    for (int64_t j = 0; j < n; j++)
        max = s->scores[j] > max || isnan(s->scores[j]) ? s->scores[j] : max;
    return max;
}

SIMD void attend_row(const struct args_attention_cached *a, const struct cached *s, const struct query *p, bool bf16)
{
    int64_t n = p->n, to = p->row * a->o.shape[1] + p->head * s->D;
    int64_t head = p->head / (a->heads / a->kv_heads) * s->D;
    float max = score_keys(a, s, p, head, bf16), sum = 0;
    if (a->sinks.data) {
        float sink = ((const float *)a->sinks.data)[p->head];
        max = sink > max ? sink : max;
        sum = vf_exp2(vf_set1((sink - max) * LOG2E))[0];
    }
    for (int64_t j = 0; j < n; j += VF_LANES)
        vf_store(s->scores + j, vf_exp2((vf_load(s->scores + j) - max) * LOG2E));
    memset(s->o, 0, sizeof *s->o * (size_t)row_floats(s->D));
    for (int64_t j = 0; j < n; j++) {
        float weight = s->scores[j];
        int64_t v = cache_row(a, s->longest, p->b, p->first + j) * s->width + head;
        sum += weight;
        for (int64_t d = 0; d < s->D; d += VF_LANES)
            vf_store(s->o + d,
                     vf_fma(vf_get_upto(a->values.data, v + d, s->D - d, bf16), vf_set1(weight), vf_load(s->o + d)));
    }
    for (int64_t d = 0; d < s->D; d += VF_LANES)
        vf_put_upto(a->o.data, to + d, vf_load(s->o + d) * (n ? 1 / sum : 0), s->D - d, bf16);
}

/* The key at the end of a row of `from`, and the value behind it, into row `at` of sequence b's cache. */
static void append_row(const struct args_attention_cached *a, const struct tensor *from, int64_t row, int64_t b,
                       int64_t at)
{
    enum dtype type = a->keys.dtype;
    int64_t width = a->keys.shape[2], bytes = dtype_bytes(type, width);
    int64_t to = dtype_bytes(type, cache_row(a, a->keys.shape[1], b, at) * width);
    const char *k = (const char *)from->data + dtype_bytes(type, (row + 1) * from->shape[1] - 2 * width);
    memcpy((char *)a->keys.data + to, k, (size_t)bytes);
    memcpy((char *)a->values.data + to, k + bytes, (size_t)bytes);
}

static void append_rows(const struct args_attention_cached *a)
{
    const struct tensor *from = a->kv.data ? &a->kv : &a->qkv;
    const int32_t *cu = a->kv.data ? a->kv_cu.data : a->cu.data, *past = a->past.data;
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t row = cu[b]; row < cu[b + 1]; row++)
            append_row(a, from, row, b, row - cu[b] + (a->kv.data ? 0 : past[b]));
}

static void fill_buckets(const struct args_attention_cached *a, int32_t *buckets)
{
    for (int64_t i = 0; a->table.data && i < a->keys.shape[1]; i++)
        buckets[i] = !a->furthest ? 0 : bias_bucket(i, 0, a->table.shape[0], a->furthest, true);
}

/* Rows that a sequence may see: those of a cache, or of others, wherever they begin, of all caches. */
static int64_t most_rows(const struct args_attention_cached *a)
{
    return (a->kv.ndim && a->at.ndim ? a->keys.shape[0] : 1) * a->keys.shape[1];
}

int64_t ISA(cpu_attention_cached_workspace)(const struct args_attention_cached *a, int threads)
{
    return 4 * threads * (row_floats(most_rows(a)) + row_floats(a->keys.shape[2] / a->kv_heads)) +
           (a->table.ndim ? 4 * a->keys.shape[1] : 0);
}

void ISA(cpu_attention_cached)(const struct args_attention_cached *a, const struct call *c)
{
    int64_t T = a->o.shape[0], width = a->keys.shape[2], D = width / a->kv_heads;
    int64_t floats = row_floats(most_rows(a)) + row_floats(D); /* of a thread */
    int32_t *buckets = (int32_t *)c->workspace + c->threads * floats;
    bool bf16 = a->qkv.dtype == DT_BF16;
    append_rows(a);
    fill_buckets(a, buckets);
#pragma omp parallel num_threads(c->threads)
    {
        struct cached s = {
            .width = width, .D = D, .longest = a->keys.shape[1], .row_width = a->qkv.shape[1], .buckets = buckets};
        s.scores = (float *)c->workspace + omp_get_thread_num() * floats;
        s.o = s.scores + row_floats(most_rows(a));
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < T * a->heads; task++) {
            int64_t row = task / a->heads, head = task % a->heads, b = bounds_of(&a->cu, row).b;
            if (b < 0) {
                memset((char *)a->o.data + dtype_bytes(a->o.dtype, row * a->o.shape[1] + head * D), 0,
                       (size_t)dtype_bytes(a->o.dtype, D));
                continue;
            }
            struct query p = query_of(a, row, head, b);
            if (bf16)
                attend_row(a, &s, &p, true);
            else
                attend_row(a, &s, &p, false);
        }
    }
}
