/* AdamW with 8-bit states (op/optimizer/adamw8bit.c). It reads and writes 16 bytes a parameter where adamw has 28, but is bound by
 * looking up and finding codes. A block of MAP_BLOCK elements is done in two passes over buffers in the first cache:
 * the update, then the codes, which need the block's largest magnitudes. */
#include "cpu/kernels.h"
#include "cpu/optimizer/codes.h"
#include "cpu/optimizer/stored.h"

#include <float.h>

enum { BLOCKS = 16 /* done by a thread at a time */ };

/* The factors of a step. */
struct rates {
    float coef, beta1, rest1, beta2, rest2, eps, rate, scale, decay;
};

/* The weight's elements from `at` on; the others from where they point to. */
SIMD void update_block(struct stored *p, int64_t at, const void *g, uint8_t *m, uint8_t *v, float *absmax_m,
                       float *absmax_v, const struct magnitudes *tm, const struct magnitudes *tv, const struct rates *f,
                       bool narrow, bool pure)
{
    vf new_m[MAP_BLOCK / VF_LANES], new_v[MAP_BLOCK / VF_LANES], most_m = {0}, most_v = {0};
    vf scale_m = vf_set1(f->beta1 * *absmax_m), scale_v = vf_set1(f->beta2 * *absmax_v), coef = vf_set1(f->coef);
    vf rate = vf_set1(f->rate), eps = vf_set1(f->eps), scale = vf_set1(f->scale), decay = vf_set1(f->decay);
    for (int k = 0; k < MAP_BLOCK / VF_LANES; k++) {
        int i = k * VF_LANES;
        vf grad = vf_get(g, i, narrow) * coef, w = stored_get(p, at + i, VF_LANES, pure);
        vf a = vf_fma(scale_m, decode_signed(tm, m + i), grad * f->rest1);
        vf b = vf_fma(scale_v, decode_unsigned(tv, v + i), grad * grad * f->rest2);
        w = vf_fma(rate, a / vf_fma(vf_sqrt(b), scale, eps), w);
        stored_put(p, at + i, vf_fma(decay, w, w), VF_LANES, pure);
        most_m = vf_max(vf_abs(a), most_m);
        most_v = vf_max(b, most_v);
        new_m[k] = a;
        new_v[k] = b;
    }
    *absmax_m = vf_hmax(most_m);
    *absmax_v = vf_hmax(most_v);
    vf to_m = vf_set1(1 / fmaxf(*absmax_m, FLT_MIN)), to_v = vf_set1(1 / fmaxf(*absmax_v, FLT_MIN));
    for (int k = 0; k < MAP_BLOCK / VF_LANES; k++) {
        put_codes(m + k * VF_LANES, encode_signed(tm, new_m[k], to_m));
        put_codes(v + k * VF_LANES, encode_unsigned(tv, new_v[k], to_v));
    }
}

/* The last block of a tensor, of n < MAP_BLOCK elements, in buffers that go on with zeros. */
SIMD void update_rest(const struct args_adamw8bit *a, struct stored *p, int64_t from, int64_t n,
                      const struct magnitudes *tm, const struct magnitudes *tv, const struct rates *f, bool narrow,
                      bool pure)
{
    float w[MAP_BLOCK] = {0}, g[MAP_BLOCK] = {0};
    struct stored wide = {.data = w};
    uint8_t m[MAP_BLOCK], v[MAP_BLOCK] = {0};
    int64_t b = from / MAP_BLOCK;
    memset(m, MAP_SIGNED_ZERO, sizeof m);
    memcpy(m, (uint8_t *)a->m.data + from, (size_t)n);
    memcpy(v, (uint8_t *)a->v.data + from, (size_t)n);
    for (int64_t i = 0; i < n; i += VF_LANES) {
        vf_store(g + i, vf_get_upto(a->g.data, from + i, n - i, narrow));
        vf_store(w + i, stored_get(p, from + i, n - i, pure));
    }
    update_block(&wide, 0, g, m, v, (float *)a->absmax_m.data + b, (float *)a->absmax_v.data + b, tm, tv, f, false,
                 false);
    for (int64_t i = 0; i < n; i += VF_LANES)
        stored_put(p, from + i, vf_load(w + i), n - i, pure);
    memcpy((uint8_t *)a->m.data + from, m, (size_t)n);
    memcpy((uint8_t *)a->v.data + from, v, (size_t)n);
}

SIMD void adamw8bit(const struct args_adamw8bit *a, int threads, bool narrow, bool pure)
{
    const double *step = a->step.data;
    double lr = step[STEP_LR], at = step[STEP_UPDATE];
    struct rates f = {.coef = a->coef.data ? *(const float *)a->coef.data : 1,
                      .beta1 = (float)a->beta1,
                      .rest1 = (float)(1 - a->beta1),
                      .beta2 = (float)a->beta2,
                      .rest2 = (float)(1 - a->beta2),
                      .eps = (float)a->eps,
                      .rate = (float)(-lr / (1 - pow(a->beta1, at))),
                      .scale = (float)(1 / sqrt(1 - pow(a->beta2, at))),
                      .decay = (float)(-lr * a->weight_decay)};
    struct magnitudes tm, tv;
    int64_t n = tensor_elements(&a->p);
    bool narrow_copy = a->copy.dtype == DT_BF16;
    if (f.coef < 0)
        return;
    make_magnitudes(&tm, MAP_SIGNED_LAST);
    make_magnitudes(&tv, MAP_UNSIGNED_LAST);
#pragma omp parallel for schedule(static) num_threads(n <= PARALLEL_FROM ? 1 : threads)
    for (int64_t start = 0; start < n; start += BLOCKS * MAP_BLOCK) {
        int64_t end = start + BLOCKS * MAP_BLOCK < n ? start + BLOCKS * MAP_BLOCK : n;
        struct stored p = stored_of(&a->p, step, a->noise, ROUND_WEIGHT);
        for (int64_t i = start; i < end; i += MAP_BLOCK)
            if (end - i < MAP_BLOCK)
                update_rest(a, &p, i, end - i, &tm, &tv, &f, narrow, pure);
            else
                update_block(&p, i, (const char *)a->g.data + dtype_bytes(a->g.dtype, i), (uint8_t *)a->m.data + i,
                             (uint8_t *)a->v.data + i, (float *)a->absmax_m.data + i / MAP_BLOCK,
                             (float *)a->absmax_v.data + i / MAP_BLOCK, &tm, &tv, &f, narrow, pure);
        for (int64_t i = start; a->copy.data && i < end; i += VF_LANES)
            vf_put_upto(a->copy.data, i, stored_get(&p, i, end - i, pure), end - i, narrow_copy);
    }
}

void ISA(cpu_adamw8bit)(const struct args_adamw8bit *a, const struct call *c)
{
    bool narrow = a->g.dtype == DT_BF16;
    if (a->p.dtype == DT_BF16)
        narrow ? adamw8bit(a, c->threads, true, true) : adamw8bit(a, c->threads, false, true);
    else
        narrow ? adamw8bit(a, c->threads, true, false) : adamw8bit(a, c->threads, false, false);
}
