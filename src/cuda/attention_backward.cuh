/* attention_backward.cuh: the backward kernels of attention (attention_engine.cuh), for dq and then for dk and dv. */
#ifndef CUDA_ATTENTION_BACKWARD_CUH
#define CUDA_ATTENTION_BACKWARD_CUH

#include "cuda/attention_engine.cuh"

/* ---- dq ---- */

/* do . o of rows g and g + 8 of a warp, in all lanes of a quad; both are read from device memory. */
template <class T> __device__ static inline float row_delta(const T *o, const T *dout, int D, int c)
{
    constexpr int WIDTH = 16 / (int)sizeof(T);
    float sum = 0;
    for (int d = c * WIDTH; d < D; d += 4 * WIDTH) {
        pack<T, WIDTH> a = *(const pack<T, WIDTH> *)(o + d), b = *(const pack<T, WIDTH> *)(dout + d);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            sum = fmaf(to_float(a.v[k]), to_float(b.v[k]), sum);
    }
    return quad_sum(sum);
}

template <class E, int DP, int WARPS, int STAGES, int BLOCKS, bool DROP>
__global__ __launch_bounds__(WARPS * 32, BLOCKS) void attention_dq(const __grid_constant__ struct attention_params p)
{
    using T = typename E::type;
    constexpr int ROWS = 16 * WARPS, THREADS = 32 * WARPS, BYTES = tile_bytes<T, TILE, DP>;
    extern __shared__ __align__(1024) char shared[];
    char *q_tile = shared, *do_tile = q_tile + tile_bytes<T, ROWS, DP>, *stages = do_tile + tile_bytes<T, ROWS, DP>;
    struct place at = my_place();
    struct block_rows rows = block_find<ROWS>(p, last_first(p.causal));
    if (rows.at >= rows.length)
        return;
    int head = (int)blockIdx.y, left = rows.length - rows.at, i = rows.at + at.row0 + at.g;
    int row = rows.first + rows.at, width = (p.heads + 2 * p.kv_heads) * p.D, out = p.heads * p.D;
    T *dq = (T *)p.dqkv + (int64_t)row * width + head * p.D;
    if (rows.padding) {
        rows_clear(dq, width, min(left, ROWS), p.D);
        return;
    }

    const T *qkv = (const T *)p.qkv, *dout = (const T *)p.dout + (int64_t)row * out + head * p.D;
    const T *keys = qkv + (int64_t)rows.first * width + (p.heads + head / (p.heads / p.kv_heads)) * p.D;
    int seen = p.causal ? min(rows.length, rows.at + ROWS) : rows.length, tiles = (seen + TILE - 1) / TILE;
    auto load = [&](int t) {
        uint32_t to = shared_address(stages + t % STAGES * 2 * BYTES);
        const T *from = keys + (int64_t)(t * TILE) * width;
        tile_load<T, TILE, DP, THREADS, true>(to, from, width, rows.length - t * TILE, p.D);
        tile_load<T, TILE, DP, THREADS, true>(to + BYTES, from + p.kv_heads * p.D, width, rows.length - t * TILE, p.D);
        loads_commit();
    };
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(q_tile), qkv + (int64_t)row * width + head * p.D, width, left,
                                           p.D);
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(do_tile), dout, out, left, p.D);
    load(0);

    float keep = DROP ? p.keep_scale : 1, shift[2], minus_delta[2];
#pragma unroll
    for (int h = 0; h < 2; h++) { /* rows past the sequence: p = 2^-inf = 0 */
        int r = at.row0 + at.g + 8 * h;
        bool there = r < left;
        float delta = row_delta((const T *)p.o + (int64_t)(row + (there ? r : 0)) * out + head * p.D,
                                dout + (int64_t)(there ? r : 0) * out, p.D, at.c);
        minus_delta[h] = -delta / keep;
        shift[h] = there ? -LOG2E * p.lse[(int64_t)head * p.T + row + r] : -INFINITY;
        if (there && at.c == 0)
            p.statistics[(int64_t)head * p.T + row + r] = make_float2(shift[h], minus_delta[h]);
    }
    struct mask_stream stream;
    struct mask_query queries[2];
    if (DROP) {
        stream = mask_stream(p.rng, p.coords, rows.first, head, p.site, p.threshold);
        queries[0] = mask_query(&stream, (uint32_t)i);
        queries[1] = mask_query(&stream, (uint32_t)i + 8);
    }
    float acc[DP / 8][4] = {}, sl = p.scale * LOG2E;
    int unit = rows.at + at.row0 / E::ROW_UNIT * E::ROW_UNIT;
    for (int t = 0; t < tiles; t++) {
        if (STAGES == 1 && t > 0) {
            __syncthreads();
            load(t);
        }
        loads_wait<0>();
        E::arrived();
        __syncthreads();
        if (STAGES > 1 && t + 1 < tiles)
            load(t + 1);
        if (p.causal && t * TILE > unit + E::ROW_UNIT - 1)
            continue;
        uint32_t k_tile = shared_address(stages + t % STAGES * 2 * BYTES), v_tile = k_tile + BYTES;
        float s[8][4], ds[8][4];
        uint32_t flags[2][4];
        E::template scores<ROWS, DP>(s, shared_address(q_tile), at.row0, k_tile);
        E::template scores<ROWS, DP>(ds, shared_address(do_tile), at.row0, v_tile);
        if (DROP)
            flags_of_keys(flags, &stream, queries, t * TILE, at.c);
        E::template wait<1>(s);
        if ((t + 1) * TILE > rows.length || (p.causal && (t + 1) * TILE > unit + 1))
            hide_keys(s, i, t * TILE, at.c, rows.length, p.causal);
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                s[j][k] = exp2_fast(fmaf(s[j][k], sl, shift[k / 2]));
        E::template wait<0>(ds);
#pragma unroll
        for (int j = 0; j < 8; j++) /* ds / keep = p (mask dp - delta / keep) */
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float kept = DROP ? mask_float(s[j][k], flags[k / 2][j / 2], j % 2 * 2 + k % 2) : s[j][k];
                ds[j][k] = fmaf(kept, ds[j][k], s[j][k] * minus_delta[k / 2]);
            }
        typename E::fragments f;
        E::make(f, ds);
        E::template add_product<DP>(acc, f, k_tile);
        if (STAGES < 3)
            E::template wait<0>(acc);
    }

    E::template wait<0>(acc);
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

template <class E, int DP, int WARPS, int STAGES, int BLOCKS, bool DROP>
__global__ __launch_bounds__(WARPS * 32, BLOCKS) void attention_dkdv(const __grid_constant__ struct attention_params p)
{
    using T = typename E::type;
    constexpr int ROWS = 16 * WARPS, THREADS = 32 * WARPS, BYTES = tile_bytes<T, TILE, DP>;
    extern __shared__ __align__(1024) char shared[];
    char *k_tile = shared, *v_tile = k_tile + tile_bytes<T, ROWS, DP>, *stages = v_tile + tile_bytes<T, ROWS, DP>;
    float2 *statistics = (float2 *)(stages + STAGES * 2 * BYTES); /* of each stage's queries */
    struct place at = my_place();
    struct block_rows rows = block_find<ROWS>(p, (int)blockIdx.x);
    if (rows.at >= rows.length)
        return;
    int kv_head = (int)blockIdx.y, group = p.heads / p.kv_heads, left = rows.length - rows.at;
    int row = rows.first + rows.at, width = (p.heads + 2 * p.kv_heads) * p.D, out = p.heads * p.D;
    int k_column = (p.heads + kv_head) * p.D, v_column = k_column + p.kv_heads * p.D;
    T *dk = (T *)p.dqkv + (int64_t)row * width + k_column, *dv = (T *)p.dqkv + (int64_t)row * width + v_column;
    if (rows.padding) {
        rows_clear(dk, width, min(left, ROWS), p.D);
        rows_clear(dv, width, min(left, ROWS), p.D);
        return;
    }

    const T *qkv = (const T *)p.qkv;
    float keep = DROP ? p.keep_scale : 1;
    int tile0 = p.causal ? rows.at / TILE : 0, tiles = (rows.length + TILE - 1) / TILE;
    auto load = [&](int head, int t,
                    int n) { /* the n-th to be loaded */
                             int valid = rows.length - t * TILE;
                             int from = rows.first + t * TILE;
                             uint32_t to = shared_address(stages + n % STAGES * 2 * BYTES);
                             tile_load<T, TILE, DP, THREADS, false>(to, qkv + (int64_t)from * width + head * p.D, width,
                                                                    valid, p.D);
                             tile_load<T, TILE, DP, THREADS, false>(
                                 to + BYTES, (const T *)p.dout + (int64_t)from * out + head * p.D, out, valid, p.D);
        /* rows of zeros are queries without effect: s = 0, p = 1, do = 0 */
#pragma unroll
                             for (int i = 0; i < (TILE + THREADS - 1) / THREADS; i++) {
                                 int k = i * THREADS + (int)threadIdx.x;
                                 if (k < TILE)
                                     copy_8(shared_address(statistics + n % STAGES * TILE + k),
                                            p.statistics + (int64_t)head * p.T + from + k, k < valid);
                             }
                             loads_commit();
    };
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(k_tile), qkv + (int64_t)row * width + k_column, width, left,
                                           p.D);
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(v_tile), qkv + (int64_t)row * width + v_column, width, left,
                                           p.D);
    load(kv_head * group, tile0, 0);

    struct mask_stream stream;
    struct mask_keys keys;
    if (DROP) {
        stream = mask_stream(p.rng, p.coords, rows.first, kv_head * group, p.site, p.threshold);
        keys = mask_keys(&stream, (uint32_t)(rows.at + at.row0) / 16);
    }
    float dk_acc[DP / 8][4] = {}, dv_acc[DP / 8][4] = {}, sl = p.scale * LOG2E;
    int unit = rows.at + at.row0 / E::ROW_UNIT * E::ROW_UNIT, key = rows.at + at.row0 + at.g;
    int end = (kv_head + 1) * group;
    for (int n = 0, t = tile0, head = kv_head * group; head < end; n++) {
        if (STAGES == 1 && n > 0) {
            __syncthreads();
            load(head, t, n);
        }
        loads_wait<0>();
        E::arrived();
        __syncthreads();
        int query0 = t * TILE;
        if (DROP)
            stream.head = (uint32_t)head << 20;
        if (++t == tiles) {
            t = tile0;
            head++;
        }
        if (STAGES > 1 && head < end)
            load(head, t, n + 1);
        if (p.causal && query0 + TILE - 1 < unit)
            continue;
        uint32_t q_tile = shared_address(stages + n % STAGES * 2 * BYTES), do_tile = q_tile + BYTES;
        const float2 *stat = statistics + n % STAGES * TILE;
        float s[8][4], ds[8][4]; /* rows are keys, columns are queries */
        uint32_t flags[8];
        E::template scores<ROWS, DP>(s, shared_address(k_tile), at.row0, q_tile);
        E::template scores<ROWS, DP>(ds, shared_address(v_tile), at.row0, do_tile);
        if (DROP)
            flags_of_queries(flags, &stream, keys, query0, at);
        E::template wait<1>(s);
        if (p.causal && query0 < unit + E::ROW_UNIT - 1) {
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    if (query0 + 8 * j + 2 * at.c + k % 2 < key + k / 2 * 8)
                        s[j][k] = -INFINITY;
        }
        typename E::fragments f;
        float kept[8][4], minus_delta[8][2];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float4 two = *(const float4 *)(stat + 8 * j + 2 * at.c);
            minus_delta[j][0] = two.y;
            minus_delta[j][1] = two.w;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                s[j][k] = exp2_fast(fmaf(s[j][k], sl, k % 2 ? two.z : two.x));
                kept[j][k] = DROP && !(flags[j] >> (k % 2 * 4 + k / 2 * 2) & 1) ? 0 : s[j][k];
            }
        }
        E::make(f, kept);
        E::template wait<0>(ds);
        E::template add_product<DP>(dv_acc, f, do_tile);
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                ds[j][k] = fmaf(kept[j][k], ds[j][k], s[j][k] * minus_delta[j][k % 2]);
        typename E::fragments f2;
        E::make(f2, ds);
        E::template add_product<DP>(dk_acc, f2, q_tile);
        if (STAGES < 3) {
            E::template wait<0>(dv_acc);
            E::template wait<0>(dk_acc);
        }
    }

    E::template wait<0>(dv_acc);
    E::template wait<0>(dk_acc);
    __syncthreads();
    tile_store<E, ROWS, DP>(dk, width, left, p.D, dk_acc, p.scale * keep, p.scale * keep, k_tile);
    tile_store<E, ROWS, DP>(dv, width, left, p.D, dv_acc, keep, keep, v_tile);
}

/* ---- launching ---- */

template <class T, int DP, class C>
constexpr int backward_bytes = 2 * tile_bytes<T, C::rows, DP> + C::stages *(2 * tile_bytes<T, TILE, DP> + TILE * 8);

template <class E, int DP, class C, class C2>
static int launch_backward(const struct attention_params *p, const struct cuda_call *c)
{
    attention_kernel *dq = p->threshold ? attention_dq<E, DP, C::warps, C::stages, C::blocks, true>
                                        : attention_dq<E, DP, C::warps, C::stages, C::blocks, false>;
    attention_kernel *dkdv = p->threshold ? attention_dkdv<E, DP, C2::warps, C2::stages, C2::blocks, true>
                                          : attention_dkdv<E, DP, C2::warps, C2::stages, C2::blocks, false>;
    TRY(attention_launch(dq, p, C::warps, backward_bytes<typename E::type, DP, C>, p->heads, c, "attention_bwd"));
    return attention_launch(dkdv, p, C2::warps, backward_bytes<typename E::type, DP, C2>, p->kv_heads, c,
                            "attention_bwd");
}

#endif
