/* attention_tile.cuh: which rows a block works on, and how tiles of them come into shared memory.
 *
 * A tile's row is cut into panels of 128 bytes. Panel p of all rows lies together, and within it the 16-byte chunk c of
 * row r lies at chunk c ^ (r % 8). None of the ways in which tiles are read has bank conflicts then, and it is the
 * "128-byte swizzle" of wgmma. */
#ifndef CUDA_ATTENTION_TILE_CUH
#define CUDA_ATTENTION_TILE_CUH

#include "cuda/kernels/barrier.cuh"
#include "cuda/kernels/kernel.cuh"

constexpr int TILE = 64; /* rows of a tile that a block's loop goes over */

/* A node of attention or attention_bwd as its kernels get it. A heads of queries, K of keys and values (kv_heads; it divides A), D
 * elements a head, a multiple of 8. Tensors are the plan's, in device memory, dense and aligned to 16 bytes; those without a type
 * here are all of the node's dtype. Rows behind the last sequence are padding: outputs are 0 there. */
struct attention_params {
    const void *qkv;  /* (T, (A+2K) D): queries, keys, values of a row, head after head */
    const void *dout; /* (T, A D); backward */
    void *o;          /* (T, A D); the backward pass reads it */
    void *dqkv;       /* as qkv; backward */
    float *lse;       /* (A,T): log of the sum of exponentials, natural; the backward pass reads it */
    uint32_t *mask;   /* where the dropout mask is kept (mask_word_at), or NULL */

    /* The backward pass's workspace, of which a kernel uses one or the other. statistics (A,T): -lse in units of log 2, and
     * -do . o / keep_scale, from dq's kernel to that of dk and dv. sums (attention_short_parts, (A+2K) D): of dqkv's columns over the
     * rows of a part; NULL where nobody wants them. */
    float2 *statistics;
    float *sums;

    const int32_t *cu;     /* (B+1): sequence b is [cu[b], cu[b + 1]) */
    const int32_t *coords; /* (T,2): sample and position of a row */
    const int32_t *rng;    /* (4): seed, step (op/mask.h) */
    int T, B, heads, kv_heads, D, causal;
    int longest;        /* of the sequences, at most; 0: not known */
    int queries;        /* only the first so many rows of a sequence ask; 0: all */
    float scale;        /* of scores, at least 0 */
    float keep_scale;   /* what dropout multiplies kept weights with */
    uint32_t site;      /* of the dropout */
    uint32_t threshold; /* in 256ths: what share of the weights is dropped; 0: none */
    int window;         /* as op/attention/attention.c has it, but 0 where it is as long as any sequence */
    float softcap;      /* 0: none */

    /* Of a node of attention_general, whose `qkv` and `dqkv` are its queries' q and dq: rows of q_width elements. */
    int q_width, kv_width; /* from a row to the next */
    const void *keys;      /* row 0's first key; values are A D elements on */
    void *dkeys;           /* likewise; NULL: keys do not learn */
    const int32_t *kv_cu;  /* (B+1) */
    int kv_rows;           /* of keys; their padding goes with that */
    const float *table;    /* (buckets, A), or NULL: no bias */
    int buckets, furthest; /* op/attention/bias_bucket.h */
    float *table_parts;    /* (block_places of queries, A, buckets), from dq's kernel; NULL: the table does not learn */

    /* Of a node of attention_disentangled, of whose heads a launch does some: those from first_head on (elsewhere 0). biases: (heads of
     * the launch, T, bias_pitch), of each query its sequence's keys; in its place dq's kernel leaves the gradients of scores.
     * biases_of_keys: likewise of each key its sequence's queries, for the kernel of dk and dv. Biases are of the type that
     * attention_biases.cuh says. */
    int first_head, bias_pitch;
    void *biases, *biases_of_keys;
};

/* What scores want besides a causal mask. */
enum scores {
    PLAIN,
    WINDOWED, /* a window alone */
    LIMITED,  /* a softcap, a window or both */
    GENERAL,  /* a bias by distance; keys may be another tensor's, of other sequences */
    BIASED,   /* a bias for each query and key */
};

/* Whether they are LIMITED, or WINDOWED where kernels for that are made. */
static inline bool scores_limited(const struct attention_params *p)
{
    return p->window > 0 || p->softcap > 0;
}

/* Whether kernels of a kind look at the window. */
__host__ __device__ static constexpr bool has_window(enum scores kind)
{
    return kind == WINDOWED || kind == LIMITED;
}

/* ---- what sees what ---- */

/* Rows from `from` to end - 1 of a sequence. Both grow with what sees them, or is seen by them. */
struct span {
    int from, end;
};

/* The keys that a query sees, of `length`. */
__device__ static inline struct span keys_seen(const struct attention_params &p, int query, int length)
{
    int from = p.window ? max(0, query - p.window + 1) : 0, end = p.causal ? min(length, query + 1) : length;
    return {from, p.window ? min(end, query + p.window) : end};
}

/* The queries that see a key, of `queries`. */
__device__ static inline struct span queries_seeing(const struct attention_params &p, int key, int queries)
{
    int from = p.causal ? key : p.window ? max(0, key - p.window + 1) : 0;
    return {from, p.window ? min(queries, key + p.window) : queries};
}

/* Whether a tile of `rows` rows from row `at` on is seen in part only by the rows whose first and last see these. */
__device__ static inline bool seen_in_part(struct span first, struct span last, int at, int rows)
{
    return at < last.from || at + rows > first.end;
}

/* ---- blocks ---- */

/* A block's rows: those from `at` on of a sequence of `length` rows that begins at `first`; the sequence after the last
 * is the padding. */
struct block_rows {
    int first, length, at, sequence;
    bool padding;
};

/* How many rows of a sequence ask. */
__device__ static inline int rows_asking(const struct attention_params &p, int length)
{
    return p.queries ? min(p.queries, length) : length;
}

/* Grid size for blocks of R rows that straddle no sequence: sequence b has the places from cu[b] / R + b on, which are
 * always enough, and known without a sum over sequences. */
static inline unsigned block_places(int64_t T, int64_t B, int R)
{
    return (unsigned)(T / R + B + 1);
}

/* The rows of place `i` < block_places(T, B, R); at >= length when it has none. All lanes of a warp call it. */
template <int R> __device__ static inline struct block_rows block_find(const int32_t *cu, int T, int B, int i)
{
    int lane = (int)threadIdx.x % 32, b = 0, candidates = B + 1; /* of the last b that begins at or before i */
    while (candidates > 1) {
        int step = (candidates + 31) / 32;
        bool before = lane * step < candidates && cu[b + lane * step] / R + b + lane * step <= i;
        int last = 31 - __clz((int)__ballot_sync(0xFFFFFFFFu, before));
        b += last * step;
        candidates = min(step, candidates - last * step);
    }
    int first = cu[b], end = b < B ? cu[b + 1] : T;
    return {first, end - first, (i - first / R - b) * R, b, b == B};
}

/* Likewise of queries. */
template <int R> __device__ static inline struct block_rows block_find(const struct attention_params &p, int i)
{
    return block_find<R>(p.cu, p.T, p.B, i);
}

/* How many of the rows ask. */
__device__ static inline int asking_rows(const struct attention_params &p, struct block_rows rows)
{
    return rows.padding ? 0 : max(0, rows_asking(p, rows.length) - rows.at);
}

/* The words of a kept mask (op/attention/attention.c) that belong to 16 queries of a head, from their query `at` of the sequence
 * on. A tile's 32 words lie behind those of the tile before. Word 4g + c is made of queries g and g + 8 and the tile's
 * keys from 16c on (mask_word). The next 16 queries are mask_pitch on. */
__device__ static inline uint32_t mask_pitch(const struct attention_params &p)
{
    return (uint32_t)(p.heads * ((p.longest + TILE - 1) / TILE) * 32);
}

__device__ static inline uint32_t mask_word_at(const struct attention_params &p, int sequence, int first, int head,
                                               int at)
{
    uint32_t rows = (uint32_t)((first + 15 * sequence) / 16 + at / 16);
    return rows * mask_pitch(p) + (uint32_t)head * (mask_pitch(p) / (uint32_t)p.heads);
}

/* The block's place; with `reverse` places are dealt out from the last on: causal query tiles have the more keys the
 * later they are, and the longest should not begin last. */
__device__ static inline int last_first(int reverse)
{
    return (int)(reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}

/* Byte offset of chunk c of row r in a tile of ROWS rows. */
template <int ROWS> __device__ static inline uint32_t chunk_offset(int r, int c)
{
    return (uint32_t)((c >> 3) * (ROWS * 128) + r * 128 + ((c & 7) ^ (r & 7)) * 16);
}

/* The same in two steps, for loops: where row r begins, with its swizzle; then chunk c. Row r + 8 is 1024 bytes on. */
__device__ static inline uint32_t row_start(uint32_t tile, int r)
{
    return tile + (uint32_t)(r * 128 + (r & 7) * 16);
}

template <int ROWS> __device__ static inline uint32_t chunk_at(uint32_t start, int c)
{
    return (start ^ (uint32_t)(c & 7) * 16) + (uint32_t)((c >> 3) * (ROWS * 128));
}

template <class T, int ROWS, int DP> constexpr int tile_bytes = (DP * (int)sizeof(T) + 127) / 128 * 128 * ROWS;

/* Starts copying 16 bytes; without `there` the source is not read, and zeros are written. */
__device__ static inline void copy_16(uint32_t to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

__device__ static inline void copy_8(uint32_t to, const void *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(there ? 8 : 0) : "memory");
}

/* Key tiles are loaded in an order in which a lane of a product's result holds 16 neighbouring keys, a whole Philox
 * call: row 8j + 2c + e of the tile is key 16c + 2j + e. */
__device__ static inline int key_of_row(int n)
{
    return (n >> 1 & 3) * 16 + (n >> 3) * 2 + (n & 1);
}

/* Starts copying ROWS rows of D elements into the tile at `to` (tile_bytes of shared memory, aligned to 1024). The first row is at
 * `from`, the next `stride` elements on, both aligned to 16 bytes. Rows from `valid` on (at or below 0: all), and columns from D to DP,
 * are 0 and not read. KEYS: in the order of key_of_row. Done by THREADS threads, of which this is number t. Where threads stay in
 * their column, a thread's addresses are a fixed step apart. */
template <class T, int ROWS, int DP, int THREADS, bool KEYS>
__device__ static inline void tile_load(uint32_t to, const T *from, int stride, int valid, int D, int t)
{
    constexpr int WIDTH = 16 / (int)sizeof(T), CHUNKS = DP / WIDTH;
    constexpr bool STEADY = THREADS % (8 * CHUNKS) == 0 && ROWS * CHUNKS % THREADS == 0;
    int row = t / CHUNKS, chunk = t % CHUNKS;
    if (STEADY) {
        constexpr int STEP = THREADS / CHUNKS, FROM_STEP = KEYS ? STEP / 4 : STEP;
        int r = KEYS ? key_of_row(row) : row, rest = chunk * WIDTH < D ? valid - r : 0;
        const T *source = from + (int64_t)r * stride + chunk * WIDTH;
        to += chunk_offset<ROWS>(row, chunk);
#pragma unroll
        for (int i = 0; i < ROWS / STEP; i++, source += FROM_STEP * (int64_t)stride)
            copy_16(to + (uint32_t)(i * STEP * 128), source, i * FROM_STEP < rest);
    } else {
#pragma unroll 4
        for (int i = t; i < ROWS * CHUNKS; i += THREADS) {
            row = i / CHUNKS, chunk = i % CHUNKS;
            int r = KEYS ? key_of_row(row) : row;
            copy_16(to + chunk_offset<ROWS>(row, chunk), from + (int64_t)r * stride + chunk * WIDTH,
                    r < valid && chunk * WIDTH < D);
        }
    }
}

template <class T, int ROWS, int DP, int THREADS, bool KEYS>
__device__ static inline void tile_load(uint32_t to, const T *from, int stride, int valid, int D)
{
    tile_load<T, ROWS, DP, THREADS, KEYS>(to, from, stride, valid, D, (int)threadIdx.x);
}

/* What this thread has started copying since the last call is one group. */
__device__ static inline void loads_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most N of this thread's groups, the latest, are under way. Other threads see the copies behind a barrier. */
template <int N> __device__ static inline void loads_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Writes a warp's 16 rows of a result by way of its own rows of a tile in shared memory (nobody may still read them), so that whole
 * chunks go out. `to` is the block's first row, `valid` the rows that there are. Element (row g, column E::column(j) + e) is x[j][e]
 * times factor0, (g + 8, ...) is x[j][2 + e] times factor1. All lanes of the warp call it. */
template <class E, int ROWS, int DP>
__device__ static inline void tile_store(typename E::type *to, int stride, int valid, int D,
                                         const float (&x)[DP / 8][4], float factor0, float factor1, char *tile)
{
    using T = typename E::type;
    constexpr int WIDTH = 16 / (int)sizeof(T), CHUNKS = DP / WIDTH;
    int lane = (int)threadIdx.x % 32, row0 = (int)threadIdx.x / 32 * 16, g = lane / 4;
#pragma unroll
    for (int j = 0; j < DP / 8; j++) {
        int column = E::column(j);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float f = h ? factor1 : factor0;
            pack<T, 2> two = {{from_float<T>(x[j][2 * h] * f), from_float<T>(x[j][2 * h + 1] * f)}};
            *(pack<T, 2> *)(tile + chunk_offset<ROWS>(row0 + g + 8 * h, column / WIDTH) +
                            column % WIDTH * (int)sizeof(T)) = two;
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16 * CHUNKS / 32; i++) {
        int at = i * 32 + lane, row = row0 + at / CHUNKS, chunk = at % CHUNKS;
        if (row < valid && chunk * WIDTH < D)
            *(int4 *)(to + (int64_t)row * stride + chunk * WIDTH) =
                *(const int4 *)(tile + chunk_offset<ROWS>(row, chunk));
    }
}

/* Zeros in D columns of rows [from, end), by all threads of the block; `to` is row 0. */
template <class T> __device__ static inline void rows_clear(T *to, int stride, int from, int end, int D)
{
    int chunks = D / (16 / (int)sizeof(T));
    for (int i = from * chunks + (int)threadIdx.x; i < end * chunks; i += (int)blockDim.x)
        *(int4 *)(to + (int64_t)(i / chunks) * stride + i % chunks * (16 / (int)sizeof(T))) = make_int4(0, 0, 0, 0);
}

#endif
