/* attention_engine.cuh: how attention's three kernels are written, over an engine E that does the products of tiles.
 *
 *     forward    a block per query tile; loops over key tiles with a running softmax (Dao, arXiv 2307.08691)
 *     backward 1 a block per query tile: dq; also do_i . o_i of each query, for backward 2
 *     backward 2 a block per key tile: dk, dv; loops over query tiles
 *
 * The backward pass makes S and dP twice, seven products instead of five. For that no sum crosses a block, nothing goes
 * through shared memory between two products, and every sum has a fixed order: over tiles upwards, within a tile that
 * of the product. Bound by arithmetic: the tensor cores, and about ten instructions for each score.
 *
 * The three are longer than a screen: all that a step of their loop works on is in registers, and a part of the loop would take most
 * of it as arguments.
 *
 * E has
 *
 *     type
 *     ROW_UNIT       the rows that a product makes together (of one warp or four)
 *     KEEPS_MASK     whether the forward pass leaves its dropout mask for the backward pass where there is room for it
 *     LIMITS, WINDOWS   whether kernels for LIMITED and for WINDOWED scores are made
 *     fragments      the left factor of a product in registers
 *     column(j)      the column of a sum in which a lane has x[j][0], where tiles are stored
 *     scores()       = A B^T of two tiles in shared memory
 *     add_product()  += F B, F fragments; like scores() it may run on until wait()
 *     make(), make_masked()   fragments of a product's sums, with 0 where a flag is down
 *     arrived()      what this thread has copied may be read by products, behind the next barrier
 *     wait<N>(x)     until at most N products are under way; x is of one that is done
 *
 * A warp has 16 rows of each product. Of these, lane 4g + c has rows g and g + 8; x[j][0] and x[j][1] are columns 8j + 2c and
 * 8j + 2c + 1 of row g, x[j][2] and x[j][3] those of row g + 8. */
#ifndef CUDA_ATTENTION_ENGINE_CUH
#define CUDA_ATTENTION_ENGINE_CUH

#include "cuda/attention/attention_mask.cuh"
#include "cuda/attention/attention_tile.cuh"

__device__ static inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}

/* Where a lane stands in its warp's 16 rows, and the warp in its block. */
struct place {
    int lane, row0, g, c;
};

__device__ static inline struct place my_place(void)
{
    int t = (int)threadIdx.x;
    return {t % 32, (int)same_in_warp(threadIdx.x / 32) * 16, t % 32 / 4, t % 4};
}

/* -inf for keys that query i (and i + 8) does not see: s of a key tile that begins at `key0`. */
__device__ static inline void hide_keys(float (&s)[8][4], int i, int key0, int c, int length, int causal)
{
    int end0 = causal ? min(length, i + 1) : length, end1 = causal ? min(length, i + 9) : length;
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int key = key0 + 16 * c + 2 * j + e;
            if (key >= end0)
                s[j][e] = -INFINITY;
            if (key >= end1)
                s[j][2 + e] = -INFINITY;
        }
}

/* ---- windows and soft caps ---- */

/* Whether rows [query, query + queries) and [key, key + keys) lie so far apart that none of the queries sees a key. */
__device__ static inline bool too_far(const struct attention_params &p, int query, int queries, int key, int keys)
{
    return p.window && (query - (key + keys - 1) >= p.window || key - (query + queries - 1) >= p.window);
}

/* Whether some of the queries in rows [query, query + queries) do not see all keys of a tile. */
__device__ static inline bool some_keys_hidden(const struct attention_params &p, int query, int queries, int length,
                                               int key)
{
    return seen_in_part(keys_seen(p, query, length), keys_seen(p, query + queries - 1, length), key, TILE);
}

/* Whether some of the keys in rows [key, key + keys) are not seen by all queries of a tile. */
__device__ static inline bool some_queries_hidden(const struct attention_params &p, int key, int keys, int query)
{
    return seen_in_part(queries_seeing(p, key, p.T), queries_seeing(p, key + keys - 1, p.T), query, TILE);
}

/* hide_keys with a window. */
__device__ static inline void hide_far_keys(float (&s)[8][4], const struct attention_params &p, int i, int key0, int c,
                                            int length)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        struct span keys = keys_seen(p, i + 8 * h, length);
        int from = keys.from - key0 - 16 * c, end = keys.end - key0 - 16 * c;
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (2 * j + e < from || 2 * j + e >= end)
                    s[j][2 * h + e] = -INFINITY;
    }
}

/* Scores, not yet scaled, become capped ones: c tanh(s scale / c). score_scale is what is left to multiply them with. */
__device__ static inline void cap_scores(float (&s)[8][4], const struct attention_params &p)
{
    if (p.softcap > 0)
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                s[j][k] = p.softcap * tanhf(s[j][k] * (p.scale / p.softcap));
}

template <enum scores KIND> __device__ static inline float score_scale(const struct attention_params &p)
{
    return (KIND == LIMITED && p.softcap > 0) || (KIND == GENERAL && p.table) || KIND == BIASED ? 1 : p.scale;
}

/* From a row of queries to the next. */
template <enum scores KIND> __device__ static inline int width_of_queries(const struct attention_params &p)
{
    return KIND == GENERAL ? p.q_width : (p.heads + 2 * p.kv_heads) * p.D;
}

/* The slopes of capped scores, 1 - (s / c)^2. */
__device__ static inline void cap_slopes(float (&slopes)[8][4], const float (&s)[8][4],
                                         const struct attention_params &p)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float bent = p.softcap > 0 ? s[j][k] / p.softcap : 0;
            slopes[j][k] = 1 - bent * bent;
        }
}

__device__ static inline void multiply(float (&x)[8][4], const float (&y)[8][4])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            x[j][k] *= y[j][k];
}

/* Flags of a lane's two queries and 16 keys of a tile: byte 2j + e of query h is element x[j][2h + e]. */
__device__ static inline void flags_of_keys(uint32_t (&flags)[2][4], const struct mask_stream *m,
                                            const struct mask_query (&q)[2], struct mask_keys k)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        struct philox bits = mask_bits(m, q[h], k);
#pragma unroll
        for (int i = 0; i < 4; i++)
            flags[h][i] = mask_flags(m, bits.w[i]);
    }
}

/* ---- a loop's tiles ---- */

template <int STAGES> __device__ static inline int next_stage(int stage)
{
    return stage + 1 == STAGES ? 0 : stage + 1;
}

/* load_next() starts loading the loop's next tile, if there is one, and commits. AHEAD of them are kept under way. */
template <int AHEAD, class L> __device__ static inline void tiles_start(const L &load_next)
{
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        load_next();
}

/* Waits for tile n. All threads are then done with tile n - 1. */
template <class E, int AHEAD, class L> __device__ static inline void tile_arrive(int n, const L &load_next)
{
    if (AHEAD == 0) {
        if (n > 0)
            __syncthreads();
        load_next();
    }
    loads_wait<(AHEAD > 0 ? AHEAD - 1 : 0)>();
    E::arrived();
    __syncthreads();
    if (AHEAD > 0)
        load_next();
}

/* The key tiles that the rows of one query block see, for loops over them: keys and values of one head, a stage each. */
template <class T> struct key_loop {
    const T *keys;
    int width, values, D, length; /* a row's elements; from a key to its value; keys of the sequence */
    int first, tiles, next, into; /* tiles from first to tiles - 1 */
    uint32_t stages;
};

/* Of query head `head` and the block's ROWS queries; the stages lie at `stages` in shared memory. */
template <class T, int ROWS, enum scores KIND>
__device__ static inline struct key_loop<T> key_loop_of(const struct attention_params &p, struct block_rows rows,
                                                        int head, const char *stages)
{
    int width = KIND == GENERAL ? p.kv_width : (p.heads + 2 * p.kv_heads) * p.D, first = 0, length = rows.length;
    const T *keys;
    if (KIND == GENERAL) {
        int first_row = p.kv_cu[rows.sequence];
        length = p.kv_cu[rows.sequence + 1] - first_row;
        keys = (const T *)p.keys + (int64_t)first_row * width + head * p.D;
    } else
        keys = (const T *)p.qkv + (int64_t)rows.first * width + (p.heads + head / (p.heads / p.kv_heads)) * p.D;
    int seen = p.causal ? min(length, rows.at + ROWS) : length;
    if (has_window(KIND) && p.window) {
        first = max(0, rows.at - p.window + 1) / TILE;
        seen = min(seen, rows.at + ROWS - 1 + p.window);
    }
    return {keys,  width, p.kv_heads * p.D,      p.D, length, first, (seen + TILE - 1) / TILE,
            first, 0,     shared_address(stages)};
}

/* Starts loading the loop's next tile, if there is one, and commits. All threads of the block call it. */
template <class T, int DP, int THREADS, int STAGES> __device__ static inline void load_next_keys(struct key_loop<T> &l)
{
    constexpr int BYTES = tile_bytes<T, TILE, DP>;
    if (l.next < l.tiles) {
        uint32_t to = l.stages + (uint32_t)(l.into * 2 * BYTES);
        const T *from = l.keys + (int64_t)(l.next * TILE) * l.width;
        int valid = l.length - l.next * TILE;
        tile_load<T, TILE, DP, THREADS, true>(to, from, l.width, valid, l.D);
        tile_load<T, TILE, DP, THREADS, true>(to + BYTES, from + l.values, l.width, valid, l.D);
        l.next++;
        l.into = next_stage<STAGES>(l.into);
    }
    loads_commit();
}

/* ---- launching ---- */

/* Of one kernel. WARPS: of a block. STAGES: tiles that shared memory holds, one of them computed with, the others on
 * their way (1: a tile is loaded when the one before is done with). BLOCKS: of a multiprocessor, which caps the
 * registers. LATE: the last product of a tile may run on into the next tile, which keeps one tile more. */
template <int WARPS, int STAGES, int BLOCKS, bool LATE = false> struct cut {
    static constexpr int warps = WARPS, stages = STAGES, blocks = BLOCKS, rows = 16 * WARPS;
    static constexpr bool late = LATE;
};

typedef void attention_kernel(const struct attention_params);

/* KERNEL<E, DP, C's cut..., DROP, KIND> for p, which is not GENERAL. LIMITED and WINDOWED ones are made for engines that say so, without
 * dropout. */
#define ATTENTION_KERNEL(p, E, KERNEL, ...)                                                                            \
    [&]() -> attention_kernel * {                                                                                      \
        if constexpr (E::LIMITS)                                                                                       \
            if (scores_limited(p))                                                                                     \
                return KERNEL<E, __VA_ARGS__, false, LIMITED>;                                                         \
        if constexpr (E::WINDOWS)                                                                                      \
            if (p->window)                                                                                             \
                return KERNEL<E, __VA_ARGS__, false, WINDOWED>;                                                        \
        return p->threshold ? KERNEL<E, __VA_ARGS__, true, PLAIN> : KERNEL<E, __VA_ARGS__, false, PLAIN>;              \
    }()

/* The kernels for scores of that KIND, with dropout and without. */
#define KERNEL_OF_KIND(p, E, KIND, KERNEL, ...)                                                                        \
    (p->threshold ? KERNEL<E, __VA_ARGS__, true, KIND> : KERNEL<E, __VA_ARGS__, false, KIND>)

/* Blocks of 16 rows a warp, of so many rows, for each head; bytes of shared memory. */
struct attention_grid {
    int rows, heads, warps, bytes;
};

static inline int attention_launch(attention_kernel *kernel, const struct attention_params *p, struct attention_grid g,
                                   const struct cuda_call *c, const char *op)
{
    TRY(cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, g.bytes), op, c->err));
    kernel<<<dim3(block_places(g.rows, p->B, 16 * g.warps), (unsigned)g.heads), (unsigned)(32 * g.warps),
             (size_t)g.bytes, c->stream>>>(*p);
    return cuda_launched(c, op);
}

#endif
