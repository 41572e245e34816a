/* attention_short_add.cuh: the groups of attention_short_sm90.cu that compute. */
#ifndef CUDA_ATTENTION_ATTENTION_SHORT_ADD_CUH
#define CUDA_ATTENTION_ATTENTION_SHORT_ADD_CUH

#include "cuda/attention/attention_short.cuh"

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

/* ---- the groups that compute ---- */

/* One thread of a group. All of it is in registers: every function here is inlined. */
template <class T, int SPLIT, bool DROP> struct adder {
    using E = wgmma_engine<T>;
    const struct attention_params &p;
    const struct work<SPLIT> &w;
    char *shared;
    uint32_t base;
    struct columns *columns;
    int width;          /* of a row of dqkv */
    T *dq, *dk, *dv;    /* of the sequence's first token */
    int t, lane, group; /* thread of the group, lane of its warp; the group of the block */
    struct place at;
    int n; /* the ring's next stage */
    float sl, keep;
    uint32_t ds_tile, ds_row; /* the group's tile of dS, and the lane's place there for matrices */
    /* Where the words of the warp's keys and the lane's queries begin; times `to_top`, the flag of key g is on top. */
    uint32_t to_top, row_flags;

    __device__ __forceinline__ adder(const struct attention_params &params, const struct work<SPLIT> &work,
                                     char *memory)
        : p(params), w(work), shared(memory)
    {
        base = shared_address(shared);
        columns = (struct columns *)(shared + AT_COLUMNS);
        int out = p.heads * p.D;
        width = 3 * p.heads * p.D;
        dq = (T *)p.dqkv + (int64_t)w.first * width + w.head * p.D, dk = dq + out, dv = dk + out;
        t = (int)threadIdx.x % 128, lane = t % 32, group = (int)same_in_warp(threadIdx.x / 128);
        at = {lane, (int)same_in_warp((uint32_t)t / 32) * 16, lane / 4, lane % 4};
        n = 0;
        sl = p.scale * LOG2E, keep = DROP ? p.keep_scale : 1;
        ds_tile = base + AT_DS + group * HALF_TILE;
        ds_row = row_start(ds_tile, at.row0 + lane % 16) ^ (uint32_t)(lane / 16 * 16);
        to_top = 0x80000000u >> (8 * (at.g % 4) + at.g / 4);
        row_flags = AT_FLAGS + group * (FLAGS / GROUPS) + at.row0 / 4 + at.c * 32;
    }

    /* ---- the ring, and turns ---- */

    __device__ __forceinline__ uint32_t arrive(int step) const
    {
        barrier_wait(base + AT_FULL + 8 * (step % STAGES), (uint32_t)(step / STAGES) & 1);
        return base + AT_STAGES + step % STAGES * STAGE;
    }
    __device__ __forceinline__ void arrive_at(int barrier) const
    {
        __syncwarp();
        if (lane == 0)
            barrier_arrive(base + (uint32_t)barrier);
    }
    __device__ __forceinline__ void done_with()
    {
        arrive_at(AT_EMPTY + 8 * (n % STAGES));
        n++;
    }
    /* For the turn to add to the sum of query tile i; says whether that has begun. */
    __device__ __forceinline__ bool wait_turn(int pass, int i) const
    {
        if (group == 0 && pass == 0)
            return false;
        int before = group > 0 ? group - 1 : GROUPS - 1;
        barrier_wait(base + AT_ADDED + 8 * (before * (LONGEST / TILE) + i), (uint32_t)(pass - (group == 0)) & 1);
        return true;
    }
    __device__ __forceinline__ void end_turn(int i) const
    {
        arrive_at(AT_ADDED + 8 * (group * (LONGEST / TILE) + i));
    }

    /* ---- a pass: 64 keys of the group, and all queries ---- */

    /* K and V of this group out of those of all. */
    __device__ __forceinline__ void load_keys(struct half_fragments &k, struct half_fragments &v,
                                              struct half_fragments &k_turned)
    {
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
    }

    __device__ __forceinline__ void load_flags(uint32_t (&flags)[4][2]) const
    {
        const uint32_t *from = (const uint32_t *)(shared + row_flags + n % STAGES * FLAGS);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                flags[j][e] = from[32 * j + 4 * e];
    }

    __device__ __forceinline__ void hide(float (&s)[8][4], int key0, int i) const
    {
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int key = key0 + at.row0 + at.g + e / 2 * 8, query = i * TILE + 8 * j + 2 * at.c + e % 2;
                if (key >= w.length || (p.causal && key > query))
                    s[j][e] = -INFINITY;
            }
    }

    /* s becomes p, which gets a sign where it is dropped. */
    __device__ __forceinline__ void weights(float (&s)[8][4], const uint32_t (&flags)[4][2], const float2 *shift) const
    {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float2 two = shift[4 * j];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float x = exp2_fast(fmaf(s[j][e], sl, e % 2 ? two.y : two.x));
                if (DROP)
                    x = __uint_as_float(__float_as_uint(x) |
                                        (~(flags[j / 2][e % 2] * (to_top >> (j % 2 * 4 + e / 2 * 2))) & 0x80000000u));
                s[j][e] = x;
            }
        }
    }

    /* dP becomes dS. */
    __device__ __forceinline__ void slopes(float (&ds)[8][4], const float (&s)[8][4], const float2 *delta) const
    {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float2 two = delta[4 * j];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float kept = DROP ? __saturatef(s[j][e]) : s[j][e];
                ds[j][e] = fmaf(kept, ds[j][e], fabsf(s[j][e]) * (e % 2 ? two.y : two.x));
            }
        }
    }

    /* dQ^T of query tile i. */
    __device__ __forceinline__ void add_queries(const float (&x)[8][4], int i, bool begun) const
    {
        float4 *sums = (float4 *)(shared + AT_SUMS + i * SUM_TILE) + t;
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
    }

    /* Query tile i, whose scores s are made; then the next one's are. */
    __device__ __forceinline__ void query_tile(int pass, int i, int key_at, const struct half_fragments &k,
                                               const struct half_fragments &v, const struct half_fragments &k_turned,
                                               float (&s)[8][4], float (&dk_acc)[8][4], float (&dv_acc)[8][4],
                                               uint32_t &q_tile)
    {
        uint32_t do_tile = q_tile + HALF_TILE;
        float ds[8][4];
        uint32_t flags[4][2];
        E::scores_of(ds, v, do_tile);
        if (DROP)
            load_flags(flags);
        const float2 *shift = (const float2 *)(shared + AT_SHIFTS) + i * (TILE / 2) + at.c;
        const float2 *delta = (const float2 *)(shared + AT_DELTAS) + i * (TILE / 2) + at.c;
        if (key_at * TILE + TILE > w.length || (p.causal && i == key_at))
            hide(s, key_at * TILE, i);
        weights(s, flags, shift);
        struct half_fragments f, f2;
        if (DROP)
            half_make_positive<T>(f, s);
        else
            half_make<T>(f, s);
        E::template add_product<64>(dv_acc, f, do_tile);
        group_sync(group); /* all are done with the last tile's ds */
        E::template wait<1>(ds);
        slopes(ds, s, delta);
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
        uint32_t next_tile = q_tile; /* the next tile then begins with its weights; behind the last it is idle work */
        if (i + 1 < w.query_tiles)
            next_tile = arrive(n + 1);
        E::scores_of(s, k, next_tile);
        bool begun = wait_turn(pass, i);
        E::template wait<1>(x);
        E::template wait<1>(dk_acc);
        add_queries(x, i, begun);
        end_turn(i);
        done_with();
        E::template wait<0>(s);
        q_tile = next_tile;
    }

    __device__ __forceinline__ void write_keys(int key0, const float (&dk_acc)[8][4], const float (&dv_acc)[8][4]) const
    {
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

    __device__ __forceinline__ void key_pass(int pass)
    {
        int key_at = w.key_tile(pass, group);
        struct half_fragments k, v, k_turned;
        load_keys(k, v, k_turned);

        float dk_acc[8][4] = {}, dv_acc[8][4] = {}, s[8][4]; /* s, ds: rows are keys, columns are queries */
        int i = w.first_query_tile(pass), from = key_at >= w.tiles ? w.query_tiles : p.causal ? key_at : 0;
        for (; i < from; i++) {
            arrive(n);
            done_with();
            wait_turn(pass, i);
            end_turn(i);
        }
        uint32_t q_tile = 0;
        if (i < w.query_tiles) {
            q_tile = arrive(n);
            E::scores_of(s, k, q_tile);
            E::template wait<0>(s);
        }
#pragma unroll 1
        for (; i < w.query_tiles; i++)
            query_tile(pass, i, key_at, k, v, k_turned, s, dk_acc, dv_acc, q_tile);
        if (SPLIT > 1 && !w.has_pass(pass + 1))
            cluster_arrive();
        write_keys(key_at * TILE, dk_acc, dv_acc);
    }

    /* ---- dQ: the sums of all blocks ---- */

    __device__ __forceinline__ void wait_for_sums() const
    {
        if (SPLIT > 1) {
            if (!w.has_pass(0))
                cluster_arrive();
            cluster_wait();
        } else {
            asm volatile("bar.sync 3, 256;" ::: "memory");
        }
    }

    __device__ __forceinline__ void gather(float (&x)[8][4], int i) const
    {
        float4 parts[SPLIT][8];
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
    }

    /* By way of the group's tile of dS. */
    __device__ __forceinline__ void store_queries(const float (&x)[8][4], int i) const
    {
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

    __device__ __forceinline__ void write_queries() const
    {
        float dq_sum[2] = {0, 0}; /* of rows g and g + 8: elements of the head */
        for (int i = w.rank * GROUPS + group; i < w.query_tiles; i += SPLIT * GROUPS) {
            float x[8][4] = {};
            gather(x, i);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                dq_sum[0] += x[j][0] + x[j][1];
                dq_sum[1] += x[j][2] + x[j][3];
            }
            store_queries(x, i);
        }
        if (!p.sums)
            return;
        for (int h = 0; h < 2; h++) {
            float sum = quad_sum(dq_sum[h]);
            if (at.c == 0)
                columns->dq[group][at.row0 + at.g + 8 * h] = sum;
        }
        asm volatile("bar.sync 4, 256;" ::: "memory");
        write_columns(p, w, *columns, p.scale, keep, (int)threadIdx.x);
    }
};

template <class T, int SPLIT, bool DROP>
__device__ static inline void add_up(const struct attention_params &p, const struct work<SPLIT> &w, char *shared)
{
    struct adder<T, SPLIT, DROP> a(p, w, shared);
    for (int pass = 0; w.has_pass(pass); pass++)
        a.key_pass(pass);
    a.wait_for_sums();
    a.write_queries();
}

#endif
