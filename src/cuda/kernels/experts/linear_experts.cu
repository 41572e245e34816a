/* Products of experts with their own rows, one launch for all of them. How many rows an expert has is known on the device alone, so
 * there are blocks for the most tiles that so many rows can make, and those without a tile end at once. Sums over an expert's rows
 * (linear_experts_dw) are those of one block, in order.
 *
 * On Hopper, 16-bit types are for linear_experts_sm90.cu, but for gradients of weights. Elsewhere: tiles of 128 by 128 on tensor cores
 * (mma.m16n8k16), with copies to shared memory one step ahead. Bound by operations
 * where experts have some hundred rows, by the bytes of the weights where they have few. Others, and sizes that are no multiple of 8:
 * tiles of 64 by 64 on the ordinary units. */
#include "cuda/attention/attention_16bit.cuh"
#include "cuda/kernels/experts/linear_experts_sm90.h"
#include "cuda/kernels/vector.cuh"

enum { MMA_TILE = 128, MMA_DEPTH = 32, MMA_PITCH = MMA_TILE + 8, MMA_DEPTH_PITCH = MMA_DEPTH + 8 };
enum { PLAIN_TILE = 64, PLAIN_DEPTH = 16, EXPERT_THREADS = 256 };

/* C = A B for each expert. A is (M,K) or, when A_BY_K is false, (K,M); B is (N,K) or (K,N); C is (M,N). The rows of x and y that an
 * expert has are its M or, of a gradient of weights, its K. */
struct experts {
    const void *a, *b;
    void *c;
    const int32_t *offsets;
    int E, M, N, K; /* M or K: not looked at where it is the expert's rows */
    bool rows_are_k, add;
};

/* A tile of C: of which operands, and where. */
template <class T, class C> struct tile_of_expert {
    const T *a, *b;
    C *c;
    int M, N, K, m, n; /* the tile begins at row m, column n */
};

/* The expert that has row tile t of all tiles of `size` rows; -1: there are fewer. *first: the tile's first row. All lanes of a warp
 * call it. */
__device__ static inline int expert_of_tile(const int32_t *offsets, int E, int size, int t, int *first)
{
    int lane = (int)threadIdx.x % 32, before = 0;
    for (int e0 = 0; e0 < E; e0 += 32) {
        int e = e0 + lane, tiles = e < E ? (offsets[e + 1] - offsets[e] + size - 1) / size : 0, end = tiles;
        for (int d = 1; d < 32; d *= 2) {
            int other = __shfl_up_sync(0xFFFFFFFFu, end, d);
            end += lane >= d ? other : 0;
        }
        int behind = __popc(__ballot_sync(0xFFFFFFFFu, before + end > t)); /* the last so many lanes */
        if (behind) {
            int l = 32 - behind, begin = before + __shfl_sync(0xFFFFFFFFu, end - tiles, l);
            *first = (t - begin) * size;
            return e0 + l;
        }
        before += __shfl_sync(0xFFFFFFFFu, end, 31);
    }
    return -1;
}

template <class T, class C>
__device__ static inline bool find_tile(const struct experts &p, int size, struct tile_of_expert<T, C> *t)
{
    int e = (int)blockIdx.z, m = (int)blockIdx.y * size;
    if (!p.rows_are_k)
        e = expert_of_tile(p.offsets, p.E, size, (int)blockIdx.y, &m);
    if (e < 0)
        return false;
    int64_t first = p.offsets[e], rows = p.offsets[e + 1] - first, K = p.K, N = p.N, M = p.M;
    t->m = m;
    t->n = (int)blockIdx.x * size;
    t->N = p.N;
    t->M = p.rows_are_k ? p.M : (int)rows;
    t->K = p.rows_are_k ? (int)rows : p.K;
    t->a = (const T *)p.a + first * (p.rows_are_k ? M : K);
    t->b = (const T *)p.b + (p.rows_are_k ? first * N : e * N * K);
    t->c = (C *)p.c + (p.rows_are_k ? e * M * N : first * N);
    return true;
}

/* ---- on ordinary units ---- */

/* Element (i, k) of an operand; 0 outside. */
template <class T, bool BY_K> __device__ static inline float element(const T *x, int i, int rows, int k, int K)
{
    return i < rows && k < K ? to_float(BY_K ? x[(int64_t)i * K + k] : x[(int64_t)k * rows + i]) : 0;
}

template <class T, bool BY_K>
__device__ static inline void plain_load(float (&to)[PLAIN_DEPTH][PLAIN_TILE + 4], const T *x, int i0, int rows, int k0,
                                         int K)
{
    for (int at = (int)threadIdx.x; at < PLAIN_TILE * PLAIN_DEPTH; at += EXPERT_THREADS) {
        int k = BY_K ? at % PLAIN_DEPTH : at / PLAIN_TILE, i = BY_K ? at / PLAIN_DEPTH : at % PLAIN_TILE;
        to[k][i] = element<T, BY_K>(x, i0 + i, rows, k0 + k, K);
    }
}

template <class T, class C, bool A_BY_K, bool B_BY_K>
__global__ void __launch_bounds__(EXPERT_THREADS) plain_kernel(struct experts p)
{
    __shared__ float a[PLAIN_DEPTH][PLAIN_TILE + 4], b[PLAIN_DEPTH][PLAIN_TILE + 4];
    struct tile_of_expert<T, C> t;
    if (!find_tile(p, PLAIN_TILE, &t))
        return;
    int row = (int)threadIdx.x / 16 * 4, column = (int)threadIdx.x % 16 * 4;
    float sum[4][4] = {{0}};
    for (int k0 = 0; k0 < t.K; k0 += PLAIN_DEPTH) {
        __syncthreads();
        plain_load<T, A_BY_K>(a, t.a, t.m, t.M, k0, t.K);
        plain_load<T, B_BY_K>(b, t.b, t.n, t.N, k0, t.K);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PLAIN_DEPTH; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] += a[k][row + i] * b[k][column + j];
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (t.m + row + i < t.M && t.n + column + j < t.N)
                store_or_add<C, 1>(t.c + (int64_t)(t.m + row + i) * t.N + t.n + column + j, {sum[i][j]}, p.add);
}

/* ---- on tensor cores ---- */

/* Starts copying a tile of an operand: as it lies, so (128, 32) or (32, 128) elements. */
template <class T, bool BY_K>
__device__ static inline void mma_load(uint32_t to, const T *x, int i0, int rows, int k0, int K)
{
    constexpr int CHUNKS = BY_K ? MMA_DEPTH / 8 : MMA_TILE / 8;
#pragma unroll
    for (int at = (int)threadIdx.x; at < MMA_TILE * MMA_DEPTH / 8; at += EXPERT_THREADS) {
        int line = at / CHUNKS, chunk = at % CHUNKS * 8;
        int i = i0 + (BY_K ? line : chunk), k = k0 + (BY_K ? chunk : line);
        bool there = i < rows && k < K;
        const T *from = there ? x + (BY_K ? (int64_t)i * K + k : (int64_t)k * rows + i) : x;
        copy_16(to + (uint32_t)(line * (BY_K ? MMA_DEPTH_PITCH : MMA_PITCH) + chunk) * 2, from, there);
    }
}

/* The four matrices of rows i to i + 15 and depths k to k + 15: in the order rows, depths (A), or depths, rows (B). */
template <bool BY_K, bool ROWS_FIRST>
__device__ static inline void mma_fragment(uint32_t (&r)[4], uint32_t tile, int i, int k)
{
    int lane = (int)threadIdx.x % 32, one = lane / 8 % 2 * 8, two = lane / 16 * 8;
    i += ROWS_FIRST ? one : two;
    k += ROWS_FIRST ? two : one;
    if (BY_K)
        load_matrices(r, tile + (uint32_t)((i + lane % 8) * MMA_DEPTH_PITCH + k) * 2);
    else
        load_matrices_transposed(r, tile + (uint32_t)((k + lane % 8) * MMA_PITCH + i) * 2);
}

template <class C> __device__ static inline void put_pair(C *to, float x, float y, bool add)
{
    if constexpr (sizeof(C) == 4) {
        float2 old = add ? *(const float2 *)to : make_float2(0, 0);
        *(float2 *)to = make_float2(old.x + x, old.y + y);
    } else {
        float2 old = add ? unpack_pair(*(const uint32_t *)to, C()) : make_float2(0, 0);
        *(uint32_t *)to = pack_pair(old.x + x, old.y + y, C());
    }
}

/* Warp w has rows w / 4 * 64 on, columns w % 4 * 32 on. */
template <class T, class C, bool A_BY_K, bool B_BY_K>
__global__ void __launch_bounds__(EXPERT_THREADS, 2) mma_kernel(struct experts p)
{
    constexpr int BYTES = MMA_TILE * MMA_DEPTH_PITCH * 2; /* of either layout of a tile */
    __shared__ __align__(16) unsigned char shared[4 * BYTES];
    struct tile_of_expert<T, C> t;
    if (!find_tile(p, MMA_TILE, &t))
        return;
    uint32_t base = shared_address(shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, row = warp / 4 * 64, column = warp % 4 * 32;
    int steps = (t.K + MMA_DEPTH - 1) / MMA_DEPTH;
    float sum[4][4][4] = {{{0}}};
    for (int s = -1; s < steps; s++) {
        if (s + 1 < steps) {
            uint32_t to = base + (uint32_t)((s + 1) % 2 * 2 * BYTES);
            mma_load<T, A_BY_K>(to, t.a, t.m, t.M, (s + 1) * MMA_DEPTH, t.K);
            mma_load<T, B_BY_K>(to + BYTES, t.b, t.n, t.N, (s + 1) * MMA_DEPTH, t.K);
        }
        loads_commit();
        if (s < 0)
            continue;
        loads_wait<1>();
        __syncthreads();
        uint32_t a = base + (uint32_t)(s % 2 * 2 * BYTES), b = a + BYTES;
#pragma unroll
        for (int k = 0; k < MMA_DEPTH; k += 16) {
            uint32_t left[4][4], right[2][4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                mma_fragment<A_BY_K, true>(left[i], a, row + 16 * i, k);
#pragma unroll
            for (int j = 0; j < 2; j++)
                mma_fragment<B_BY_K, false>(right[j], b, column + 16 * j, k);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    mma_16(sum[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1], T());
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int m = t.m + row + 16 * i + 8 * half + lane / 4, n = t.n + column + 8 * j + lane % 4 * 2;
                if (m < t.M && n < t.N)
                    put_pair(t.c + (int64_t)m * t.N + n, sum[i][j][2 * half], sum[i][j][2 * half + 1], p.add);
            }
}

/* ---- launchers ---- */

static bool chunks_fit(const struct tensor *t)
{
    return t->dtype != DT_F32 && packs_fit(t);
}

/* rows: of all experts together. */
static dim3 grid_of(const struct experts *p, int64_t rows, int tile)
{
    unsigned columns = (unsigned)((p->N + tile - 1) / tile);
    return p->rows_are_k ? dim3(columns, (unsigned)((p->M + tile - 1) / tile), (unsigned)p->E)
                         : dim3(columns, (unsigned)(rows / tile + p->E), 1);
}

template <class T, class C, bool A_BY_K, bool B_BY_K>
static void launch(const struct experts *p, int64_t rows, bool fit, const struct cuda_call *c)
{
    if constexpr (sizeof(T) == 2)
        if (fit) {
            mma_kernel<T, C, A_BY_K, B_BY_K><<<grid_of(p, rows, MMA_TILE), EXPERT_THREADS, 0, c->stream>>>(*p);
            return;
        }
    plain_kernel<T, C, A_BY_K, B_BY_K><<<grid_of(p, rows, PLAIN_TILE), EXPERT_THREADS, 0, c->stream>>>(*p);
}

extern "C" int cuda_linear_experts(const struct args_linear_experts *a, const struct cuda_call *c)
{
    struct experts p = {.a = a->x.data,
                        .b = a->w.data,
                        .c = a->y.data,
                        .offsets = (const int32_t *)a->offsets.data,
                        .E = (int)a->w.shape[0],
                        .N = (int)a->y.shape[1],
                        .K = (int)a->x.shape[1]};
    bool fit = chunks_fit(&a->x) && chunks_fit(&a->w) && chunks_fit(&a->y);
    if (a->x.shape[0] > 0 && cuda_linear_experts_sm90_fits(a, c))
        return cuda_linear_experts_sm90(a, c);
    if (a->x.shape[0] > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, {
            if (a->in_out)
                launch<T, T, true, false>(&p, a->x.shape[0], fit, c);
            else
                launch<T, T, true, true>(&p, a->x.shape[0], fit, c);
        })
    return cuda_launched(c, "linear_experts");
}

extern "C" int cuda_linear_experts_dx(const struct args_linear_experts_dx *a, const struct cuda_call *c)
{
    struct experts p = {.a = a->dy.data,
                        .b = a->w.data,
                        .c = a->dx.data,
                        .offsets = (const int32_t *)a->offsets.data,
                        .E = (int)a->w.shape[0],
                        .N = (int)a->dx.shape[1],
                        .K = (int)a->dy.shape[1],
                        .add = a->dx.add};
    bool fit = chunks_fit(&a->dy) && chunks_fit(&a->w) && chunks_fit(&a->dx);
    if (a->dy.shape[0] > 0 && a->dx.data && cuda_linear_experts_dx_sm90_fits(a, c))
        return cuda_linear_experts_dx_sm90(a, c);
    if (a->dy.shape[0] > 0 && a->dx.data)
        WITH_FLOAT_TYPE(a->dy.dtype, T, {
            if (a->in_out)
                launch<T, T, true, true>(&p, a->dy.shape[0], fit, c);
            else
                launch<T, T, true, false>(&p, a->dy.shape[0], fit, c);
        })
    return cuda_launched(c, "linear_experts_dx");
}

extern "C" int cuda_linear_experts_dw(const struct args_linear_experts_dw *a, const struct cuda_call *c)
{
    const struct tensor *rows = a->in_out ? &a->x : &a->dy, *columns = a->in_out ? &a->dy : &a->x; /* of dw[e] */
    struct experts p = {.a = rows->data,
                        .b = columns->data,
                        .c = a->dw.data,
                        .offsets = (const int32_t *)a->offsets.data,
                        .E = (int)a->offsets.shape[0] - 1,
                        .M = (int)rows->shape[1],
                        .N = (int)columns->shape[1],
                        .rows_are_k = true,
                        .add = a->dw.add};
    bool fit = chunks_fit(&a->dy) && chunks_fit(&a->x) && packs_fit(&a->dw);
    if (a->dw.data)
        WITH_FLOAT_TYPE(a->dy.dtype, T, {
            if (a->dw.dtype == DT_F32)
                launch<T, float, false, false>(&p, a->dy.shape[0], fit, c);
            else
                launch<T, T, false, false>(&p, a->dy.shape[0], fit, c);
        })
    return cuda_launched(c, "linear_experts_dw");
}
