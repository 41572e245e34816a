/* codes.h: states of 8 bits on the CPU: from codes to numbers and back (op/optimizer/dynamic_map.h), a vector at a time. */
#ifndef CPU_OPTIMIZER_CODES_H
#define CPU_OPTIMIZER_CODES_H

#include "cpu/simd/simd_lookup.h"
#include "op/optimizer/dynamic_map.h"

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

SIMD vf decode_signed(const struct magnitudes *t, const uint8_t *codes)
{
    vi c = get_codes(codes);
    if (VF_LANES < 16)
        return vf_gather(t->map, c);
    vi n = c - MAP_SIGNED_ZERO, below = n < 0, size = (n ^ below) - below;
    return vf_where(size > 0, (vf)((vi)magnitude(t, size) ^ (below & (int32_t)0x80000000u)));
}

SIMD vf decode_unsigned(const struct magnitudes *t, const uint8_t *codes)
{
    vi c = get_codes(codes);
    return VF_LANES < 16 ? vf_gather(t->map, c) : magnitude(t, c + 1);
}

/* The number of the magnitude nearest to each x >= 0 (op/optimizer/dynamic_map.h); that of 0 for NaN. */
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

/* The code nearest to x / largest, with to = 1 / largest; below 0 it is not that of 0, and there is none of -1. */
SIMD vi encode_signed(const struct magnitudes *t, vf x, vf to)
{
    vi n = find(&t->find, MAP_SIGNED_LAST, vf_abs(x) * to), below = x < 0;
    vi least = n - (n < 1), most = least + (least > 127); /* 1 … 127 */
    return ((below & -most) | (~below & n)) + MAP_SIGNED_ZERO;
}

SIMD vi encode_unsigned(const struct magnitudes *t, vf x, vf to)
{
    return find(&t->find, MAP_UNSIGNED_LAST, x * to) - 1;
}

#endif
