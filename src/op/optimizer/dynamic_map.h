/* dynamic_map.h: the 256 numbers that the codes of an 8-bit optimizer state stand for (create_dynamic_map of
 * bitsandbytes, 7 exponent bits, to the bit: it calculates in F32), times the largest magnitude of their block.
 *
 * Seven decades below 1; in each the midpoints of evenly spaced points from 0.1 to 1, twice as many as in the decade
 * below it; 0; and 1. A magnitude has a number n: 2^e + j is the j-th midpoint of decade e,
 *
 *     10^(e-last) (0.1 + 0.9 (j + 1/2) / 2^e)        j = 0 … 2^e - 1
 *
 *     signed      e = 0 … 6 (last), n = 1 … 127; 0 is n 0, 1 is n 128; codes 127 + n, and 127 - n for -n (but no -1)
 *     unsigned    e = 1 … 7 (last), n = 2 … 255; 0 is n 1, 1 is n 256; codes n - 1 */
#ifndef OP_DYNAMIC_MAP_H
#define OP_DYNAMIC_MAP_H

#include "base/philox.h"

#include <stdbool.h>
#include <stdint.h>

enum { MAP_CODES = 256, MAP_BLOCK = 256 /* elements that share a largest magnitude */ };
enum { MAP_SIGNED_ZERO = 127, MAP_SIGNED_LAST = 6, MAP_UNSIGNED_LAST = 7 };

/* 10^k for k = 0 … 7; exact. */
ON_DEVICE static inline double map_power(int k)
{
    double p = 1;
    for (; k > 0; k--)
        p *= 10;
    return p;
}

/* Point k of 2^e + 1 from 0.1 to 1, as torch.linspace rounds it: from the nearer end on. */
ON_DEVICE static inline float map_point(int k, int e)
{
    int n = 1 << e;
    float first = 0.1f, step = (1 - first) / (float)n;
    return k < (n + 1) / 2 ? (float)((double)first + (double)step * k) : (float)(1 - (double)step * (n - k));
}

/* The midpoint with number n. */
ON_DEVICE static inline float map_midpoint(int n, int last)
{
    int e = 0;
    while (n >> (e + 1))
        e++;
    int j = n - (1 << e);
    return (map_point(j, e) + map_point(j + 1, e)) / 2 * (float)(1 / map_power(last - e));
}

ON_DEVICE static inline float map_signed(int code)
{
    int n = code < MAP_SIGNED_ZERO ? MAP_SIGNED_ZERO - code : code - MAP_SIGNED_ZERO;
    float x = n == 0 ? 0 : n == 128 ? 1 : map_midpoint(n, MAP_SIGNED_LAST);
    return code < MAP_SIGNED_ZERO ? -x : x;
}

ON_DEVICE static inline float map_unsigned(int code)
{
    return code == 0 ? 0 : code == MAP_CODES - 1 ? 1 : map_midpoint(code + 1, MAP_UNSIGNED_LAST);
}

/* To find the number of the nearest magnitude without a search. Its decade is found by comparing with least[e],
 * half-way from the largest of the decade below. There the midpoints are the middles of cells of equal width, so that
 * the cell of x is the nearest: j = floor(x scale[e] - 2^e / 9). Below least[e of the first decade] the nearest is 0,
 * from least[last+1] on it is 1. */
struct map_finder {
    float least[9], scale[8];
};

ON_DEVICE static inline void map_finder_entry(struct map_finder *f, int e, int last)
{
    int first = last - 6;
    double below = e > first ? (double)map_midpoint((1 << e) - 1, last) : 0,
           here = e > last ? 1 : (double)map_midpoint(1 << e, last);
    if (e >= first)
        f->least[e] = (float)((below + here) / 2);
    if (e <= last)
        f->scale[e] = (float)((1 << e) / 0.9 * map_power(last - e));
}

/* The same for one binade, 2^(k-24) <= x < 2^(k-23), k = 0 … 24 (and what is smaller for 0, larger for 24): at most one
 * of the borders lies in a binade. Below `border` it is n = low + min(floor(x low_scale - low / 9), low - 1), 0 at least,
 * from there on the same with high. */
struct map_binade {
    float border, low_scale, high_scale;
    uint16_t low, high;
};
enum { MAP_BINADES = 25 };

ON_DEVICE static inline void map_binade_init(struct map_binade *b, int k, int last)
{
    struct map_finder f;
    int e = last - 7, first = last - 6;
    double from = 1;
    for (int i = k; i < 24; i++)
        from /= 2;
    for (int i = first; i <= last + 1; i++) {
        map_finder_entry(&f, i, last);
        if (k > 0 && f.least[i] <= from)
            e = i;
    }
    bool border = e <= last && f.least[e + 1] < 2 * from;
    b->border = border ? f.least[e + 1] : 3e38f;
    b->low = (uint16_t)(e < first ? first : 1 << e);
    b->low_scale = e < first || e > last ? 0 : f.scale[e];
    b->high = (uint16_t)(border ? 1 << (e + 1) : b->low);
    b->high_scale = !border || e + 1 > last ? 0 : f.scale[e + 1];
}

static inline void map_finder_init(struct map_finder *f, int last)
{
    for (int e = last - 6; e <= last + 1; e++)
        map_finder_entry(f, e, last);
}

#endif
