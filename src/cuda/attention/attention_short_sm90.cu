/* attention_short_sm90.cu: the backward pass of attention in one kernel, for sequences of at most 512 tokens and heads of
 * 40 to 64 elements in 16 bits, on sm_90a. S, dP and the dropout mask are made once, for five products instead of the
 * seven of attention_backward.cuh.
 *
 * One head of one sequence is the work of a cluster of SPLIT blocks. A group of four warps takes 64 keys at a time: their
 * K and V are left factors in its registers, and dK and dV add up there, while it goes over all query tiles:
 *
 *     S^T = K Q^T ;  dP^T = V dO^T ;  dV += P^T dO ;  dK += dS^T Q ;  dQ^T = K^T dS^T
 *
 * Each block adds its dQ^T of all queries in shared memory, the two groups in turns; in the end the blocks' sums are
 * added. Order of sums: dK, dV over query tiles upwards. dQ within a block over passes, in each over groups; then over
 * the blocks of the cluster. For a bias, the columns of dK and dV over a warp's rows (a tree), its passes and the warps, those
 * of dQ over queries upwards and the groups; then columns.cuh adds the blocks'.
 *
 * The block's two groups go their own ways, so that one computes while the other multiplies. A third, with few registers,
 * loads tiles ahead of them into a ring and makes what else a tile needs: the flags of dropout, do . o of its queries.
 * All of them wait for each other by barriers that count arrivals. Bound by latency: a multiprocessor holds one block, so
 * each of its schedulers has two warps that compute, and of a tile's five products only some run while its weights are
 * made. */
#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_backward.cuh"
#include "cuda/attention/attention_wgmma.cuh"
#include "cuda/kernels/barrier.cuh"

constexpr int LONGEST = 512, GROUPS = 2, THREADS = 128 * (GROUPS + 1), STAGES = 4;
constexpr int HALF_TILE = TILE * 128, STAGE = 2 * HALF_TILE; /* bytes of a tile of 16-bit values; of two */
constexpr int SUM_TILE = TILE * 64 * 4, FLAGS = GROUPS * 512;

enum mask_from { NO_MASK, MADE, KEPT }; /* whether the dropout mask is made here, or the forward pass has kept it */

/* Offsets in shared memory. */
enum {
    AT_SUMS = 0, /* dQ^T of each query tile, 16 bytes of one thread behind those of the next: nobody else's */
    AT_STAGES = AT_SUMS + LONGEST / TILE * SUM_TILE,       /* K and V of a group, or Q and dO */
    AT_DS = AT_STAGES + STAGES * STAGE,                    /* of each group */
    AT_FLAGS = AT_DS + GROUPS * HALF_TILE,                 /* which scores are kept, of each stage */
    AT_SHIFTS = AT_FLAGS + STAGES * FLAGS,                 /* of each query: -lse in units of log 2, */
    AT_DELTAS = AT_SHIFTS + LONGEST * 4,                   /* and -do . o / keep_scale */
    AT_FULL = AT_DELTAS + LONGEST * 4,                     /* barriers: a stage has arrived; */
    AT_EMPTY = AT_FULL + STAGES * 8,                       /* is done with; */
    AT_ADDED = AT_EMPTY + STAGES * 8,                      /* a group has added to a tile of dQ, once a pass */
    AT_COLUMNS = AT_ADDED + GROUPS * (LONGEST / TILE) * 8, /* sums over rows (struct columns) */
    SHARED_BYTES = AT_COLUMNS + (4 * GROUPS * 2 + GROUPS) * 64 * 4
};

/* 16 bytes of another block of the cluster. */
__device__ static inline float4 load_from(uint32_t address, int rank)
{
    float4 x;
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
                 "}\n"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(address), "r"(rank)
                 : "memory");
    return x;
}

/* One head of one sequence, and the block's part in it. */
template <int SPLIT> struct work {
    int rank, head, sequence, first, length, tiles, queries, query_tiles, causal; /* tiles: of keys */

    /* The key tile of group w in a pass. The order turns round each time: with a causal mask the first ones have the
     * most queries. */
    __device__ int key_tile(int pass, int w) const
    {
        constexpr int N = SPLIT * GROUPS;
        return pass * N + (pass % 2 ? N - 1 - rank * GROUPS - w : rank * GROUPS + w);
    }
    __device__ int first_key_tile(int pass) const
    {
        return key_tile(pass, pass % 2 ? GROUPS - 1 : 0);
    }
    __device__ bool has_pass(int pass) const
    {
        return first_key_tile(pass) < tiles;
    }
    __device__ int first_query_tile(int pass) const
    {
        return causal ? first_key_tile(pass) : 0;
    }
};

/* ---- the loaders ---- */

/* Starts copying the rows of O of all query tiles to where dQ will add up; stores the shifts. */
template <class T, int SPLIT>
__device__ static inline void statistics_start(const struct attention_params &p, const struct work<SPLIT> &w,
                                               char *shared, int t)
{
    int out = p.heads * p.D;
    const T *o = (const T *)p.o + (int64_t)w.first * out + w.head * p.D;
    const float *lse = p.lse + (int64_t)w.head * p.T + w.first;
#pragma unroll 1
    for (int i = w.first_query_tile(0); i < w.query_tiles; i++)
        tile_load<T, TILE, 64, 128, false>(shared_address(shared + AT_SUMS + i * SUM_TILE),
                                           o + (int64_t)(i * TILE) * out, out, w.queries - i * TILE, p.D, t);
    loads_commit();
#pragma unroll 4
    for (int i = t; i < w.query_tiles * TILE; i += 128)
        ((float *)(shared + AT_SHIFTS))[i] = i < w.queries ? -LOG2E * lse[i] : -INFINITY;
}

/* Deltas of query tile i, from what the thread itself has copied: 16 bytes of every 16th row. */
template <class T>
__device__ static inline void store_deltas(char *shared, int i, const char *do_tile, float keep, int t)
{
    const char *o_tile = shared + AT_SUMS + i * SUM_TILE;
#pragma unroll
    for (int n = 0; n < 4; n++) {
        int row = 16 * n + t / 8;
        pack<T, 8> a = *(const pack<T, 8> *)(o_tile + chunk_offset<TILE>(row, t % 8));
        pack<T, 8> b = *(const pack<T, 8> *)(do_tile + chunk_offset<TILE>(row, t % 8));
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum = fmaf(to_float(a.v[k]), to_float(b.v[k]), sum);
        sum = quad_sum(sum);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 4);
        if (t % 8 == 0)
            ((float *)(shared + AT_DELTAS))[i * TILE + row] = -sum / keep;
    }
}

/* Fills the ring. In a pass: K and V of each group, then Q and dO of the query tiles, with the flags of their scores:
 * word 32w + 4g + c of a group's 128 is made of queries 16w + g and 16w + g + 8 and of its keys from 16c on (mask_word). */
template <class T, int SPLIT, enum mask_from MASK>
__device__ static inline void fill_ring(const struct attention_params &p, const struct work<SPLIT> &w, char *shared,
                                        int t)
{
    uint32_t base = shared_address(shared);
    int width = 3 * p.heads * p.D, out = p.heads * p.D, lane = t % 32, warp = (int)same_in_warp((uint32_t)t / 32);
    const T *q = (const T *)p.qkv + (int64_t)w.first * width + w.head * p.D;
    const T *dout = (const T *)p.dout + (int64_t)w.first * out + w.head * p.D;
    int n = 0, next = 0, next_pass = 0, next_step = 0; /* a step of a pass: a group, or GROUPS + a query tile */
    auto load_next = [&] {
        if (!w.has_pass(next_pass))
            return;
        int stage = next % STAGES, group = next_step < GROUPS, i = next_step - GROUPS;
        if (next >= STAGES)
            barrier_wait(base + AT_EMPTY + 8 * stage, (uint32_t)(next / STAGES - 1) & 1);
        int row = (group ? w.key_tile(next_pass, next_step) : i) * TILE, b_stride = group ? width : out;
        int valid = (group ? w.length : w.queries) - row;
        const T *a = q + (int64_t)row * width + (group ? out : 0), *b = group ? a + out : dout + (int64_t)row * out;
        uint32_t to = base + AT_STAGES + stage * STAGE;
        tile_load<T, TILE, 64, 128, false>(to, a, width, valid, p.D, t);
        tile_load<T, TILE, 64, 128, false>(to + HALF_TILE, b, b_stride, valid, p.D, t);
        if (MASK == KEPT && !group && warp < GROUPS) {
            int key_tile = w.key_tile(next_pass, warp);
            uint32_t from = mask_word_at(p, w.sequence, w.first, w.head, row) + (uint32_t)key_tile * 32;
            from += (uint32_t)(lane / 8) * mask_pitch(p) + (uint32_t)(lane % 8 * 4);
            copy_16(base + AT_FLAGS + (uint32_t)(stage * FLAGS + warp * (FLAGS / GROUPS) + lane * 16), p.mask + from,
                    key_tile < w.tiles && lane / 8 * 16 < valid);
        }
        loads_commit();
        next++;
        if (++next_step == GROUPS)
            next_step += w.first_query_tile(next_pass);
        if (next_step == GROUPS + w.query_tiles) {
            next_step = 0;
            next_pass++;
        }
    };
    /* For what this thread copies for step n. */
    auto wait_loaded = [&] {
        if (n + 1 < next)
            loads_wait<1>();
        else
            loads_wait<0>();
    };
    /* Step n: the products may read what this warp has stored. */
    auto loaded = [&] {
        wgmma_engine<T>::arrived();
        __syncwarp();
        if (lane == 0)
            barrier_arrive(base + AT_FULL + 8 * (n % STAGES));
        n++;
    };
    struct mask_stream stream;
    if (MASK == MADE)
        stream = mask_stream(p.rng, p.coords, w.first, w.head, p.site, p.threshold);
    load_next();
    for (int pass = 0; w.has_pass(pass); pass++) {
        struct mask_keys keys[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            load_next();
            wait_loaded();
            loaded();
            if (MASK == MADE)
                keys[g] = mask_keys(&stream, (uint32_t)(w.key_tile(pass, g) * (TILE / 16) + lane % 4));
        }
        if (pass == 0)
            statistics_start<T>(p, w, shared, t);
#pragma unroll 1
        for (int i = w.first_query_tile(pass); i < w.query_tiles; i++) {
            load_next();
            if (MASK == MADE) {
                uint32_t query = (uint32_t)(i * TILE + 16 * warp + lane / 4);
                struct mask_query queries[2] = {mask_query(&stream, query), mask_query(&stream, query + 8)};
                uint32_t *words = (uint32_t *)(shared + AT_FLAGS + n % STAGES * FLAGS) + t;
#pragma unroll
                for (int g = 0; g < GROUPS; g++) {
                    uint32_t flags[2][4];
                    flags_of_keys(flags, &stream, queries, keys[g]);
                    words[128 * g] = mask_word(flags);
                }
            }
            wait_loaded();
            if (pass == 0)
                store_deltas<T>(shared, i, shared + AT_STAGES + n % STAGES * STAGE + HALF_TILE, MASK ? p.keep_scale : 1,
                                t);
            loaded();
        }
    }
}

/* ---- sums over rows, for a bias ---- */

/* What the warps and groups of a block have added up. */
struct columns {
    float dk[4 * GROUPS][64], dv[4 * GROUPS][64], dq[GROUPS][64];
};

/* A lane gives half of its sums to a partner, and adds the partner's to the half that it keeps. */
template <int HALF> __device__ static inline void halve(float (&s)[16], int lane)
{
    bool upper = lane & 2 * HALF;
#pragma unroll
    for (int k = 0; k < HALF; k++) {
        float given = upper ? s[k] : s[k + HALF], kept = upper ? s[k + HALF] : s[k];
        s[k] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, 2 * HALF);
    }
}

/* The sums over the warp's 16 rows of x are added to `to`: a lane has the columns 8 g + 2 c and the next. */
__device__ static inline void add_rows(float *to, const float (&x)[8][4], struct place at)
{
    float s[16];
#pragma unroll
    for (int k = 0; k < 16; k++)
        s[k] = x[k / 2][k % 2] + x[k / 2][2 + k % 2];
    halve<8>(s, at.lane);
    halve<4>(s, at.lane);
    halve<2>(s, at.lane);
    to[8 * at.g + 2 * at.c] += s[0];
    to[8 * at.g + 2 * at.c + 1] += s[1];
}

/* The block's part of the sums of dqkv's columns; `scale` of dq and dk, `keep` of dv. `t`: of the 256 threads that compute. */
template <int SPLIT>
__device__ static inline void write_columns(const struct attention_params &p, const struct work<SPLIT> &w,
                                            const struct columns &sums, float scale, float keep, int t)
{
    int part = t / 64, d = t % 64;
    if (part > 2 || d >= p.D)
        return;
    float sum = 0;
    for (int i = 0; i < (part == 0 ? GROUPS : 4 * GROUPS); i++)
        sum += part == 0 ? sums.dq[i][d] : part == 1 ? sums.dk[i][d] : sums.dv[i][d];
    p.sums[((int64_t)(w.sequence * SPLIT + w.rank) * 3 + part) * p.heads * p.D + w.head * p.D + d] =
        sum * (part == 2 ? keep : scale * keep);
}

/* ---- the groups that compute ---- */

/* Writes a warp's 16 rows of a group's tile, x times `factor`, by way of the group's tile of dS: `from` is the lane's
 * place there for matrices. `to` is row 0. */
template <class T>
__device__ static inline void store_rows(T *to, int stride, int valid, int D, const float (&x)[8][4], float factor,
                                         const char *tile, struct place at, uint32_t from)
{
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t r[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            r[e] = pack_pair(x[j + e / 2][e % 2 * 2] * factor, x[j + e / 2][e % 2 * 2 + 1] * factor, T());
        store_matrices(chunk_at<TILE>(from, j), r);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = at.row0 + 4 * i + at.lane / 8, chunk = at.lane % 8;
        if (row < valid && chunk * 8 < D)
            *(int4 *)(to + (int64_t)row * stride + chunk * 8) = *(const int4 *)(tile + chunk_offset<TILE>(row, chunk));
    }
}

template <class T, int SPLIT, bool DROP>
__device__ static inline void add_up(const struct attention_params &p, const struct work<SPLIT> &w, char *shared)
{
    using E = wgmma_engine<T>;
    uint32_t base = shared_address(shared);
    struct columns *columns = (struct columns *)(shared + AT_COLUMNS);
    int width = 3 * p.heads * p.D, out = p.heads * p.D;
    T *dq = (T *)p.dqkv + (int64_t)w.first * width + w.head * p.D, *dk = dq + out, *dv = dk + out;
    int t = (int)threadIdx.x % 128, lane = t % 32, group = (int)same_in_warp(threadIdx.x / 128);
    struct place at = {lane, (int)same_in_warp((uint32_t)t / 32) * 16, lane / 4, lane % 4};
    int n = 0;
    auto arrive = [&](int step) {
        barrier_wait(base + AT_FULL + 8 * (step % STAGES), (uint32_t)(step / STAGES) & 1);
        return base + AT_STAGES + step % STAGES * STAGE;
    };
    auto arrive_at = [&](int barrier) {
        __syncwarp();
        if (lane == 0)
            barrier_arrive(base + (uint32_t)barrier);
    };
    auto done_with = [&] {
        arrive_at(AT_EMPTY + 8 * (n % STAGES));
        n++;
    };
    /* For the turn to add to the sum of query tile i; says whether that has begun. */
    auto wait_turn = [&](int pass, int i) {
        if (group == 0 && pass == 0)
            return false;
        int before = group > 0 ? group - 1 : GROUPS - 1;
        barrier_wait(base + AT_ADDED + 8 * (before * (LONGEST / TILE) + i), (uint32_t)(pass - (group == 0)) & 1);
        return true;
    };
    float sl = p.scale * LOG2E, keep = DROP ? p.keep_scale : 1;
    uint32_t ds_tile = base + AT_DS + group * HALF_TILE;
    uint32_t ds_row = row_start(ds_tile, at.row0 + lane % 16) ^ (uint32_t)(lane / 16 * 16);
    /* Where the words of the warp's keys and the lane's queries begin; times `to_top`, the flag of key g is on top. */
    uint32_t to_top = 0x80000000u >> (8 * (at.g % 4) + at.g / 4);
    uint32_t row_flags = AT_FLAGS + group * (FLAGS / GROUPS) + at.row0 / 4 + at.c * 32;
    for (int pass = 0; w.has_pass(pass); pass++) {
        int key_at = w.key_tile(pass, group), key0 = key_at * TILE;
        struct half_fragments k, v, k_turned;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            uint32_t tile = arrive(n);
            if (g == group) {
                uint32_t row = row_start(tile, at.row0 + lane % 16) ^ (uint32_t)(lane / 16 * 16);
                uint32_t turned =
                    row_start(tile, lane % 8 + lane / 16 * 8) ^ (uint32_t)(at.row0 * 2 + lane / 8 % 2 * 16);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    load_matrices(k.r[i], chunk_at<TILE>(row, 2 * i));
                    load_matrices(v.r[i], chunk_at<TILE>(row, 2 * i) + HALF_TILE);
                    load_matrices_transposed(k_turned.r[i], turned + (uint32_t)(i * 2048));
                }
            }
            done_with();
        }

        float dk_acc[8][4] = {}, dv_acc[8][4] = {}, s[8][4]; /* s, ds: rows are keys, columns are queries */
        int i = w.first_query_tile(pass), from = key_at >= w.tiles ? w.query_tiles : p.causal ? key_at : 0;
        for (; i < from; i++) {
            arrive(n);
            done_with();
            wait_turn(pass, i);
            arrive_at(AT_ADDED + 8 * (group * (LONGEST / TILE) + i));
        }
        uint32_t q_tile = 0;
        if (i < w.query_tiles) {
            q_tile = arrive(n);
            E::scores_of(s, k, q_tile);
            E::template wait<0>(s);
        }
#pragma unroll 1
        for (; i < w.query_tiles; i++) {
            uint32_t do_tile = q_tile + HALF_TILE;
            float ds[8][4];
            uint32_t flags[4][2];
            E::scores_of(ds, v, do_tile);
            if (DROP) {
                const uint32_t *from = (const uint32_t *)(shared + row_flags + n % STAGES * FLAGS);
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        flags[j][e] = from[32 * j + 4 * e];
            }
            const float2 *shift = (const float2 *)(shared + AT_SHIFTS) + i * (TILE / 2) + at.c;
            const float2 *delta = (const float2 *)(shared + AT_DELTAS) + i * (TILE / 2) + at.c;
            if (key0 + TILE > w.length || (p.causal && i == key_at)) {
#pragma unroll
                for (int j = 0; j < 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int key = key0 + at.row0 + at.g + e / 2 * 8, query = i * TILE + 8 * j + 2 * at.c + e % 2;
                        if (key >= w.length || (p.causal && key > query))
                            s[j][e] = -INFINITY;
                    }
            }
#pragma unroll
            for (int j = 0; j < 8; j++) { /* p, which gets a sign where it is dropped */
                float2 two = shift[4 * j];
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float x = exp2_fast(fmaf(s[j][e], sl, e % 2 ? two.y : two.x));
                    if (DROP)
                        x = __uint_as_float(
                            __float_as_uint(x) |
                            (~(flags[j / 2][e % 2] * (to_top >> (j % 2 * 4 + e / 2 * 2))) & 0x80000000u));
                    s[j][e] = x;
                }
            }
            struct half_fragments f, f2;
            if (DROP)
                half_make_positive<T>(f, s);
            else
                half_make<T>(f, s);
            E::template add_product<64>(dv_acc, f, do_tile);
            group_sync(group); /* all are done with the last tile's ds */
            E::template wait<1>(ds);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float2 two = delta[4 * j];
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float kept = DROP ? __saturatef(s[j][e]) : s[j][e];
                    ds[j][e] = fmaf(kept, ds[j][e], fabsf(s[j][e]) * (e % 2 ? two.y : two.x));
                }
            }
            half_make<T>(f2, ds);
            E::template add_product<64>(dk_acc, f2, q_tile);
            E::template wait<1>(dv_acc);
#pragma unroll
            for (int j = 0; j < 4; j++)
                store_matrices(chunk_at<TILE>(ds_row, 2 * j), f2.r[j]);
            E::arrived();
            group_sync(group);
            float x[8][4]; /* rows are elements of the head, columns are queries */
            E::product(x, k_turned, ds_tile);
            uint32_t next_tile =
                q_tile; /* the next tile then begins with its weights; behind the last it is idle work */
            if (i + 1 < w.query_tiles)
                next_tile = arrive(n + 1);
            E::scores_of(s, k, next_tile);
            float4 *sums = (float4 *)(shared + AT_SUMS + i * SUM_TILE) + t;
            bool begun = wait_turn(pass, i);
            E::template wait<1>(x);
            E::template wait<1>(dk_acc);
            if (begun) {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    float4 so_far = sums[128 * j];
                    sums[128 * j] =
                        make_float4(so_far.x + x[j][0], so_far.y + x[j][1], so_far.z + x[j][2], so_far.w + x[j][3]);
                }
            } else {
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sums[128 * j] = make_float4(x[j][0], x[j][1], x[j][2], x[j][3]);
            }
            arrive_at(AT_ADDED + 8 * (group * (LONGEST / TILE) + i));
            done_with();
            E::template wait<0>(s);
            q_tile = next_tile;
        }
        if (SPLIT > 1 && !w.has_pass(pass + 1))
            cluster_arrive();
        if (p.sums) {
            add_rows(columns->dk[threadIdx.x / 32], dk_acc, at);
            add_rows(columns->dv[threadIdx.x / 32], dv_acc, at);
        }
        group_sync(group);
        store_rows<T>(dk + (int64_t)key0 * width, width, w.length - key0, p.D, dk_acc, p.scale * keep,
                      shared + AT_DS + group * HALF_TILE, at, ds_row);
        store_rows<T>(dv + (int64_t)key0 * width, width, w.length - key0, p.D, dv_acc, keep,
                      shared + AT_DS + group * HALF_TILE, at, ds_row);
    }

    /* dQ: the sums of all blocks. */
    if (SPLIT > 1) {
        if (!w.has_pass(0))
            cluster_arrive();
        cluster_wait();
    } else {
        asm volatile("bar.sync 3, 256;" ::: "memory");
    }
    float dq_sum[2] = {0, 0}; /* of rows g and g + 8: elements of the head */
    for (int i = w.rank * GROUPS + group; i < w.query_tiles; i += SPLIT * GROUPS) {
        float4 parts[SPLIT][8];
        float x[8][4] = {};
#pragma unroll
        for (int r = 0; r < SPLIT; r++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                parts[r][j] = load_from(base + AT_SUMS + (uint32_t)(i * SUM_TILE + (128 * j + t) * 16), r);
#pragma unroll
        for (int r = 0; r < SPLIT; r++)
            if (r * GROUPS < w.tiles && (!p.causal || r * GROUPS <= i)) /* the others have added nothing */
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    x[j][0] += parts[r][j].x;
                    x[j][1] += parts[r][j].y;
                    x[j][2] += parts[r][j].z;
                    x[j][3] += parts[r][j].w;
                }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            dq_sum[0] += x[j][0] + x[j][1];
            dq_sum[1] += x[j][2] + x[j][3];
        }
        group_sync(group);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            uint32_t r[4];
            float f = p.scale * keep;
#pragma unroll
            for (int e = 0; e < 4; e++)
                r[e] = pack_pair(x[j + e / 2][e % 2 * 2] * f, x[j + e / 2][e % 2 * 2 + 1] * f, T());
            store_matrices_transposed(
                row_start(ds_tile, 8 * j + lane / 16 * 8 + lane % 8) ^ (uint32_t)(at.row0 * 2 + lane / 8 % 2 * 16), r);
        }
        group_sync(group);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int row = r * 16 + t / 8, query = i * TILE + row, chunk = t % 8;
            if (query < w.queries && chunk * 8 < p.D)
                *(int4 *)(dq + (int64_t)query * width + chunk * 8) =
                    *(const int4 *)(shared + AT_DS + group * HALF_TILE + chunk_offset<TILE>(row, chunk));
        }
    }
    if (p.sums) {
        for (int h = 0; h < 2; h++) {
            float sum = quad_sum(dq_sum[h]);
            if (at.c == 0)
                columns->dq[group][at.row0 + at.g + 8 * h] = sum;
        }
        asm volatile("bar.sync 4, 256;" ::: "memory");
        write_columns(p, w, *columns, p.scale, keep, (int)threadIdx.x);
    }
}

template <class T, int SPLIT, enum mask_from MASK>
__global__ __cluster_dims__(SPLIT, 1, 1)
    __launch_bounds__(THREADS, 1) void attention_backward_short(const __grid_constant__ struct attention_params p)
{
    extern __shared__ __align__(1024) char shared[];
    uint32_t base = shared_address(shared);
    int sequence = (int)blockIdx.x / SPLIT / p.heads;
    struct work<SPLIT> w = {
        (int)blockIdx.x % SPLIT, (int)blockIdx.x / SPLIT % p.heads, sequence, p.cu[sequence]
    };
    w.length = (sequence < p.B ? p.cu[sequence + 1] : p.T) - w.first;
    w.tiles = (w.length + TILE - 1) / TILE;
    w.queries = sequence < p.B ? rows_asking(p, w.length) : 0;
    w.query_tiles = (w.queries + TILE - 1) / TILE;
    w.causal = p.causal;
    for (int i = 0; i < (sequence < p.B ? 1 : 3) && w.rank == 0; i++) /* of the padding dk and dv, too */
        rows_clear((T *)p.dqkv + ((int64_t)w.first * 3 + i) * p.heads * p.D + w.head * p.D, 3 * p.heads * p.D,
                   w.queries, w.length, p.D);
    if (sequence == p.B)
        return;
    struct columns *columns = (struct columns *)(shared + AT_COLUMNS);
    for (int i = (int)threadIdx.x; p.sums && i < (int)(sizeof *columns / sizeof(float)); i += THREADS)
        ((float *)columns)[i] = 0;
    if (w.length == 0) {
        __syncthreads();
        if (p.sums && threadIdx.x < GROUPS * 128)
            write_columns(p, w, *columns, 0, 0, (int)threadIdx.x);
        return;
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(base + AT_FULL + 8 * i, 4);
            barrier_init(base + AT_EMPTY + 8 * i, GROUPS * 4);
        }
        for (int i = 0; i < GROUPS * (LONGEST / TILE); i++)
            barrier_init(base + AT_ADDED + 8 * i, 4);
    }
    __syncthreads();
    if (threadIdx.x >= GROUPS * 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        fill_ring<T, SPLIT, MASK>(p, w, shared, (int)threadIdx.x - GROUPS * 128);
        if (SPLIT > 1) {
            cluster_arrive();
            cluster_wait();
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        add_up<T, SPLIT, MASK != NO_MASK>(p, w, shared);
    }
    if (SPLIT > 1)
        cluster_left();
}

template <class T, int SPLIT> static int launch(const struct attention_params *p, const struct cuda_call *c)
{
    attention_kernel *kernel = !p->threshold ? attention_backward_short<T, SPLIT, NO_MASK>
                               : p->mask     ? attention_backward_short<T, SPLIT, KEPT>
                                             : attention_backward_short<T, SPLIT, MADE>;
    TRY(cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES),
                   "attention_bwd", c->err));
    kernel<<<(unsigned)(SPLIT * p->heads * (p->B + 1)), THREADS, SHARED_BYTES, c->stream>>>(*p);
    return cuda_launched(c, "attention_bwd");
}

/* One head's work for one block is too much where there are few. A block of a pair takes 0.6 of the time. */
static bool in_one_block(const struct attention_params *p, int sms)
{
    int64_t heads = (int64_t)p->B * p->heads;
    return 10 * ((heads + sms - 1) / sms) <= 6 * ((2 * heads + sms - 1) / sms);
}

enum { MEAN_LENGTH = 128 }; /* from here on it gains */

extern "C" bool cuda_attention_reads_mask(const struct op_attention_bwd *n, int64_t D)
{
    return n->longest >= MEAN_LENGTH && n->longest <= LONGEST && n->heads == n->kv_heads && D > 32 && D <= 64;
}

bool attention_is_short(const struct attention_params *p, int sms)
{
    struct op_attention_bwd n = {};
    n.heads = p->heads, n.kv_heads = p->kv_heads, n.longest = p->longest;
    return cuda_attention_reads_mask(&n, p->D) && p->T >= MEAN_LENGTH * (int64_t)p->B &&
           4 * (int64_t)p->B * p->heads >= sms;
}

int64_t attention_short_parts(const struct attention_params *p, int sms)
{
    return p->B * (in_one_block(p, sms) ? 1 : 2);
}

int attention_backward_short_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c)
{
    if (in_one_block(p, c->sms))
        return dtype == DT_BF16 ? launch<__nv_bfloat16, 1>(p, c) : launch<__half, 1>(p, c);
    return dtype == DT_BF16 ? launch<__nv_bfloat16, 2>(p, c) : launch<__half, 2>(p, c);
}
