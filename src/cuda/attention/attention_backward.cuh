/* attention_backward.cuh: the backward kernels of attention (attention_engine.cuh), for dq and then for dk and dv. */
#ifndef CUDA_ATTENTION_BACKWARD_CUH
#define CUDA_ATTENTION_BACKWARD_CUH

#include "cuda/attention/attention_bias.cuh"
#include "cuda/attention/attention_biases.cuh"
#include "cuda/attention/attention_engine.cuh"

/* ---- dq ---- */

/* do . o of two rows, in all lanes of a quad, from device memory; all loads are under way before the first is used. */
template <class T, int DP>
__device__ static inline void row_deltas(float (&delta)[2], const T *const (&o)[2], const T *const (&dout)[2], int D,
                                         int c)
{
    constexpr int WIDTH = 16 / (int)sizeof(T), N = (DP + 4 * WIDTH - 1) / (4 * WIDTH);
    pack<T, WIDTH> a[2][N], b[2][N];
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            int d = (4 * i + c) * WIDTH < D ? (4 * i + c) * WIDTH : 0;
            a[h][i] = *(const pack<T, WIDTH> *)(o[h] + d);
            b[h][i] = *(const pack<T, WIDTH> *)(dout[h] + d);
        }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < N; i++)
            if ((4 * i + c) * WIDTH < D)
#pragma unroll
                for (int k = 0; k < WIDTH; k++)
                    sum = fmaf(to_float(a[h][i].v[k]), to_float(b[h][i].v[k]), sum);
        delta[h] = quad_sum(sum);
    }
}

/* Scores become weights: p = 2^(s scale + shift). */
__device__ static __forceinline__ void weights_of_rows(float (&s)[8][4], float sl, const float (&shift)[2])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            s[j][k] = exp2_fast(fmaf(s[j][k], sl, shift[k / 2]));
}

/* dP becomes ds / keep = p (mask dp - delta / keep). */
template <bool DROP>
__device__ static __forceinline__ void slopes_of_rows(float (&ds)[8][4], const float (&s)[8][4],
                                                      const uint32_t (&flags)[2][4], const float (&minus_delta)[2])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float kept = DROP ? mask_float(s[j][k], flags[k / 2][j / 2], j % 2 * 2 + k % 2) : s[j][k];
            ds[j][k] = fmaf(kept, ds[j][k], s[j][k] * minus_delta[k / 2]);
        }
}

/* dq of a tile of ROWS queries, and the statistics that attention_dkdv reads. Longer than a screen: the loop over tiles of keys works
 * on an accumulator and on statistics that live in registers from its start to the store. */
template <class E, int DP, int WARPS, int STAGES, int BLOCKS, bool DROP, enum scores KIND>
__global__ __launch_bounds__(WARPS * 32, BLOCKS) void attention_dq(const __grid_constant__ struct attention_params p)
{
    using T = typename E::type;
    constexpr int ROWS = 16 * WARPS, THREADS = 32 * WARPS, BYTES = tile_bytes<T, TILE, DP>;
    constexpr int AHEAD = STAGES - 1;
    extern __shared__ __align__(1024) char shared[];
    char *q_tile = shared, *do_tile = q_tile + tile_bytes<T, ROWS, DP>, *stages = do_tile + tile_bytes<T, ROWS, DP>;
    struct place at = my_place();
    struct block_rows rows = block_find<ROWS>(p, last_first(p.causal));
    int head = p.first_head + (int)blockIdx.y;
    bool table_learns = KIND == GENERAL && p.table_parts;
    float *parts = table_learns ? p.table_parts + ((int64_t)last_first(p.causal) * p.heads + head) * p.buckets : NULL;
    if (table_learns && (rows.at >= rows.length || rows.padding))
        for (int b = (int)threadIdx.x; b < p.buckets; b += THREADS)
            parts[b] = 0;
    if (rows.at >= rows.length)
        return;
    int left = asking_rows(p, rows), i = rows.at + at.row0 + at.g;
    int row = rows.first + rows.at, width = width_of_queries<KIND>(p), out = p.heads * p.D;
    T *dq = (T *)p.dqkv + (int64_t)row * width + head * p.D;
    rows_clear(dq, width, left, min(rows.length - rows.at, ROWS), p.D);
    if (left == 0)
        return;

    const T *qkv = (const T *)p.qkv, *dout = (const T *)p.dout + (int64_t)row * out + head * p.D;
    struct key_loop<T> loop = key_loop_of<T, ROWS, KIND>(p, rows, head, stages);
    auto load_next = [&] { load_next_keys<T, DP, THREADS, STAGES>(loop); };
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(q_tile), qkv + (int64_t)row * width + head * p.D, width, left,
                                           p.D);
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(do_tile), dout, out, left, p.D);
    tiles_start<AHEAD>(load_next);
    struct bias bias;
    struct bias_sums sums;
    if (KIND == GENERAL && p.table)
        bias = bias_load(p, head, (float *)(stages + STAGES * 2 * BYTES));
    if (table_learns)
        sums = bias_sums_start(p, bias);
    struct bias_rows<T> biases;
    if (KIND == BIASED)
        biases = bias_rows_of<T>(p, p.biases, row, at, left);

    float keep = DROP ? p.keep_scale : 1, shift[2], minus_delta[2], delta[2];
    int r[2] = {at.row0 + at.g, at.row0 + at.g + 8}; /* of the block; those past the sequence read another's values */
    const T *o = (const T *)p.o + (int64_t)row * out + head * p.D;
    int64_t step[2] = {r[0] < left ? (int64_t)r[0] * out : 0, r[1] < left ? (int64_t)r[1] * out : 0};
    row_deltas<T, DP>(delta, {o + step[0], o + step[1]}, {dout + step[0], dout + step[1]}, p.D, at.c);
#pragma unroll
    for (int h = 0; h < 2; h++) { /* rows past the sequence: p = 2^-inf = 0 */
        bool there = r[h] < left;
        int64_t stat = (int64_t)head * p.T + row + r[h];
        minus_delta[h] = -delta[h] / keep;
        shift[h] = there ? -LOG2E * p.lse[stat] : -INFINITY;
        if (there && at.c == 0)
            p.statistics[stat] = make_float2(shift[h], minus_delta[h]);
    }
    struct mask_stream stream;
    struct mask_query queries[2];
    if (DROP) {
        stream = mask_stream(p.rng, p.coords, rows.first, head, p.site, p.threshold);
        queries[0] = mask_query(&stream, (uint32_t)i);
        queries[1] = mask_query(&stream, (uint32_t)i + 8);
    }
    float acc[DP / 8][4] = {}, sl = score_scale<KIND>(p) * LOG2E;
    int unit = rows.at + at.row0 / E::ROW_UNIT * E::ROW_UNIT;
    int first = has_window(KIND) ? loop.first : 0;
    for (int t = first, stage = 0; t < loop.tiles; t++, stage = next_stage<STAGES>(stage)) {
        tile_arrive<E, AHEAD>(t - first, load_next);
        if (p.causal && t * TILE > unit + E::ROW_UNIT - 1)
            continue;
        if (has_window(KIND) && too_far(p, unit, E::ROW_UNIT, t * TILE, TILE))
            continue;
        uint32_t k_tile = shared_address(stages + stage * 2 * BYTES), v_tile = k_tile + BYTES;
        float s[8][4], ds[8][4], slopes[8][4];
        uint32_t flags[2][4];
        struct bias_runs<T> runs;
        if (KIND == BIASED)
            bias_runs_load(runs, biases, t * TILE + 16 * at.c);
        E::template scores<ROWS, DP>(s, shared_address(q_tile), at.row0, k_tile);
        E::template scores<ROWS, DP>(ds, shared_address(do_tile), at.row0, v_tile);
        if (DROP)
            flags_of_keys(flags, &stream, queries, mask_keys(&stream, (uint32_t)(t * TILE / 16 + at.c)));
        E::template wait<1>(s);
        if (KIND == GENERAL && p.table)
            add_bias(s, bias, at, rows.at, t * TILE);
        if (KIND == BIASED)
            bias_runs_add(s, p.scale, runs);
        if (KIND == LIMITED) {
            cap_scores(s, p);
            cap_slopes(slopes, s, p);
            hide_far_keys(s, p, i, t * TILE, at.c, rows.length);
        } else if (KIND == WINDOWED) {
            if (some_keys_hidden(p, unit, E::ROW_UNIT, rows.length, t * TILE))
                hide_far_keys(s, p, i, t * TILE, at.c, rows.length);
        } else if ((t + 1) * TILE > loop.length || (p.causal && (t + 1) * TILE > unit + 1))
            hide_keys(s, i, t * TILE, at.c, loop.length, p.causal);
        weights_of_rows(s, sl, shift);
        E::template wait<0>(ds);
        slopes_of_rows<DROP>(ds, s, flags, minus_delta);
        if (KIND == LIMITED)
            multiply(ds, slopes);
        if (table_learns)
            bias_sums_add(sums, ds, bias, at, rows.at, t * TILE);
        if (KIND == BIASED)
            bias_runs_store(biases, ds, p.scale * keep, t * TILE + 16 * at.c);
        typename E::fragments f;
        E::make(f, ds);
        E::template add_product<DP>(acc, f, k_tile);
        E::template wait<0>(acc);
    }

    if (table_learns)
        bias_sums_store<WARPS>(sums, bias, p, keep, parts);
    __syncthreads();
    tile_store<E, ROWS, DP>(dq, width, left, p.D, acc, p.scale * keep, p.scale * keep, q_tile);
}

/* ---- dk, dv ---- */

/* One bit for each of a tile's decisions that are a lane's: bits 0, 2, 4, 6 of result[j] tell of x[j][0], x[j][2],
 * x[j][1], x[j][3] (queries are columns here). Of a warp's 16 keys and 64 queries, lane 4g + c makes the decisions of
 * queries 8g + 2c and the next, and hands them round. */
__device__ static inline void flags_of_queries(uint32_t (&result)[8], const struct mask_stream *m,
                                               struct mask_keys keys, int query0, struct place at)
{
    uint32_t bits = 0; /* bit 4e + i of byte b: key 4i + b, query e */
#pragma unroll
    for (int e = 0; e < 2; e++) {
        struct philox w = mask_bits(m, mask_query(m, (uint32_t)(query0 + 8 * at.g + 2 * at.c + e)), keys);
#pragma unroll
        for (int i = 0; i < 4; i++)
            bits = bits >> 1 | (mask_flags(m, w.w[i]) & 0x80808080u);
    }
#pragma unroll
    for (int j = 0; j < 8; j++)
        result[j] = __shfl_sync(0xFFFFFFFFu, bits, 4 * j + at.c) >> (8 * (at.g % 4) + at.g / 4);
}

/* The next of the query tiles that see the keys of one block: a tile of one head, and the stage that it goes into. */
struct query_tile {
    int head, tile, into;
};

/* Starts loading q, do and the statistics of a tile of `queries` queries from row `first` on. */
template <class T, int DP, int THREADS>
__device__ static __forceinline__ void load_queries(const struct attention_params &p, const struct query_tile &n,
                                                    int first, int queries, int width, int out, char *stages,
                                                    float2 *statistics)
{
    constexpr int BYTES = tile_bytes<T, TILE, DP>;
    int from = first + n.tile * TILE, valid = queries - n.tile * TILE;
    const T *q = (const T *)p.qkv + (int64_t)from * width + n.head * p.D;
    const T *dout = (const T *)p.dout + (int64_t)from * out + n.head * p.D;
    uint32_t to = shared_address(stages + n.into * 2 * BYTES);
    tile_load<T, TILE, DP, THREADS, false>(to, q, width, valid, p.D);
    tile_load<T, TILE, DP, THREADS, false>(to + BYTES, dout, out, valid, p.D);
    /* queries of zeros are without effect: s = 0, p = 1, do = 0 */
    const float2 *stat = p.statistics + (int64_t)n.head * p.T + from;
#pragma unroll
    for (int i = 0; i < (TILE + THREADS - 1) / THREADS; i++) {
        int k = i * THREADS + (int)threadIdx.x;
        if (k < TILE)
            copy_8(shared_address(statistics + n.into * TILE + k), stat + k, k < valid);
    }
}

/* -inf for queries before a key (rows), with a causal mask. */
__device__ static __forceinline__ void hide_queries(float (&s)[8][4], int key, int query0, int c)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (query0 + 8 * j + 2 * c + k % 2 < key + k / 2 * 8)
                s[j][k] = -INFINITY;
}

/* -inf for queries past the sequence, whose bias could be anything. */
__device__ static inline void hide_missing_queries(float (&s)[8][4], int query0, int c, int queries)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (query0 + 8 * j + 2 * c + k % 2 >= queries)
                s[j][k] = -INFINITY;
}

/* hide_queries with a window. */
__device__ static inline void hide_far_queries(float (&s)[8][4], const struct attention_params &p, int key, int query0,
                                               int c)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        struct span queries = queries_seeing(p, key + 8 * h, p.T);
        int from = queries.from - query0 - 2 * c, end = queries.end - query0 - 2 * c;
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (8 * j + e < from || 8 * j + e >= end)
                    s[j][2 * h + e] = -INFINITY;
    }
}

/* Scores become weights, and those that dropout keeps; the queries' -delta / keep comes along. */
template <bool DROP>
__device__ static __forceinline__ void weights_of_columns(float (&s)[8][4], float (&kept)[8][4],
                                                          float (&minus_delta)[8][2], const float2 *stat,
                                                          const uint32_t (&flags)[8], float sl, int c)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float4 two = *(const float4 *)(stat + 8 * j + 2 * c);
        minus_delta[j][0] = two.y;
        minus_delta[j][1] = two.w;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            s[j][k] = exp2_fast(fmaf(s[j][k], sl, k % 2 ? two.z : two.x));
            kept[j][k] = DROP && !(flags[j] >> (k % 2 * 4 + k / 2 * 2) & 1) ? 0 : s[j][k];
        }
    }
}

/* dk and dv of a tile of ROWS keys, summed over the query heads that share them. Longer than a screen: the loop over heads and tiles of
 * queries works on two accumulators that live in registers to the store, and loads ahead with counters of its own. */
template <class E, int DP, int WARPS, int STAGES, int BLOCKS, bool DROP, enum scores KIND>
__global__ __launch_bounds__(WARPS * 32, BLOCKS) void attention_dkdv(const __grid_constant__ struct attention_params p)
{
    using T = typename E::type;
    constexpr int ROWS = 16 * WARPS, THREADS = 32 * WARPS, BYTES = tile_bytes<T, TILE, DP>;
    constexpr int AHEAD = STAGES - 1;
    extern __shared__ __align__(1024) char shared[];
    char *k_tile = shared, *v_tile = k_tile + tile_bytes<T, ROWS, DP>, *stages = v_tile + tile_bytes<T, ROWS, DP>;
    float2 *statistics = (float2 *)(stages + STAGES * 2 * BYTES); /* of each stage's queries */
    struct place at = my_place();
    struct block_rows rows = KIND == GENERAL ? block_find<ROWS>(p.kv_cu, p.kv_rows, p.B, (int)blockIdx.x)
                                             : block_find<ROWS>(p, (int)blockIdx.x);
    if (rows.at >= rows.length)
        return;
    int kv_head = p.first_head + (int)blockIdx.y, group = p.heads / p.kv_heads, left = rows.length - rows.at;
    int row = rows.first + rows.at, q_width = width_of_queries<KIND>(p), out = p.heads * p.D;
    int width = KIND == GENERAL ? p.kv_width : q_width;
    int k_column = (KIND == GENERAL ? kv_head : p.heads + kv_head) * p.D, v_column = k_column + p.kv_heads * p.D;
    T *dkeys = (T *)(KIND == GENERAL ? p.dkeys : p.dqkv) + (int64_t)row * width;
    T *dk = dkeys + k_column, *dv = dkeys + v_column;
    if (rows.padding) {
        rows_clear(dk, width, 0, min(left, ROWS), p.D);
        rows_clear(dv, width, 0, min(left, ROWS), p.D);
        return;
    }

    const T *keys_from = (const T *)(KIND == GENERAL ? p.keys : p.qkv) + (int64_t)row * width;
    float keep = DROP ? p.keep_scale : 1;
    int first = KIND == GENERAL ? p.cu[rows.sequence] : rows.first; /* of the queries */
    int queries = KIND == GENERAL ? p.cu[rows.sequence + 1] - first : rows_asking(p, rows.length);
    int tile0 = p.causal ? rows.at / TILE : 0, tiles = (queries + TILE - 1) / TILE;
    if (has_window(KIND) && p.window) {
        tile0 = max(tile0, max(0, rows.at - p.window + 1) / TILE);
        tiles = min(tiles, (rows.at + ROWS - 1 + p.window + TILE - 1) / TILE);
    }
    if (KIND != PLAIN && tiles <= tile0) { /* no query sees these keys */
        rows_clear(dk, width, 0, min(left, ROWS), p.D);
        rows_clear(dv, width, 0, min(left, ROWS), p.D);
        return;
    }
    int end = (kv_head + 1) * group;
    struct query_tile next = {kv_head * group, tile0, 0};
    auto load_next = [&] {
        if (next.head < end) {
            load_queries<T, DP, THREADS>(p, next, first, queries, q_width, out, stages, statistics);
            next.into = next_stage<STAGES>(next.into);
            if (++next.tile == tiles) {
                next.tile = tile0;
                next.head++;
            }
        }
        loads_commit();
    };
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(k_tile), keys_from + k_column, width, left, p.D);
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(v_tile), keys_from + v_column, width, left, p.D);
    tiles_start<AHEAD>(load_next);
    struct bias bias;
    if (KIND == GENERAL && p.table)
        bias = bias_load(p, kv_head, (float *)(statistics + STAGES * TILE));
    struct bias_rows<T> biases;
    if (KIND == BIASED)
        biases = bias_rows_of<T>(p, p.biases_of_keys, row, at, left);

    struct mask_stream stream;
    struct mask_keys keys;
    if (DROP) {
        stream = mask_stream(p.rng, p.coords, first, kv_head * group, p.site, p.threshold);
        keys = mask_keys(&stream, (uint32_t)(rows.at + at.row0) / 16);
    }
    float dk_acc[DP / 8][4] = {}, dv_acc[DP / 8][4] = {}, sl = score_scale<KIND>(p) * LOG2E;
    int unit = rows.at + at.row0 / E::ROW_UNIT * E::ROW_UNIT, key = rows.at + at.row0 + at.g;
    for (int n = 0, t = tile0, head = kv_head * group, stage = 0; head < end; n++, stage = next_stage<STAGES>(stage)) {
        tile_arrive<E, AHEAD>(n, load_next);
        int query0 = t * TILE;
        if (DROP)
            stream.head = (uint32_t)head << 20;
        if (++t == tiles) {
            t = tile0;
            head++;
        }
        if (p.causal && query0 + TILE - 1 < unit)
            continue;
        if (has_window(KIND) && too_far(p, query0, TILE, unit, E::ROW_UNIT))
            continue;
        uint32_t q_tile = shared_address(stages + stage * 2 * BYTES), do_tile = q_tile + BYTES;
        const float2 *stat = statistics + stage * TILE;
        float s[8][4], ds[8][4], slopes[8][4]; /* rows are keys, columns are queries */
        uint32_t flags[8];
        pack<bias_t<T>, 2> pairs[2][8];
        if (KIND == BIASED)
            bias_pairs_load(pairs, biases, query0 + 2 * at.c);
        E::template scores<ROWS, DP>(s, shared_address(k_tile), at.row0, q_tile);
        E::template scores<ROWS, DP>(ds, shared_address(v_tile), at.row0, do_tile);
        if (DROP)
            flags_of_queries(flags, &stream, keys, query0, at);
        E::template wait<1>(s);
        if (KIND == GENERAL && p.table)
            add_bias_to_columns(s, bias, at, rows.at, query0);
        if (KIND == BIASED)
            bias_pairs_add(s, p.scale, pairs);
        if ((KIND == GENERAL || KIND == BIASED) && query0 + TILE > queries)
            hide_missing_queries(s, query0, at.c, queries);
        if (KIND == LIMITED) {
            cap_scores(s, p);
            cap_slopes(slopes, s, p);
            hide_far_queries(s, p, key, query0, at.c);
        } else if (KIND == WINDOWED) {
            if (some_queries_hidden(p, unit, E::ROW_UNIT, query0))
                hide_far_queries(s, p, key, query0, at.c);
        } else if (p.causal && query0 < unit + E::ROW_UNIT - 1)
            hide_queries(s, key, query0, at.c);
        typename E::fragments f;
        float kept[8][4], minus_delta[8][2];
        weights_of_columns<DROP>(s, kept, minus_delta, stat, flags, sl, at.c);
        E::make(f, kept);
        E::template wait<0>(ds);
        E::template add_product<DP>(dv_acc, f, do_tile);
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                ds[j][k] = fmaf(kept[j][k], ds[j][k], s[j][k] * minus_delta[j][k % 2]);
        if (KIND == LIMITED)
            multiply(ds, slopes);
        if (KIND == BIASED)
            bias_pairs_store(biases, ds, p.scale * keep, query0 + 2 * at.c);
        typename E::fragments f2;
        E::make(f2, ds);
        E::template add_product<DP>(dk_acc, f2, q_tile);
        E::template wait<0>(dv_acc);
        E::template wait<0>(dk_acc);
    }

    __syncthreads();
    tile_store<E, ROWS, DP>(dk, width, left, p.D, dk_acc, p.scale * keep, p.scale * keep, k_tile);
    tile_store<E, ROWS, DP>(dv, width, left, p.D, dv_acc, keep, keep, v_tile);
}

/* ---- launching ---- */

template <class T, int DP, class C>
constexpr int dq_bytes = 2 * (tile_bytes<T, C::rows, DP> + C::stages * tile_bytes<T, TILE, DP>);
template <class T, int DP, class C>
constexpr int dkdv_bytes = dq_bytes<T, DP, C> + C::stages *TILE *(int)sizeof(float2);

template <class E, int DP, class C, class C2>
static int launch_backward(const struct attention_params *p, const struct cuda_call *c)
{
    attention_kernel *dq = ATTENTION_KERNEL(p, E, attention_dq, DP, C::warps, C::stages, C::blocks);
    attention_kernel *dkdv = ATTENTION_KERNEL(p, E, attention_dkdv, DP, C2::warps, C2::stages, C2::blocks);
    struct attention_grid of_queries = {p->T, p->heads, C::warps, dq_bytes<typename E::type, DP, C>};
    struct attention_grid of_keys = {p->T, p->kv_heads, C2::warps, dkdv_bytes<typename E::type, DP, C2>};
    TRY(attention_launch(dq, p, of_queries, c, "attention_bwd"));
    return attention_launch(dkdv, p, of_keys, c, "attention_bwd");
}

/* Of GENERAL scores. */
template <class E, int DP, class C>
static int launch_general_backward(const struct attention_params *p, const struct cuda_call *c)
{
    const char *op = "attention_general_bwd";
    attention_kernel *dq = KERNEL_OF_KIND(p, E, GENERAL, attention_dq, DP, C::warps, C::stages, C::blocks);
    attention_kernel *dkdv = KERNEL_OF_KIND(p, E, GENERAL, attention_dkdv, DP, C::warps, C::stages, C::blocks);
    int sums = p->table_parts ? C::warps : 0;
    struct attention_grid of_queries = {p->T, p->heads, C::warps,
                                        dq_bytes<typename E::type, DP, C> + bias_bytes(p, sums)};
    struct attention_grid of_keys = {p->kv_rows, p->heads, C::warps,
                                     dkdv_bytes<typename E::type, DP, C> + bias_bytes(p, 0)};
    if (p->T > 0)
        TRY(attention_launch(dq, p, of_queries, c, op));
    return p->dkeys && p->kv_rows > 0 ? attention_launch(dkdv, p, of_keys, c, op) : SNUG_OK;
}

/* Of BIASED scores, so many heads. */
template <class E, int DP, class C, class C2>
static int launch_biased_backward(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    const char *op = "attention_disentangled_bwd";
    attention_kernel *dq = KERNEL_OF_KIND(p, E, BIASED, attention_dq, DP, C::warps, C::stages, C::blocks);
    attention_kernel *dkdv = KERNEL_OF_KIND(p, E, BIASED, attention_dkdv, DP, C2::warps, C2::stages, C2::blocks);
    struct attention_grid of_queries = {p->T, heads, C::warps, dq_bytes<typename E::type, DP, C>};
    struct attention_grid of_keys = {p->T, heads, C2::warps, dkdv_bytes<typename E::type, DP, C2>};
    TRY(attention_launch(dq, p, of_queries, c, op));
    return attention_launch(dkdv, p, of_keys, c, op);
}

#endif
