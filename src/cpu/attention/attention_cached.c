/* Attention of new rows to a cache, a row and a head at a time: first all scores, then their exponentials, then the sum of
 * values. Bound by the bytes of the cache where each sequence has one new row.
 *
 * Order of sums: a score over D by lanes, folded at the end; the values in order of keys, so a row's result does not depend on
 * how many rows came with it. Nothing crosses threads. */
#include "cpu/columns.h"
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"

#include <omp.h>

#define LOG2E 1.44269504f

struct cached {
    int64_t width, D, longest, row_width; /* of the cache's rows, a head; rows of a cache; of qkv's rows */
    float *scores, *o;                    /* of this thread: (longest), (D), with room to the next vector */
};

/* The sequence of a row, or -1 for one behind the last. */
static int64_t sequence_of_row(const int32_t *cu, int64_t B, int64_t row)
{
    int64_t low = 0, high = B;
    if (B == 0 || row >= cu[B])
        return -1;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (cu[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Scores of n keys, their maximum. */
SIMD float score_keys(const struct args_attention_cached *a, const struct cached *s, int64_t q, int64_t k, int64_t n,
                      bool bf16)
{
    float max = -INFINITY, softcap = (float)a->softcap, scale = (float)a->scale;
    for (int64_t j = 0; j < n; j++) {
        vf sum = {0};
        for (int64_t d = 0; d < s->D; d += VF_LANES)
            sum = vf_fma(vf_get_upto(a->qkv.data, q + d, s->D - d, bf16),
                         vf_get_upto(a->keys.data, k + j * s->width + d, s->D - d, bf16), sum);
        s->scores[j] = vf_hsum(sum) * scale;
    }
    for (int64_t j = 0; j < n && softcap > 0; j += VF_LANES)
        vf_store(s->scores + j, vf_tanh(vf_load(s->scores + j) * (1 / softcap)) * softcap);
    for (int64_t j = 0; j < n; j++)
        max = s->scores[j] > max || isnan(s->scores[j]) ? s->scores[j] : max;
    return max;
}

SIMD void attend_row(const struct args_attention_cached *a, const struct cached *s, int64_t row, int64_t b, int64_t at,
                     int64_t head, bool bf16)
{
    int64_t first = a->window && at >= a->window ? at - a->window + 1 : 0, n = at + 1 - first;
    int64_t kv = head / (a->heads / a->kv_heads), cache = (b * s->longest + first) * s->width + kv * s->D;
    float max = score_keys(a, s, row * s->row_width + head * s->D, cache, n, bf16), sum = 0;
    for (int64_t j = 0; j < n; j += VF_LANES)
        vf_store(s->scores + j, vf_exp2((vf_load(s->scores + j) - max) * LOG2E));
    memset(s->o, 0, sizeof *s->o * (size_t)row_floats(s->D));
    for (int64_t j = 0; j < n; j++) {
        float weight = s->scores[j];
        sum += weight;
        for (int64_t d = 0; d < s->D; d += VF_LANES)
            vf_store(s->o + d, vf_fma(vf_get_upto(a->values.data, cache + j * s->width + d, s->D - d, bf16),
                                      vf_set1(weight), vf_load(s->o + d)));
    }
    for (int64_t d = 0; d < s->D; d += VF_LANES)
        vf_put_upto(a->o.data, row * a->o.shape[1] + head * s->D + d, vf_load(s->o + d) * (1 / sum), s->D - d, bf16);
}

/* The key and the value of a new row into the cache. */
static void append_row(const struct args_attention_cached *a, int64_t row, int64_t b, int64_t at)
{
    enum dtype type = a->keys.dtype;
    int64_t width = a->keys.shape[2], bytes = dtype_bytes(type, width);
    int64_t to = dtype_bytes(type, (b * a->keys.shape[1] + at) * width);
    const char *k = (const char *)a->qkv.data + dtype_bytes(type, (row + 1) * a->qkv.shape[1] - 2 * width);
    memcpy((char *)a->keys.data + to, k, (size_t)bytes);
    memcpy((char *)a->values.data + to, k + bytes, (size_t)bytes);
}

int64_t ISA(cpu_attention_cached_workspace)(const struct args_attention_cached *a, int threads)
{
    return 4 * threads * (row_floats(a->keys.shape[1]) + row_floats(a->keys.shape[2] / a->kv_heads));
}

void ISA(cpu_attention_cached)(const struct args_attention_cached *a, const struct call *c)
{
    int64_t T = a->o.shape[0], B = a->cu.shape[0] - 1, width = a->keys.shape[2], D = width / a->kv_heads;
    const int32_t *cu = a->cu.data, *past = a->past.data;
    bool bf16 = a->qkv.dtype == DT_BF16;
    for (int64_t b = 0; b < B; b++)
        for (int64_t row = cu[b]; row < cu[b + 1]; row++)
            append_row(a, row, b, past[b] + row - cu[b]);
#pragma omp parallel num_threads(c->threads)
    {
        struct cached s = {.width = width, .D = D, .longest = a->keys.shape[1], .row_width = a->qkv.shape[1]};
        s.scores = (float *)c->workspace + omp_get_thread_num() * (row_floats(s.longest) + row_floats(D));
        s.o = s.scores + row_floats(s.longest);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < T * a->heads; task++) {
            int64_t row = task / a->heads, head = task % a->heads, b = sequence_of_row(cu, B, row);
            if (b < 0)
                memset((char *)a->o.data + dtype_bytes(a->o.dtype, row * a->o.shape[1] + head * D), 0,
                       (size_t)dtype_bytes(a->o.dtype, D));
            else if (bf16)
                attend_row(a, &s, row, b, past[b] + row - cu[b], head, true);
            else
                attend_row(a, &s, row, b, past[b] + row - cu[b], head, false);
        }
    }
}
