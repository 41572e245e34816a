/* rotary.h: how the heads of qkv lie, for the kernels of rotary and rotary_bwd. */
#ifndef OP_ROTARY_H
#define OP_ROTARY_H

#include "graph/op.h"

/* A row of qkv has A query heads, K key heads and K value heads of D elements; of the first two kinds, R elements of each
 * are rotated. Heads that are normalised as one are a group: one head, or all of q and all of k. */
struct rotary_shape {
    int64_t T, A, K, D, R, width, groups;
    bool by_group; /* in qkv, and not in y: each key head behind its queries, and its value behind it */
    bool interleaved;
};

struct rotary_group {
    int64_t first, count; /* heads */
    bool key;             /* of k: takes its gamma */
};

static inline struct rotary_shape rotary_shape(const struct tensor *qkv, const struct tensor *table,
                                               const struct tensor *q_gamma, int64_t heads, int64_t kv_heads,
                                               int64_t by_group, int64_t interleaved)
{
    struct rotary_shape s = {.T = qkv->shape[0],
                             .A = heads,
                             .K = kv_heads,
                             .width = qkv->shape[1],
                             .by_group = by_group != 0,
                             .interleaved = interleaved != 0};
    s.D = s.width / (heads + 2 * kv_heads);
    s.R = table->ndim ? table->shape[1] : 0;
    s.groups = q_gamma->ndim && q_gamma->shape[0] != s.D ? 2 : heads + kv_heads;
    return s;
}

/* Where the elements of pair i of a head lie: the first, and how far behind it the second. */
static inline int64_t rotary_pair(const struct rotary_shape *s, int64_t i)
{
    return s->interleaved ? 2 * i : i;
}

static inline int64_t rotary_distance(const struct rotary_shape *s)
{
    return s->interleaved ? 1 : s->R / 2;
}

/* Where head h of y (of q, then k, then v) lies in qkv, in heads. */
static inline int64_t rotary_source(const struct rotary_shape *s, int64_t h)
{
    int64_t queries = s->A / s->K, value = h - s->A - s->K;
    if (!s->by_group)
        return h;
    if (h < s->A)
        return h / queries * (queries + 2) + h % queries;
    return value < 0 ? (h - s->A) * (queries + 2) + queries : value * (queries + 2) + queries + 1;
}

static inline struct rotary_group rotary_group(const struct rotary_shape *s, int64_t g)
{
    if (s->groups == s->A + s->K)
        return (struct rotary_group){.first = g, .count = 1, .key = g >= s->A};
    return (struct rotary_group){.first = g ? s->A : 0, .count = g ? s->K : s->A, .key = g > 0};
}

#endif
