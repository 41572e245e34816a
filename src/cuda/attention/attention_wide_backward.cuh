/* attention_wide_backward.cuh: the backward kernels for heads of 128 elements (attention_wide_sm90.cu): dq by blocks of 128 queries, then
 * dk and dv by blocks of 128 keys. Their loops go over tiles of 64 rows. A group's last product of a tile runs while the scores of the
 * next are made; it is given after them, since the compiler wants all products of a turn of the loop finished within it. */
#ifndef CUDA_ATTENTION_WIDE_BACKWARD_CUH
#define CUDA_ATTENTION_WIDE_BACKWARD_CUH

#include "cuda/attention/attention_backward.cuh"
#include "cuda/attention/attention_wide.cuh"

enum {
    BACKWARD_STAGES = 4,
    STAGE_BYTES = 2 * PANEL_BYTES, /* two tiles of 64 rows */
    STATISTICS_BYTES = TILE * (int)sizeof(float2),
    BACKWARD_BYTES = 2 * WIDE_BYTES + BACKWARD_STAGES * (STAGE_BYTES + STATISTICS_BYTES) + 1024 + 128,
};

/* Where things are in shared memory: the block's own two tiles, the stages, the statistics of their queries, barriers. */
struct backward_places {
    uint32_t own, stages, statistics, own_full, full, empty;
    __device__ explicit backward_places(uint32_t start)
    {
        own = start;
        stages = own + 2 * WIDE_BYTES;
        statistics = stages + BACKWARD_STAGES * STAGE_BYTES;
        own_full = statistics + BACKWARD_STAGES * STATISTICS_BYTES;
        full = own_full + 8;
        empty = full + 8 * BACKWARD_STAGES;
    }
};

/* The n-th tile of a loop. */
struct stage {
    uint32_t tiles, statistics, full, empty, parity;
    __device__ stage(const struct backward_places &at, int n)
    {
        uint32_t s = (uint32_t)n % BACKWARD_STAGES;
        parity = (uint32_t)n / BACKWARD_STAGES & 1;
        tiles = at.stages + s * STAGE_BYTES;
        statistics = at.statistics + s * STATISTICS_BYTES;
        full = at.full + 8 * s;
        empty = at.empty + 8 * s;
    }
};

/* `arrivals`: at a stage's barrier, besides that of its bytes. */
__device__ static inline void backward_barriers(const struct backward_places &at, int arrivals)
{
    if (threadIdx.x == 0) {
        barrier_init(at.own_full, 1);
        for (int s = 0; s < BACKWARD_STAGES; s++) {
            barrier_init(at.full + 8 * s, 1 + arrivals);
            barrier_init(at.empty + 8 * s, 128 * WIDE_GROUPS);
        }
    }
    barriers_made();
}

/* A stage has arrived, and `there` of its rows are the sequence's. */
__device__ static inline void stage_arrive(const struct wide_shared &shared, const struct stage &s, int there,
                                           int group)
{
    barrier_wait(s.full, s.parity);
    if (there < TILE) {
        wide_clear_rows<TILE>(shared.at(s.tiles), there);
        wide_clear_rows<TILE>(shared.at(s.tiles + PANEL_BYTES), there);
        wide_cleared(group);
    }
}

/* The scores of a stage and the gradients of its weights: own tiles times the stage's. */
template <class T>
__device__ static inline void stage_scores(float (&s)[8][4], float (&ds)[8][4], const struct backward_places &at,
                                           int row0, const struct stage &stage)
{
    using E = wgmma_engine<T>;
    E::template scores<WIDE, WIDE>(s, at.own, row0, stage.tiles);
    E::template scores<WIDE, WIDE>(ds, at.own + WIDE_BYTES, row0, stage.tiles + PANEL_BYTES);
}

/* ---- dq ---- */

/* One thread. */
__device__ static inline void dq_load(const struct wide_params &w, const struct backward_places &at,
                                      struct block_rows rows, int head, struct span seen)
{
    int keys = keys_column(w.p, head), values = keys + w.p.kv_heads * WIDE, row = rows.first + rows.at;
    barrier_expect(at.own_full, 2 * WIDE_BYTES);
    wide_load<WIDE>(at.own, &w.qkv, head * WIDE, row, at.own_full);
    wide_load<WIDE>(at.own + WIDE_BYTES, &w.dout, head * WIDE, row, at.own_full);
    for (int t = seen.from; t < seen.end; t++) {
        struct stage s(at, t - seen.from);
        barrier_wait(s.empty, s.parity ^ 1);
        barrier_expect(s.full, STAGE_BYTES);
        wide_load<TILE>(s.tiles, &w.qkv, keys, rows.first + t * TILE, s.full);
        wide_load<TILE>(s.tiles + PANEL_BYTES, &w.qkv, values, rows.first + t * TILE, s.full);
    }
}

/* Of a lane's two queries: what their scores are shifted by, and -do . o, which are kept for dkdv_group. Those past the sequence have
 * weights of 2^-inf = 0. */
template <class T>
__device__ static inline void query_statistics(float (&shift)[2], float (&minus_delta)[2],
                                               const struct attention_params &p, int row, int head, int left,
                                               struct place me)
{
    int out = p.heads * WIDE, r[2] = {me.row0 + me.g, me.row0 + me.g + 8};
    int64_t at = (int64_t)row * out + head * WIDE, step[2];
#pragma unroll
    for (int h = 0; h < 2; h++)
        step[h] = at + (r[h] < left ? (int64_t)r[h] * out : 0);
    const T *o = (const T *)p.o, *dout = (const T *)p.dout;
    float delta[2];
    row_deltas<T, WIDE>(delta, {o + step[0], o + step[1]}, {dout + step[0], dout + step[1]}, WIDE, me.c);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bool there = r[h] < left;
        int64_t stat = (int64_t)head * p.T + row + r[h];
        minus_delta[h] = -delta[h];
        shift[h] = there ? -LOG2E * p.lse[stat] : -INFINITY;
        if (there && me.c == 0)
            p.statistics[stat] = make_float2(shift[h], minus_delta[h]);
    }
}

/* Of a group's 64 queries. Longer than a screen, as attention_dq is. */
template <class T>
__device__ static inline void dq_group(const struct attention_params &p, const struct wide_shared &shared,
                                       struct block_rows rows, int head, struct span seen, int left)
{
    using E = wgmma_engine<T>;
    struct backward_places at(shared.start);
    struct place me = my_place();
    int group = me.row0 / 64, i = rows.at + me.row0 + me.g, query = rows.at + 64 * group, row = rows.first + rows.at;
    float shift[2], minus_delta[2], acc[16][4] = {}, s[8][4], ds[8][4], sl = p.scale * LOG2E;
    uint32_t no_flags[2][4];
    struct wide_fragments<4> slopes;
    query_statistics<T>(shift, minus_delta, p, row, head, left, me);
    struct span first = keys_seen(p, query, rows.length), last = keys_seen(p, query + 63, rows.length);
    int end = tiles_seen(first, last, TILE).end;
    auto stage = [&](int t) { return (struct stage){at, t - seen.from}; };
    auto start = [&](int t) {
        stage_arrive(shared, stage(t), rows.length - t * TILE, group);
        stage_scores<T>(s, ds, at, me.row0, stage(t));
    };
    auto weigh = [&](int t) {
        if (seen_in_part(first, last, t * TILE, TILE))
            wide_hide(s, keys_seen(p, i, rows.length), keys_seen(p, i + 8, rows.length), t * TILE, me.c);
        weights_of_rows(s, sl, shift);
    };
    barrier_wait(at.own_full, 0);
    start(seen.from);
    E::template wait<1>(s);
    weigh(seen.from);
    E::template wait<0>(ds);
    slopes_of_rows<false>(ds, s, no_flags, minus_delta);
    wide_make<T>(slopes, ds);
    for (int t = seen.from + 1; t < end; t++) {
        start(t);
        wide_add_product<T>(acc, slopes, stage(t - 1).tiles);
        E::template wait<2>(s);
        weigh(t);
        E::template wait<1>(ds);
        slopes_of_rows<false>(ds, s, no_flags, minus_delta);
        E::template wait<0>(acc);
        barrier_arrive(stage(t - 1).empty);
        wide_make<T>(slopes, ds);
    }
    wide_add_product<T>(acc, slopes, stage(end - 1).tiles); /* whose stage nobody waits for any more */
    E::template wait<0>(acc);
    group_sync(group);
    T *dq = (T *)p.dqkv + (int64_t)row * width_of_rows(p) + head * WIDE;
    tile_store<E, WIDE, WIDE>(dq, width_of_rows(p), left, WIDE, acc, p.scale, p.scale, shared.at(at.own));
}

template <class T>
__global__ __launch_bounds__(WIDE_THREADS, 1) void wide_dq(const __grid_constant__ struct wide_params w)
{
    extern __shared__ __align__(1024) char memory[];
    const struct attention_params &p = w.p;
    struct block_rows rows = block_find<WIDE>(p, last_first(p.causal));
    if (rows.at >= rows.length)
        return;
    int head = (int)blockIdx.y, left = asking_rows(p, rows), width = width_of_rows(p);
    T *dq = (T *)p.dqkv + (int64_t)(rows.first + rows.at) * width + head * WIDE;
    rows_clear(dq, width, left, min(rows.length - rows.at, (int)WIDE), WIDE);
    if (left == 0)
        return;
    struct wide_shared shared(memory);
    struct backward_places at(shared.start);
    struct span first = keys_seen(p, rows.at, rows.length), last = keys_seen(p, rows.at + WIDE - 1, rows.length);
    struct span seen = tiles_seen(first, last, TILE);
    backward_barriers(at, 0);
    if (threadIdx.x < 128 * WIDE_GROUPS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        dq_group<T>(p, shared, rows, head, seen, left);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 128 * WIDE_GROUPS)
            dq_load(w, at, rows, head, seen);
    }
}

/* ---- dk, dv ---- */

/* The query tiles that see a block's keys: from first to end - 1, of one head that shares the keys after the other. */
struct query_loop {
    int head, last, tile, first, end, queries; /* this one; the last head; of a sequence */
    __device__ bool more(void) const
    {
        return head <= last;
    }
    __device__ void next(void)
    {
        if (++tile == end) {
            tile = first;
            head++;
        }
    }
    __device__ int there(void) const /* rows of this tile that are queries */
    {
        return queries - tile * TILE;
    }
};

__device__ static inline struct query_loop query_loop_of(const struct attention_params &p, struct block_rows rows,
                                                         int kv_head)
{
    int queries = rows_asking(p, rows.length), head = kv_head * (p.heads / p.kv_heads);
    struct span first = queries_seeing(p, rows.at, queries), last = queries_seeing(p, rows.at + WIDE - 1, queries);
    struct span tiles = tiles_seen(first, last, TILE);
    return {head, head + p.heads / p.kv_heads - 1, tiles.from, tiles.from, tiles.end, queries};
}

/* A warp. */
__device__ static inline void dkdv_load(const struct wide_params &w, const struct backward_places &at,
                                        struct block_rows rows, int kv_head, struct query_loop l)
{
    const struct attention_params &p = w.p;
    int lane = (int)threadIdx.x % 32, row = rows.first + rows.at, keys = (p.heads + kv_head) * WIDE;
    if (lane == 0) {
        barrier_expect(at.own_full, 2 * WIDE_BYTES);
        wide_load<WIDE>(at.own, &w.qkv, keys, row, at.own_full);
        wide_load<WIDE>(at.own + WIDE_BYTES, &w.qkv, keys + p.kv_heads * WIDE, row, at.own_full);
    }
    for (int n = 0; l.more(); n++, l.next()) {
        struct stage s(at, n);
        int from = rows.first + l.tile * TILE;
        barrier_wait(s.empty, s.parity ^ 1);
        if (lane == 0) {
            barrier_expect(s.full, STAGE_BYTES);
            wide_load<TILE>(s.tiles, &w.qkv, l.head * WIDE, from, s.full);
            wide_load<TILE>(s.tiles + PANEL_BYTES, &w.dout, l.head * WIDE, from, s.full);
        }
        /* queries of zeros are without effect: s = 0, p = 1, do = 0 */
        const float2 *stat = p.statistics + (int64_t)l.head * p.T + from;
#pragma unroll
        for (int k = 0; k < TILE; k += 32)
            copy_8(s.statistics + (uint32_t)(k + lane) * 8, stat + k + lane, k + lane < l.there());
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(s.full) : "memory");
    }
}

/* Scores of keys (rows) become weights; `stat` are the queries' statistics. */
__device__ static inline void weights_of_keys(float (&s)[8][4], const float2 *stat, float sl, int c)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float4 two = *(const float4 *)(stat + 8 * j + 2 * c);
#pragma unroll
        for (int k = 0; k < 4; k++)
            s[j][k] = exp2_fast(fmaf(s[j][k], sl, k % 2 ? two.z : two.x));
    }
}

/* dP becomes ds. */
__device__ static inline void slopes_of_keys(float (&ds)[8][4], const float (&s)[8][4], const float2 *stat, int c)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float4 two = *(const float4 *)(stat + 8 * j + 2 * c);
#pragma unroll
        for (int k = 0; k < 4; k++)
            ds[j][k] = s[j][k] * (ds[j][k] + (k % 2 ? two.w : two.y));
    }
}

/* Of a group's 64 keys. Longer than a screen, as attention_dkdv is. */
template <class T>
__device__ static inline void dkdv_group(const struct attention_params &p, const struct wide_shared &shared,
                                         struct block_rows rows, int kv_head, struct query_loop l)
{
    using E = wgmma_engine<T>;
    struct backward_places at(shared.start);
    struct place me = my_place();
    int group = me.row0 / 64, key = rows.at + me.row0 + me.g, n = 0, before;
    struct span first = queries_seeing(p, rows.at + 64 * group, l.queries);
    struct span last = queries_seeing(p, rows.at + 64 * group + 63, l.queries);
    float dk[16][4] = {}, dv[16][4] = {}, s[8][4], ds[8][4], sl = p.scale * LOG2E;
    struct wide_fragments<4> weights, slopes;
    auto stage = [&](int n) { return (struct stage){at, n}; };
    auto statistics = [&] { return (const float2 *)shared.at(stage(n).statistics); };
    /* Over tiles none of whose queries sees the group's keys. */
    auto skip = [&] {
        for (; l.more() && (l.tile * TILE >= last.end || (l.tile + 1) * TILE <= first.from); l.next(), n++) {
            barrier_wait(stage(n).full, stage(n).parity);
            barrier_arrive(stage(n).empty);
        }
    };
    auto start = [&] {
        stage_arrive(shared, stage(n), l.there(), group);
        stage_scores<T>(s, ds, at, me.row0, stage(n));
    };
    auto weigh = [&] {
        if (seen_in_part(first, last, l.tile * TILE, TILE))
            wide_hide(s, queries_seeing(p, key, l.queries), queries_seeing(p, key + 8, l.queries), l.tile * TILE, me.c);
        weights_of_keys(s, statistics(), sl, me.c);
        wide_make<T>(weights, s);
    };
    barrier_wait(at.own_full, 0);
    skip();
    if (l.more()) {
        start();
        E::template wait<1>(s);
        weigh();
        E::template wait<0>(ds);
        wide_add_product<T>(dv, weights, stage(n).tiles + PANEL_BYTES);
        slopes_of_keys(ds, s, statistics(), me.c);
        wide_make<T>(slopes, ds);
        E::template wait<0>(dv);
        for (before = n++, l.next(), skip(); l.more(); before = n++, l.next(), skip()) {
            start();
            wide_add_product<T>(dk, slopes, stage(before).tiles);
            E::template wait<2>(s);
            weigh();
            E::template wait<0>(ds);
            E::template wait<0>(dk);
            barrier_arrive(stage(before).empty);
            wide_add_product<T>(dv, weights, stage(n).tiles + PANEL_BYTES);
            slopes_of_keys(ds, s, statistics(), me.c);
            wide_make<T>(slopes, ds);
            E::template wait<0>(dv);
        }
        wide_add_product<T>(dk, slopes, stage(before).tiles);
        E::template wait<0>(dk);
    }
    group_sync(group);
    int width = width_of_rows(p), left = rows.length - rows.at;
    T *to = (T *)p.dqkv + (int64_t)(rows.first + rows.at) * width + (p.heads + kv_head) * WIDE;
    tile_store<E, WIDE, WIDE>(to, width, left, WIDE, dk, p.scale, p.scale, shared.at(at.own));
    tile_store<E, WIDE, WIDE>(to + p.kv_heads * WIDE, width, left, WIDE, dv, 1, 1, shared.at(at.own + WIDE_BYTES));
}

/* With a causal mask the first keys of a sequence have the most queries, and the longest blocks should not begin last: sequences take
 * turns. Their places are those of sequences of average length, so that this does what it should where all are as long. */
__device__ static inline int place_of_keys(const struct attention_params &p, int y)
{
    int sequences = max(p.B, 1), each = p.T / sequences / WIDE + 1;
    return y < sequences * each ? y % sequences * each + y / sequences : y;
}

template <class T>
__global__ __launch_bounds__(WIDE_THREADS, 1) void wide_dkdv(const __grid_constant__ struct wide_params w)
{
    extern __shared__ __align__(1024) char memory[];
    const struct attention_params &p = w.p;
    struct block_rows rows = block_find<WIDE>(p, place_of_keys(p, (int)blockIdx.y));
    if (rows.at >= rows.length)
        return;
    int kv_head = (int)blockIdx.x, width = width_of_rows(p), left = rows.length - rows.at;
    struct query_loop l = query_loop_of(p, rows, kv_head);
    if (rows.padding || l.end <= l.first) { /* no query sees these keys */
        T *to = (T *)p.dqkv + (int64_t)(rows.first + rows.at) * width + (p.heads + kv_head) * WIDE;
        rows_clear(to, width, 0, min(left, (int)WIDE), WIDE);
        rows_clear(to + p.kv_heads * WIDE, width, 0, min(left, (int)WIDE), WIDE);
        return;
    }
    struct wide_shared shared(memory);
    struct backward_places at(shared.start);
    backward_barriers(at, 32);
    if (threadIdx.x < 128 * WIDE_GROUPS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        dkdv_group<T>(p, shared, rows, kv_head, l);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x < 128 * WIDE_GROUPS + 32)
            dkdv_load(w, at, rows, kv_head, l);
    }
}

#endif
