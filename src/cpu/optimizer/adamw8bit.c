/* AdamW with 8-bit states (op/adamw8bit.c). It reads and writes 16 bytes a parameter where adamw has 28, but is bound by
 * looking up and finding codes. A block of MAP_BLOCK elements is done in two passes over buffers in the first cache:
 * the update, then the codes, which need the block's largest magnitudes. */
#include "cpu/kernels.h"
#include "cpu/optimizer/stored.h"
#include "cpu/simd/simd_lookup.h"
#include "op/dynamic_map.h"

#include <float.h>

enum { BLOCKS = 16 /* done by a thread at a time */ };

typedef uint8_t vb __attribute__((vector_size(VF_LANES)));

/* What a map needs. With AVX-512 a magnitude is computed from its number, 2^e + j: (base[e] + 0.9 j / 2^e) power[e],
 * which two registers hold; else it is looked up. */
struct magnitudes {
    float map[MAP_CODES], base[16], power[16];
    struct map_finder find;
    int last;
};

static void make_magnitudes(struct magnitudes *t, int last)
{
    memset(t, 0, sizeof *t);
    t->last = last;
    for (int i = 0; i < MAP_CODES; i++)
        t->map[i] = last == MAP_SIGNED_LAST ? map_signed(i) : map_unsigned(i);
    for (int e = last - 6; e <= last; e++) {
        t->base[e] = (float)(0.1 + 0.45 / (1 << e));
        t->power[e] = (float)(1 / map_power(last - e));
    }
    t->base[last + 1] = t->power[last + 1] = 1;
    map_finder_init(&t->find, last);
}

/* The factors of a step. */
struct rates {
    float coef, beta1, rest1, beta2, rest2, eps, rate, scale, decay;
};

SIMD vi get_codes(const uint8_t *codes)
{
    vb c;
    memcpy(&c, codes, sizeof c);
    return __builtin_convertvector(c, vi);
}

SIMD void put_codes(uint8_t *codes, vi c)
{
    vb bytes = __builtin_convertvector(c, vb);
    memcpy(codes, &bytes, sizeof bytes);
}

/* The magnitude with number n >= 1. */
SIMD vf magnitude(const struct magnitudes *t, vi n)
{
    vi bits = (vi) __builtin_convertvector(n, vf), e = (bits >> 23) - 127;
    vf part = (vf)((bits & 0x7FFFFF) | 0x3F800000) - 1; /* j / 2^e */
    return vf_fma(part, vf_set1(0.9f), vf_lookup16(t->base, e)) * vf_lookup16(t->power, e);
}

SIMD vf decode_m(const struct magnitudes *t, const uint8_t *codes)
{
    vi c = get_codes(codes);
    if (VF_LANES < 16)
        return vf_gather(t->map, c);
    vi n = c - MAP_SIGNED_ZERO, below = n < 0, size = (n ^ below) - below;
    return vf_where(size > 0, (vf)((vi)magnitude(t, size) ^ (below & (int32_t)0x80000000u)));
}

SIMD vf decode_v(const struct magnitudes *t, const uint8_t *codes)
{
    vi c = get_codes(codes);
    return VF_LANES < 16 ? vf_gather(t->map, c) : magnitude(t, c + 1);
}

/* The number of the magnitude nearest to each x >= 0 (op/dynamic_map.h); that of 0 for NaN. */
SIMD vi find(const struct map_finder *f, int last, vf x)
{
    int first = last - 6;
    vi e = vi_set1(first);
    for (int k = first + 1; k <= last; k++)
        e = e - (x >= f->least[k]);
    vi cells = vi_set1(1) << e;
    vf size = __builtin_convertvector(cells, vf);
    vf j = vf_fma(x, vf_lookup8(f->scale, e), size * (-1 / 9.0f));
    vi n = cells + __builtin_convertvector(vf_min(vf_max(j, (vf){0}), size - 1), vi);
    vi none = ~(x >= f->least[first]), most = x >= f->least[last + 1];
    n = (~none & n) | (none & vi_set1(first));
    return (~most & n) | (most & vi_set1(2 << last));
}

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
        vf a = vf_fma(scale_m, decode_m(tm, m + i), grad * f->rest1);
        vf b = vf_fma(scale_v, decode_v(tv, v + i), grad * grad * f->rest2);
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
        vi n = find(&tm->find, MAP_SIGNED_LAST, vf_abs(new_m[k]) * to_m), below = new_m[k] < 0;
        vi least = n - (n < 1), most = least + (least > 127); /* 1 … 127: not 0, and no -1 */
        n = (below & -most) | (~below & n);
        put_codes(m + k * VF_LANES, n + MAP_SIGNED_ZERO);
        put_codes(v + k * VF_LANES, find(&tv->find, MAP_UNSIGNED_LAST, new_v[k] * to_v) - 1);
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
