/* attention_bias.cuh: the bias by distance of GENERAL scores (op/attention/attention_general.c), and the gradient of its table. Both are by
 * distance first, key - query, since all that a tile has lies on few diagonals: a block keeps the biases of its head in shared memory,
 * and each of its warps sums of slopes. A warp's part of a tile that lies further apart than `furthest` has one bias, and one sum. */
#ifndef CUDA_ATTENTION_BIAS_CUH
#define CUDA_ATTENTION_BIAS_CUH

#include "cuda/attention/attention_engine.cuh"

extern "C" {
#include "op/attention/bias_bucket.h"
}

/* The distances of a warp's part of a tile, some of which is nearer than `furthest`, are below furthest + MARGIN. */
constexpr int MARGIN = TILE + 16;

__host__ __device__ static inline int bias_distances(const struct attention_params &p)
{
    return 2 * (p.furthest + MARGIN) + 1;
}

/* Shared memory for the biases and `sums` arrays of sums. */
static inline int bias_bytes(const struct attention_params *p, int sums)
{
    return p->table && p->furthest ? (1 + sums) * bias_distances(*p) * (int)sizeof(float) : 0;
}

struct bias {
    float *at; /* of distance 0; NULL: the biases are slope times distance */
    int furthest;
    float scale; /* of scores */
    float slope;
};

__device__ static inline int bucket_of_distance(const struct attention_params &p, int distance)
{
    int near = max(-p.furthest, min(p.furthest, distance));
    return bias_bucket(max(-near, 0), max(near, 0), p.buckets, p.furthest, p.causal);
}

/* Of a head; the barrier before a loop's first tile comes before their use. */
__device__ static inline struct bias bias_load(const struct attention_params &p, int head, float *shared)
{
    int middle = p.furthest + MARGIN;
    if (!p.furthest)
        return {NULL, 0, p.scale, p.table[head]};
    for (int i = (int)threadIdx.x; i <= 2 * middle; i += (int)blockDim.x)
        shared[i] = p.table[bucket_of_distance(p, i - middle) * p.heads + head];
    return {shared + middle, p.furthest, p.scale, 0};
}

/* Where all of a warp's distances, from `least` to `most`, have the same bias: at -furthest or at furthest; elsewhere 0. */
__device__ static inline int one_distance(const struct bias &b, int least, int most)
{
    return least >= b.furthest ? b.furthest : most <= -b.furthest ? -b.furthest : 0;
}

__device__ static inline void scale_and_add(float (&s)[8][4], float scale, float bias)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            s[j][k] = fmaf(s[j][k], scale, bias);
}

/* With biases that are slope times distance; the first element's distance is `first`, and the others' are that and `step`s. */
__device__ static inline void scale_and_slope(float (&s)[8][4], const struct bias &b, int first, int step_j,
                                              int step_one, int step_two)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            s[j][k] =
                fmaf(s[j][k], b.scale, b.slope * (float)(first + step_j * j + step_one * (k % 2) + step_two * (k / 2)));
}

/* Scores of a warp's queries become s scale + bias; the block's queries begin at `query0`, the tile's keys at `key0`. */
__device__ static inline void add_bias(float (&s)[8][4], const struct bias &b, struct place at, int query0, int key0)
{
    int query = query0 + at.row0, far = one_distance(b, key0 - query - 15, key0 + TILE - 1 - query);
    if (!b.at) {
        scale_and_slope(s, b, key0 + 16 * at.c - query - at.g, 2, 1, -8);
        return;
    }
    if (far) {
        scale_and_add(s, b.scale, b.at[far]);
        return;
    }
    const float *own = b.at + (key0 + 16 * at.c - query - at.g);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            s[j][k] = fmaf(s[j][k], b.scale, own[2 * j + k % 2 - k / 2 * 8]);
}

/* Likewise where rows are keys, from `key0` on, and columns queries. */
__device__ static inline void add_bias_to_columns(float (&s)[8][4], const struct bias &b, struct place at, int key0,
                                                  int query0)
{
    int key = key0 + at.row0, far = one_distance(b, key - query0 - TILE + 1, key + 15 - query0);
    if (!b.at) {
        scale_and_slope(s, b, key + at.g - query0 - 2 * at.c, -8, -1, 8);
        return;
    }
    if (far) {
        scale_and_add(s, b.scale, b.at[far]);
        return;
    }
    const float *own = b.at + (key + at.g - query0 - 2 * at.c);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            s[j][k] = fmaf(s[j][k], b.scale, own[k / 2 * 8 - 8 * j - k % 2]);
}

/* ---- the table's gradient ---- */

/* A warp's sums of ds / keep by distance; those that are far, in lanes of their own. */
struct bias_sums {
    float *at, below, above; /* at: of distance 0 */
};

/* Behind the biases in shared memory. */
__device__ static inline struct bias_sums bias_sums_start(const struct attention_params &p, const struct bias &b)
{
    int n = bias_distances(p), middle = p.furthest + MARGIN;
    float *own = b.at - middle + n * (1 + (int)threadIdx.x / 32);
    for (int i = (int)threadIdx.x % 32; i < n; i += 32)
        own[i] = 0;
    __syncwarp();
    return {own + middle, 0, 0};
}

/* Adds a tile's, which stand as in add_bias. Of a lane's, those of query g + 8 are 8 nearer than those of query g, so that all are on
 * 24 diagonals. Lanes add to diagonals 16c - g + m at once, which differ, and so do those of m + 8. */
__device__ static inline void bias_sums_add(struct bias_sums &sums, const float (&ds)[8][4], const struct bias &b,
                                            struct place at, int query0, int key0)
{
    int query = query0 + at.row0, far = one_distance(b, key0 - query - 15, key0 + TILE - 1 - query);
    if (far) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < 8; j++)
            sum += (ds[j][0] + ds[j][1]) + (ds[j][2] + ds[j][3]);
        if (far < 0)
            sums.below += sum;
        else
            sums.above += sum;
        return;
    }
    float *own = sums.at + (key0 + 16 * at.c - query - at.g);
#pragma unroll
    for (int m = 0; m < 8; m++) {
        float first = ds[m / 2][2 + m % 2], second = ds[m / 2][m % 2] + ds[4 + m / 2][2 + m % 2];
        float before = own[m - 8], after = own[m];
        own[m - 8] = before + first;
        own[m] = after + second;
        __syncwarp();
    }
#pragma unroll
    for (int m = 8; m < 16; m++) {
        own[m] += ds[m / 2][m % 2];
        __syncwarp();
    }
}

/* The block's part of the table's gradient (buckets): the warps' sums times keep, over the distances of each bucket, which are
 * neighbours. All threads of the block call it; nobody may still read the biases, which make room for where buckets begin. */
template <int WARPS>
__device__ static inline void bias_sums_store(const struct bias_sums &sums, const struct bias &b,
                                              const struct attention_params &p, float keep, float *to)
{
    int n = bias_distances(p), middle = p.furthest + MARGIN, t = (int)threadIdx.x;
    float below = warp_sum(sums.below), above = warp_sum(sums.above);
    if (t % 32 == 0) {
        sums.at[-p.furthest] += below;
        sums.at[p.furthest] += above;
    }
    __syncthreads();
    int *begin = (int *)(b.at - middle);
    float *all = b.at - middle + n;
    for (int i = t; i < p.buckets; i += 32 * WARPS)
        begin[i] = n;
    __syncthreads();
    for (int i = t; i < n; i += 32 * WARPS) {
        int bucket = bucket_of_distance(p, i - middle);
        if (i == 0 || bucket_of_distance(p, i - 1 - middle) != bucket)
            begin[bucket] = i;
        for (int w = 1; w < WARPS; w++)
            all[i] += all[w * n + i];
    }
    __syncthreads();
    for (int bucket = t; bucket < p.buckets; bucket += 32 * WARPS) {
        float sum = 0;
        for (int i = begin[bucket]; i < n && bucket_of_distance(p, i - middle) == bucket; i++)
            sum += all[i];
        to[bucket] = sum * keep;
    }
}

#endif
