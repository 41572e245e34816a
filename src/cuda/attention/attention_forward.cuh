/* attention_forward.cuh: the forward kernel of attention (attention_engine.cuh), a block per query tile. */
#ifndef CUDA_ATTENTION_FORWARD_CUH
#define CUDA_ATTENTION_FORWARD_CUH

#include "cuda/attention/attention_bias.cuh"
#include "cuda/attention/attention_biases.cuh"
#include "cuda/attention/attention_engine.cuh"

/* The running softmax of M tiles of 8 columns, in three steps. Where a weight could pass 2^8, the row's maximum grows; `factor` is then
 * what its sums so far are to be multiplied with. Returns whether that is so in the warp. */
template <int M>
__device__ static inline bool softmax_grows(const float (&s)[M][4], float (&max)[2], float (&sum)[2],
                                            float (&factor)[2], float sl)
{
    float most[2]; /* of this lane's columns; the row's is only asked for where it matters */
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float even = s[0][2 * h], odd = s[0][2 * h + 1];
#pragma unroll
        for (int j = 1; j < M; j++) {
            even = fmaxf(even, s[j][2 * h]);
            odd = fmaxf(odd, s[j][2 * h + 1]);
        }
        most[h] = fmaxf(even, odd) * sl;
    }
    bool grows = __any_sync(0xFFFFFFFFu, most[0] > max[0] + 8 || most[1] > max[1] + 8);
    if (grows)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float m = quad_max(most[h]), next = m > max[h] + 8 ? m : max[h];
            factor[h] = next == max[h] ? 1 : exp2_fast(max[h] - next);
            max[h] = next;
            sum[h] *= factor[h];
        }
    return grows;
}

template <int N> __device__ static inline void softmax_rescale(float (&o)[N][4], const float (&factor)[2])
{
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            o[j][k] *= factor[k / 2];
}

/* p = 2^(s sl - max) in place of s. */
template <int M>
__device__ static inline void softmax_weights(float (&s)[M][4], const float (&max)[2], float (&sum)[2], float sl)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float even = 0, odd = 0;
#pragma unroll
        for (int j = 0; j < M; j++) {
            even += s[j][2 * h] = exp2_fast(fmaf(s[j][2 * h], sl, -max[h]));
            odd += s[j][2 * h + 1] = exp2_fast(fmaf(s[j][2 * h + 1], sl, -max[h]));
        }
        sum[h] += even + odd;
    }
}

/* Output and log-sum-exp of a tile of ROWS queries. Longer than a screen: the loop over tiles of keys works on accumulators,
 * maxima and sums that live in registers from its first line to the store. */
template <class E, int DP, int WARPS, int STAGES, int BLOCKS, bool LATE, bool DROP, enum scores KIND>
__global__ __launch_bounds__(WARPS * 32,
                             BLOCKS) void attention_forward(const __grid_constant__ struct attention_params p)
{
    using T = typename E::type;
    constexpr int ROWS = 16 * WARPS, THREADS = 32 * WARPS, BYTES = tile_bytes<T, TILE, DP>;
    constexpr int AHEAD = STAGES - 1 - LATE;
    extern __shared__ __align__(1024) char shared[];
    char *q_tile = shared, *stages = shared + tile_bytes<T, ROWS, DP>; /* each stage: keys, values */
    struct place at = my_place();
    struct block_rows rows = block_find<ROWS>(p, last_first(p.causal));
    if (rows.at >= rows.length)
        return;
    int head = p.first_head + (int)blockIdx.y, left = rows.length - rows.at, i = rows.at + at.row0 + at.g;
    int row = rows.first + rows.at, width = width_of_queries<KIND>(p), out = p.heads * p.D;
    T *o = (T *)p.o + (int64_t)row * out + head * p.D;
    float *lse = p.lse + (int64_t)head * p.T + row;
    if (rows.padding || rows.at >= rows_asking(p, rows.length)) {
        rows_clear(o, out, 0, min(left, ROWS), p.D);
        if ((int)threadIdx.x < min(left, ROWS))
            lse[threadIdx.x] = 0;
        return;
    }

    const T *qkv = (const T *)p.qkv;
    struct key_loop<T> loop = key_loop_of<T, ROWS, KIND>(p, rows, head, stages);
    auto load_next = [&] { load_next_keys<T, DP, THREADS, STAGES>(loop); };
    tile_load<T, ROWS, DP, THREADS, false>(shared_address(q_tile), qkv + (int64_t)row * width + head * p.D, width, left,
                                           p.D);
    tiles_start<AHEAD>(load_next);
    struct bias bias;
    if (KIND == GENERAL && p.table)
        bias = bias_load(p, head, (float *)(stages + STAGES * 2 * BYTES));
    struct bias_rows<T> biases;
    if (KIND == BIASED)
        biases = bias_rows_of<T>(p, p.biases, row, at, left);

    struct mask_stream stream;
    struct mask_query queries[2];
    if (DROP) {
        stream = mask_stream(p.rng, p.coords, rows.first, head, p.site, p.threshold);
        queries[0] = mask_query(&stream, (uint32_t)i);
        queries[1] = mask_query(&stream, (uint32_t)i + 8);
    }
    constexpr bool KEEPS = DROP && E::KEEPS_MASK && DP == 64;
    bool keeps = KEEPS && p.mask && rows.at + at.row0 < rows.length;
    uint32_t word = keeps ? mask_word_at(p, rows.sequence, rows.first, head, rows.at + at.row0) + (uint32_t)at.lane : 0;
    constexpr float NONE =
        has_window(KIND) ? -1e30f : -INFINITY; /* a query may see nothing of its first tiles: finite */
    float acc[DP / 8][4] = {}, max[2] = {NONE, NONE}, sum[2] = {0, 0}, growth[2], sl = score_scale<KIND>(p) * LOG2E;
    int unit = rows.at + at.row0 / E::ROW_UNIT * E::ROW_UNIT; /* the rows that E makes together begin here */
    int first = has_window(KIND) ? loop.first : 0;
    for (int t = first, stage = 0; t < loop.tiles; t++, stage = next_stage<STAGES>(stage)) {
        tile_arrive<E, AHEAD>(t - first, load_next);
        if (p.causal && t * TILE > unit + E::ROW_UNIT - 1)
            continue;
        if (has_window(KIND) && too_far(p, unit, E::ROW_UNIT, t * TILE, TILE))
            continue;
        uint32_t k_tile = shared_address(stages + stage * 2 * BYTES), v_tile = k_tile + BYTES;
        float s[8][4];
        uint32_t flags[2][4];
        struct bias_runs<T> runs;
        if (KIND == BIASED)
            bias_runs_load(runs, biases, t * TILE + 16 * at.c);
        E::template scores<ROWS, DP>(s, shared_address(q_tile), at.row0, k_tile);
        if (DROP)
            flags_of_keys(flags, &stream, queries, mask_keys(&stream, (uint32_t)(t * TILE / 16 + at.c)));
        if (keeps)
            p.mask[word + (uint32_t)t * 32] = mask_word(flags);
        E::template wait<0>(s);
        E::template wait<0>(acc);
        if (KIND == GENERAL && p.table)
            add_bias(s, bias, at, rows.at, t * TILE);
        if (KIND == BIASED)
            bias_runs_add(s, p.scale, runs);
        if (KIND == LIMITED) {
            cap_scores(s, p);
            hide_far_keys(s, p, i, t * TILE, at.c, rows.length);
        } else if (KIND == WINDOWED) {
            if (some_keys_hidden(p, unit, E::ROW_UNIT, rows.length, t * TILE))
                hide_far_keys(s, p, i, t * TILE, at.c, rows.length);
        } else if ((t + 1) * TILE > loop.length || (p.causal && (t + 1) * TILE > unit + 1))
            hide_keys(s, i, t * TILE, at.c, loop.length, p.causal);
        if (softmax_grows(s, max, sum, growth, sl))
            softmax_rescale(acc, growth);
        softmax_weights(s, max, sum, sl);
        typename E::fragments weights;
        if (DROP)
            E::make_masked(weights, s, flags);
        else
            E::make(weights, s);
        E::template add_product<DP>(acc, weights, v_tile);
        if (!LATE)
            E::template wait<0>(acc);
    }

    E::template wait<0>(acc);
    __syncthreads();
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float total = quad_sum(sum[h]);
        bool asks = i + 8 * h < rows_asking(p, rows.length) && (KIND != GENERAL || loop.length > 0);
        factor[h] = asks ? (DROP ? p.keep_scale : 1) / total : 0;
        if (at.c == 0 && at.row0 + at.g + 8 * h < left)
            lse[at.row0 + at.g + 8 * h] = asks ? (max[h] + log2f(total)) * LN2 : 0;
    }
    tile_store<E, ROWS, DP>(o, out, left, p.D, acc, factor[0], factor[1], q_tile);
}

template <class T, int DP, class C>
constexpr int forward_bytes = tile_bytes<T, C::rows, DP> + C::stages * 2 * tile_bytes<T, TILE, DP>;
template <class E, int DP, class C>
static int launch_forward(const struct attention_params *p, const struct cuda_call *c)
{
    attention_kernel *kernel = ATTENTION_KERNEL(p, E, attention_forward, DP, C::warps, C::stages, C::blocks, C::late);
    struct attention_grid grid = {p->T, p->heads, C::warps, forward_bytes<typename E::type, DP, C>};
    return attention_launch(kernel, p, grid, c, "attention");
}

/* Of GENERAL scores. */
template <class E, int DP, class C>
static int launch_general_forward(const struct attention_params *p, const struct cuda_call *c)
{
    attention_kernel *kernel =
        KERNEL_OF_KIND(p, E, GENERAL, attention_forward, DP, C::warps, C::stages, C::blocks, C::late);
    int bytes = forward_bytes<typename E::type, DP, C> + bias_bytes(p, 0);
    return attention_launch(kernel, p, {p->T, p->heads, C::warps, bytes}, c, "attention_general");
}

/* Of BIASED scores, so many heads. */
template <class E, int DP, class C>
static int launch_biased_forward(const struct attention_params *p, int heads, const struct cuda_call *c)
{
    attention_kernel *kernel =
        KERNEL_OF_KIND(p, E, BIASED, attention_forward, DP, C::warps, C::stages, C::blocks, C::late);
    struct attention_grid grid = {p->T, heads, C::warps, forward_bytes<typename E::type, DP, C>};
    return attention_launch(kernel, p, grid, c, "attention_disentangled");
}

#endif
