/* codes.h: optimizer states of 8 bits, as the reference reads and writes them: in blocks of MAP_BLOCK consecutive elements,
 * each element a code (op/optimizer/dynamic_map.h) times the largest magnitude of its block. bitsandbytes has states that may be
 * negative, and the only state of an optimizer that has but one, in signed codes. */
#ifndef OP_CODES_H
#define OP_CODES_H

#include "graph/op.h"
#include "op/optimizer/dynamic_map.h"

struct graph;

/* A state in codes, (n) U8, and the largest magnitudes of its blocks, (ceil(n / MAP_BLOCK)). */
struct codes {
    uint8_t *code;
    double *absmax;
    float map[MAP_CODES];
    bool is_signed;
};

void codes_open(struct codes *c, const struct tensor *code, const struct tensor *absmax, bool is_signed);

/* Elements [from, from + n) as numbers, n <= MAP_BLOCK, from a multiple of it; and back, each to the nearest code, where a
 * negative number never becomes 0. A block of zeros has absmax 0 and the codes of 0. */
void codes_read(const struct codes *c, int64_t from, int64_t n, double *x);
void codes_write(const struct codes *c, int64_t from, int64_t n, const double *x);

/* The code whose value is nearest; values ascend. */
int codes_nearest(const float *map, double x);

/* Shape rule: whether the state `id` of p is U8 of p's shape, with its absmax; fails the graph otherwise. */
bool codes_fit(struct graph *g, int p, int id, int absmax, const char *op);

#endif
