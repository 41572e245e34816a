/* Rotary embeddings with norms of queries and keys, and back. Bound by bytes: qkv and y once; back, dy and dqkv once, with gammas
 * qkv too.
 *
 * A group of lanes has what is normalised as one: a head, or all heads of q or of k; each lane has packs of N pairs of elements
 * that are rotated with each other. One pack stays in the lane's registers; of several, each is read again (from the cache) behind the sum,
 * and dy and qkv once more for the gradients of gammas. Order of sums: a group's by lanes, folded in a butterfly, then warp after warp. A
 * gamma's: rows are dealt out to at most CHUNKS blocks by shape; in a block, threads take every Y-th (row, head) in order and are added in
 * order; the blocks are added as columns.cuh says. */
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/vector.cuh"

extern "C" {
#include "op/rotary.h"
}

enum { THREADS = 256, CHUNKS = 264, CHUNK_ROWS = 8, HEADS = 4 };

struct rotary_params {
    const void *x; /* qkv; back, dy */
    void *y;       /* back, dqkv */
    const float *table, *q_gamma, *k_gamma;
    const void *qkv; /* back, with gammas */
    float *rstd;
    int64_t T, A, K, D, R, width, groups; /* as in op/rotary.h */
    float eps, one, sign;
    bool each, add; /* each: a group is one head */
    bool by_group;  /* of qkv, as in op/rotary.h */
    bool interleaved;
};

__global__ static void __launch_bounds__(THREADS)
    rotary_table_kernel(const int32_t *positions, const double *frequencies, float *table, int64_t elements,
                        int64_t half, double factor)
{
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = at / half, i = at % half;
    double sine, cosine;
    if (at >= elements)
        return;
    sincos(positions[n] * frequencies[i], &sine, &cosine);
    table[2 * n * half + i] = (float)(factor * cosine);
    table[(2 * n + 1) * half + i] = (float)(factor * sine);
}

extern "C" int cuda_rotary_table(const struct args_rotary_table *a, const struct cuda_call *c)
{
    int64_t half = a->frequencies.shape[0], elements = a->positions.shape[0] * half;
    if (elements > 0)
        rotary_table_kernel<<<(unsigned)((elements + THREADS - 1) / THREADS), THREADS, 0, c->stream>>>(
            (const int32_t *)a->positions.data, (const double *)a->frequencies.data, (float *)a->table.data, elements,
            half, a->factor);
    return cuda_launched(c, "rotary_table");
}

/* Where the two halves of a pack of N pairs from pair i on lie in a head. Interleaved, they are one behind the other, and a pair is two
 * neighbours in what both are together. */
struct place {
    int64_t a, b, angle; /* angle: -1 where they are not rotated */
};

template <int N> __device__ static inline struct place place(const struct rotary_params &p, int64_t i)
{
    int64_t half = p.R / 2, rest = (p.D - p.R) / 2;
    if (i < half && p.interleaved)
        return {2 * i, 2 * i + N, i};
    if (i < half)
        return {i, half + i, i};
    return {p.R + i - half, p.R + rest + i - half, -1};
}

template <int N>
__device__ static inline void load_angles(const struct rotary_params &p, int64_t n, int64_t angle, float (&cosine)[N],
                                          float (&sine)[N])
{
    load<float, N>(cosine, p.table + n * p.R + angle);
    load<float, N>(sine, p.table + n * p.R + p.R / 2 + angle);
#pragma unroll
    for (int i = 0; i < N; i++)
        sine[i] *= p.sign;
}

__device__ static inline void turn_pair(float cosine, float sine, float &a, float &b)
{
    float x = a, y = b;
    a = x * cosine - y * sine;
    b = y * cosine + x * sine;
}

template <int N>
__device__ static inline void turn(const struct rotary_params &p, const float (&cosine)[N], const float (&sine)[N],
                                   float (&a)[N], float (&b)[N])
{
    if (!p.interleaved || N == 1) {
#pragma unroll
        for (int i = 0; i < N; i++)
            turn_pair(cosine[i], sine[i], a[i], b[i]);
    } else {
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            turn_pair(cosine[i], sine[i], a[2 * i], a[2 * i + 1]);
            turn_pair(cosine[N / 2 + i], sine[N / 2 + i], b[2 * i], b[2 * i + 1]);
        }
    }
}

/* N pairs, rotated by the angles of row n. */
template <int N>
__device__ static inline void rotate(const struct rotary_params &p, int64_t n, int64_t angle, float (&a)[N],
                                     float (&b)[N])
{
    float cosine[N], sine[N];
    if (angle < 0)
        return;
    load_angles<N>(p, n, angle, cosine, sine);
    turn<N>(p, cosine, sine, a, b);
}

/* The sum over a group's L lanes, in all of them. */
template <int L> __device__ static inline float group_sum(float x)
{
    if constexpr (L <= 32) {
        for (int d = L / 2; d > 0; d /= 2)
            x += __shfl_xor_sync(0xFFFFFFFFu, x, d);
        return x;
    } else {
        __shared__ float sums[L / 32];
        x = warp_sum(x);
        if (threadIdx.x % 32 == 0)
            sums[threadIdx.x / 32] = x;
        __syncthreads();
        x = sums[0];
        for (int w = 1; w < L / 32; w++)
            x += sums[w];
        return x;
    }
}

/* A group's heads: which gammas, 0 of q, 1 of k, 2 none (v). */
struct heads {
    int64_t first, count;
    int part;
};

__device__ static inline struct heads heads_of(const struct rotary_params &p, int64_t g)
{
    if (p.each)
        return {g, 1, g < p.A ? 0 : g < p.A + p.K ? 1 : 2};
    return {g == 0 ? 0 : g == 1 ? p.A : p.A + p.K, g == 0 ? p.A : p.K, (int)g};
}

/* As rotary_source (op/rotary.h). */
__device__ static inline int64_t source(const struct rotary_params &p, int64_t h)
{
    int64_t queries = p.A / p.K, value = h - p.A - p.K;
    if (!p.by_group)
        return h;
    if (h < p.A)
        return h / queries * (queries + 2) + h % queries;
    return value < 0 ? (h - p.A) * (queries + 2) + queries : value * (queries + 2) + queries + 1;
}

/* Which row, and which group of it, a group of lanes has. 32 bits, whose division is fast, suffice for a terabyte of qkv. */
struct item {
    unsigned n, g;
};

template <int L> __device__ static inline struct item item_of(const struct rotary_params &p)
{
    unsigned all = (unsigned)(p.groups + (p.each ? p.K : 1)), at = blockIdx.x * (THREADS / L) + threadIdx.x / L;
    return {at / all, at % all};
}

template <class T, int N, int L> __global__ void __launch_bounds__(THREADS) rotary_kernel(const struct rotary_params p)
{
    struct item at = item_of<L>(p);
    int64_t n = at.n, g = at.g;
    struct heads h = heads_of(p, g);
    int packs = (int)(p.D / 2 / N), lane = threadIdx.x % L, count = n < p.T ? (int)h.count * packs : 0;
    int64_t row = n * p.width + h.first * p.D;
    const T *x = (const T *)p.x + row;
    const float *gamma = h.part == 0 ? p.q_gamma : h.part == 1 ? p.k_gamma : NULL;
    float a[N], b[N], gamma_a[N], gamma_b[N], squares = 0;
    for (int j = lane; j < count; j += L) {
        struct place i = place<N>(p, j % packs * N);
        load<T, N>(a, x + j / packs * p.D + i.a);
        load<T, N>(b, x + j / packs * p.D + i.b);
#pragma unroll
        for (int k = 0; k < N; k++)
            squares += a[k] * a[k] + b[k] * b[k];
    }
    float rstd = 1 / sqrtf(group_sum<L>(squares) / (float)(h.count * p.D) + p.eps);
    if (gamma && p.rstd && count && lane == 0)
        p.rstd[n * p.groups + g] = rstd;
    for (int j = lane; j < count; j += L) {
        struct place i = place<N>(p, j % packs * N);
        int64_t head = j / packs * p.D;
        if (count > L) {
            load<T, N>(a, x + head + i.a);
            load<T, N>(b, x + head + i.b);
        }
        if (gamma) {
            load<float, N>(gamma_a, gamma + head + i.a);
            load<float, N>(gamma_b, gamma + head + i.b);
#pragma unroll
            for (int k = 0; k < N; k++) {
                a[k] *= rstd * (gamma_a[k] + p.one);
                b[k] *= rstd * (gamma_b[k] + p.one);
            }
        }
        if (h.part < 2)
            rotate<N>(p, n, i.angle, a, b);
        store<T, N>((T *)p.y + row + head + i.a, a);
        store<T, N>((T *)p.y + row + head + i.b, b);
    }
}

/* N pairs of a gamma, as they multiply. */
template <int N> struct gammas {
    float a[N], b[N];
};

template <int N>
__device__ static inline void gammas_load(struct gammas<N> &g, const struct rotary_params &p, const float *gamma,
                                          const struct place &i)
{
    load<float, N>(g.a, gamma + i.a);
    load<float, N>(g.b, gamma + i.b);
#pragma unroll
    for (int k = 0; k < N; k++)
        g.a[k] += p.one, g.b[k] += p.one;
}

/* N pairs of dy rotated back, and their z = x rstd. */
template <int N> struct back {
    float da[N], db[N], za[N], zb[N];
};

template <class T, int N>
__device__ static inline void back_load(struct back<N> &v, const struct rotary_params &p, int64_t n, int64_t head,
                                        const struct place &i, float rstd)
{
    struct words<T, N> za = fetch<T, N>((const T *)p.qkv + head + i.a), zb = fetch<T, N>((const T *)p.qkv + head + i.b);
    load<T, N>(v.da, (const T *)p.x + head + i.a);
    load<T, N>(v.db, (const T *)p.x + head + i.b);
    rotate<N>(p, n, i.angle, v.da, v.db);
    unpack<T, N>(v.za, za);
    unpack<T, N>(v.zb, zb);
#pragma unroll
    for (int k = 0; k < N; k++)
        v.za[k] *= rstd, v.zb[k] *= rstd;
}

/* The sum of dz z over N pairs. */
template <int N> __device__ static inline float back_total(const struct back<N> &v, const struct gammas<N> &g)
{
    float total = 0;
#pragma unroll
    for (int k = 0; k < N; k++)
        total += v.da[k] * g.a[k] * v.za[k] + v.db[k] * g.b[k] * v.zb[k];
    return total;
}

/* N pairs of dqkv; `mean` is that of back_total over the group's elements. */
template <class T, int N>
__device__ static inline void back_store(const struct back<N> &v, const struct gammas<N> &g,
                                         const struct rotary_params &p, int64_t head, const struct place &i, float rstd,
                                         float mean)
{
    float a[N], b[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        a[k] = (v.da[k] * g.a[k] - v.za[k] * mean) * rstd;
        b[k] = (v.db[k] * g.b[k] - v.zb[k] * mean) * rstd;
    }
    store_or_add<T, N>((T *)p.y + head + i.a, a, p.add);
    store_or_add<T, N>((T *)p.y + head + i.b, b, p.add);
}

/* N pairs of dv. */
template <class T, int N>
__device__ static inline void back_copy(const struct rotary_params &p, int64_t head, const struct place &i)
{
    float a[N], b[N];
    load<T, N>(a, (const T *)p.x + head + i.a);
    load<T, N>(b, (const T *)p.x + head + i.b);
    store_or_add<T, N>((T *)p.y + head + i.a, a, p.add);
    store_or_add<T, N>((T *)p.y + head + i.b, b, p.add);
}

/* dqkv of q and k where there are gammas; v as in rotary_kernel. */
template <class T, int N, int L>
__global__ void __launch_bounds__(THREADS) rotary_norm_bwd_kernel(const struct rotary_params p)
{
    struct item at = item_of<L>(p);
    int64_t n = at.n, g = at.g;
    struct heads h = heads_of(p, g);
    int packs = (int)(p.D / 2 / N), lane = threadIdx.x % L, count = n < p.T ? (int)h.count * packs : 0;
    int64_t row = n * p.width + h.first * p.D;
    const float *gamma = h.part == 0 ? p.q_gamma : h.part == 1 ? p.k_gamma : NULL;
    float rstd = gamma && count ? p.rstd[n * p.groups + g] : 0, total = 0;
    struct gammas<N> scale;
    struct back<N> v;
    for (int j = lane; gamma && j < count; j += L) {
        struct place i = place<N>(p, j % packs * N);
        int64_t head = j / packs * p.D;
        gammas_load<N>(scale, p, gamma + head, i);
        back_load<T, N>(v, p, n, row + head, i, rstd);
        total += back_total<N>(v, scale);
    }
    float mean = group_sum<L>(total) / (float)(h.count * p.D);
    for (int j = lane; j < count; j += L) {
        struct place i = place<N>(p, j % packs * N);
        int64_t head = j / packs * p.D;
        if (!gamma) {
            back_copy<T, N>(p, row + head, i);
            continue;
        }
        gammas_load<N>(scale, p, gamma + head, i);
        back_load<T, N>(v, p, n, row + head, i, rstd);
        back_store<T, N>(v, scale, p, row + head, i, rstd, mean);
    }
}

/* Sums of dgamma over the block's threads, X of which have pairs of their own, in those X; for the others it does nothing. All call it. */
template <int N>
__device__ static inline void gamma_fold(float (&a)[N], float (&b)[N], float (&folded)[2 * N][THREADS], int X)
{
    int at = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
    for (int k = 0; k < N; k++)
        folded[k][at] = a[k], folded[N + k][at] = b[k];
    __syncthreads();
    for (int y = at + X; at < X && y < THREADS; y += X)
#pragma unroll
        for (int k = 0; k < N; k++)
            a[k] += folded[k][y], b[k] += folded[N + k][y];
    __syncthreads();
}

/* dqkv where each head is normalised alone and its lanes hold it, and on the way the sums of dx' z of q and of k (blocks, D), where they are
 * wanted. Block b has the rows b, b + blocks, …; its groups of lanes take every Y-th head of them: of q, of k, of v. */
template <class T, int N, int L>
__global__ void __launch_bounds__(THREADS, 2)
    heads_bwd_kernel(const struct rotary_params p, float *q_partial, float *k_partial)
{
    __shared__ float folded[2 * N][THREADS];
    const unsigned lane = threadIdx.x % L, group = threadIdx.x / L, step = THREADS / L;
    const unsigned rows = p.T > blockIdx.x ? ((unsigned)p.T - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
    const unsigned values = (unsigned)p.K;
    const struct place i = place<N>(p, lane * N);
    const bool live = lane < p.D / 2 / N;
    for (int part = 0; part < 2; part++) {
        const unsigned heads = (unsigned)(part ? p.K : p.A), first = part ? (unsigned)p.A : 0;
        float *partial = part ? k_partial : q_partial;
        struct gammas<N> scale;
        float a[N] = {0}, b[N] = {0};
        if (live)
            gammas_load<N>(scale, p, part ? p.k_gamma : p.q_gamma, i);
        /* All lanes of a warp, which sum together, go on as long as one of them. */
        for (unsigned base = 0; base < rows * heads; base += step) {
            const unsigned item = base + group, head = first + item % heads;
            const int64_t n = blockIdx.x + (int64_t)(item / heads) * gridDim.x, at = n * p.width + head * p.D;
            const bool on = live && item < rows * heads;
            float rstd = on ? p.rstd[n * p.groups + head] : 0, total = 0;
            struct back<N> v;
            if (on) {
                back_load<T, N>(v, p, n, at, i, rstd);
                total = back_total<N>(v, scale);
            }
            float mean = group_sum<L>(total) / (float)p.D;
            if (!on)
                continue;
            back_store<T, N>(v, scale, p, at, i, rstd, mean);
#pragma unroll
            for (int k = 0; k < N; k++)
                a[k] += v.da[k] * v.za[k], b[k] += v.db[k] * v.zb[k];
        }
        if (!partial)
            continue;
        gamma_fold<N>(a, b, folded, L);
        if (group == 0 && live) {
            store<float, N>(partial + blockIdx.x * p.D + i.a, a);
            store<float, N>(partial + blockIdx.x * p.D + i.b, b);
        }
    }
    for (unsigned item = group; live && item < rows * values; item += step) {
        const int64_t n = blockIdx.x + (int64_t)(item / values) * gridDim.x, head = p.A + p.K + item % values;
        back_copy<T, N>(p, n * p.width + head * p.D, i);
    }
}

/* Without gammas, both ways: a thread has one pack of pairs of up to HEADS heads of a row, which turn by the same angles. Its heads are
 * `stride` apart, so that neighbours read neighbouring heads. */
template <class T, int N, bool BACK>
__global__ void __launch_bounds__(THREADS) turn_kernel(const struct rotary_params p)
{
    int heads = (int)(p.A + 2 * p.K), packs = (int)(p.D / 2 / N), stride = (heads + HEADS - 1) / HEADS;
    int64_t n = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const T *x = (const T *)p.x + n * p.width;
    T *y = (T *)p.y + n * p.width;
    for (int j = (int)threadIdx.x; n < p.T && j < stride * packs; j += (int)blockDim.x) {
        struct place i = place<N>(p, j % packs * N);
        struct words<T, N> as[HEADS], bs[HEADS];
        float cosine[N], sine[N];
#pragma unroll
        for (int k = 0; k < HEADS; k++) {
            int h = j / packs + k * stride;
            const T *from = x + (BACK ? h : source(p, h)) * p.D;
            if (h < heads)
                as[k] = fetch<T, N>(from + i.a), bs[k] = fetch<T, N>(from + i.b);
        }
        if (i.angle >= 0)
            load_angles<N>(p, n, i.angle, cosine, sine);
#pragma unroll
        for (int k = 0; k < HEADS; k++) {
            int h = j / packs + k * stride;
            T *to = y + (BACK ? source(p, h) : h) * p.D;
            float a[N], b[N];
            if (h >= heads)
                continue;
            unpack<T, N>(a, as[k]);
            unpack<T, N>(b, bs[k]);
            if (i.angle >= 0 && h < p.A + p.K)
                turn<N>(p, cosine, sine, a, b);
            store_or_add<T, N>(to + i.a, a, p.add);
            store_or_add<T, N>(to + i.b, b, p.add);
        }
    }
}

/* partial (chunks, H): sums of dx' z of q (part 0) or of k. Threads (X, Y): X packs of pairs; block (x, y): packs from x X on, chunk y. */
template <class T, int N>
__global__ void __launch_bounds__(THREADS)
    gamma_sums_kernel(const struct rotary_params p, float *partial, int64_t H, int part)
{
    __shared__ float folded[2 * N][THREADS];
    int64_t packs = p.D / 2 / N, j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t count = part ? p.K : p.A, first = part ? p.A : 0, heads = p.each ? count : 1;
    int64_t rows = p.T > blockIdx.y ? (p.T - blockIdx.y + gridDim.y - 1) / gridDim.y : 0;
    struct place i = place<N>(p, j % packs * N);
    float a[N] = {0}, b[N] = {0};
    bool live = 2 * j * N < H;
    for (int64_t item = threadIdx.y; live && item < rows * heads; item += blockDim.y) {
        int64_t n = blockIdx.y + item / heads * gridDim.y, head = first + (p.each ? item % heads : j / packs);
        struct back<N> v;
        back_load<T, N>(v, p, n, n * p.width + head * p.D, i, p.rstd[n * p.groups + (p.each ? head : part)]);
#pragma unroll
        for (int k = 0; k < N; k++)
            a[k] += v.da[k] * v.za[k], b[k] += v.db[k] * v.zb[k];
    }
    gamma_fold<N>(a, b, folded, blockDim.x);
    if (threadIdx.y > 0 || !live)
        return;
    partial += blockIdx.y * H + (p.each ? 0 : j / packs * p.D);
    store<float, N>(partial + i.a, a);
    store<float, N>(partial + i.b, b);
}

/* ---- launching ---- */

static struct rotary_params params(const struct rotary_shape *s, const struct tensor *table,
                                   const struct tensor *q_gamma, const struct tensor *k_gamma, int64_t one_plus)
{
    return {.table = (const float *)table->data,
            .q_gamma = (const float *)q_gamma->data,
            .k_gamma = (const float *)k_gamma->data,
            .T = s->T,
            .A = s->A,
            .K = s->K,
            .D = s->D,
            .R = s->R,
            .width = s->width,
            .groups = s->groups,
            .one = one_plus ? 1.0f : 0.0f,
            .sign = 1,
            .each = s->groups == s->A + s->K,
            .by_group = s->by_group,
            .interleaved = s->interleaved};
}

/* Whether N pairs, of any type, can be accessed as aligned packs. */
static bool packed(const struct rotary_params &p)
{
    return ((uintptr_t)p.x | (uintptr_t)p.y | (uintptr_t)p.qkv | (uintptr_t)p.table | (uintptr_t)p.q_gamma |
            (uintptr_t)p.k_gamma) %
                   16 ==
               0 &&
           p.R / 2 % 8 == 0 && (p.D - p.R) / 2 % 8 == 0;
}

/* Runs the statements with the pairs of a pack as N. */
#define WITH_PACKS(p, T, N, ...)                                                                                       \
    do {                                                                                                               \
        if (packed(p)) {                                                                                               \
            constexpr int N = pack_width<T>;                                                                           \
            __VA_ARGS__;                                                                                               \
        } else {                                                                                                       \
            constexpr int N = 1;                                                                                       \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    } while (0)

static unsigned blocks(int64_t n, int64_t of)
{
    return (unsigned)((n + of - 1) / of);
}

/* How heads that are normalised alone are dealt out: as many lanes each as it has packs, 32 at most. Runs the statement with them as L. */
#define WITH_LANES(packs, L, ...)                                                                                      \
    do {                                                                                                               \
        if ((packs) <= 4) {                                                                                            \
            constexpr int L = 4;                                                                                       \
            __VA_ARGS__;                                                                                               \
        } else if ((packs) <= 8) {                                                                                     \
            constexpr int L = 8;                                                                                       \
            __VA_ARGS__;                                                                                               \
        } else if ((packs) <= 16) {                                                                                    \
            constexpr int L = 16;                                                                                      \
            __VA_ARGS__;                                                                                               \
        } else {                                                                                                       \
            constexpr int L = 32;                                                                                      \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    } while (0)

/* L lanes a group: a block where all heads are one. */
template <class T, int N, int L> static void groups_launch(const struct rotary_params &p, const struct cuda_call *c)
{
    rotary_kernel<T, N, L><<<blocks(p.T * (p.groups + (p.each ? p.K : 1)), THREADS / L), THREADS, 0, c->stream>>>(p);
}

template <class T, int N> static void norms_launch(const struct rotary_params &p, const struct cuda_call *c)
{
    if (!p.each)
        groups_launch<T, N, THREADS>(p, c);
    else
        WITH_LANES(p.D / 2 / N, L, groups_launch<T, N, L>(p, c));
}

template <class T, int N> static void turn_launch(const struct rotary_params &p, bool back, const struct cuda_call *c)
{
    int64_t items = (p.A + 2 * p.K + HEADS - 1) / HEADS * (p.D / 2 / N);
    int x = (int)(items < THREADS ? items : THREADS), y = THREADS / x;
    if (back)
        turn_kernel<T, N, true><<<blocks(p.T, y), dim3(x, y), 0, c->stream>>>(p);
    else
        turn_kernel<T, N, false><<<blocks(p.T, y), dim3(x, y), 0, c->stream>>>(p);
}

extern "C" int cuda_rotary(const struct args_rotary *a, const struct cuda_call *c)
{
    struct rotary_shape s =
        rotary_shape(&a->qkv, &a->table, &a->q_gamma, a->heads, a->kv_heads, a->by_group, a->interleaved);
    struct rotary_params p = params(&s, &a->table, &a->q_gamma, &a->k_gamma, a->one_plus);
    p.x = a->qkv.data, p.y = a->y.data, p.rstd = (float *)a->rstd.data, p.eps = (float)a->eps;
    if (p.T > 0)
        WITH_FLOAT_TYPE(a->qkv.dtype, T, WITH_PACKS(p, T, N, {
                            if (p.q_gamma)
                                norms_launch<T, N>(p, c);
                            else
                                turn_launch<T, N>(p, false, c);
                        }))
    return cuda_launched(c, "rotary");
}

/* Rows are dealt out to so many blocks for the sums of the gammas. */
static int64_t chunks(int64_t T)
{
    int64_t n = (T + CHUNK_ROWS - 1) / CHUNK_ROWS;
    return n < CHUNKS ? n : CHUNKS;
}

extern "C" int64_t cuda_rotary_bwd_workspace(const struct args_rotary_bwd *a, const struct cuda_call *c)
{
    (void)c;
    return a->q_gamma.ndim
               ? (int64_t)sizeof(float) * chunks(a->dy.shape[0]) * (a->q_gamma.shape[0] + a->k_gamma.shape[0])
               : 0;
}

template <class T, int N>
static void gamma_sums_launch(const struct rotary_params &p, float *partial, int part, const struct cuda_call *c)
{
    int64_t H = p.each ? p.D : (part ? p.K : p.A) * p.D, packs = H / 2 / N;
    int x = 1;
    while (x < packs && x < 32)
        x *= 2;
    gamma_sums_kernel<T, N>
        <<<dim3(blocks(packs, x), (unsigned)chunks(p.T)), dim3(x, THREADS / x), 0, c->stream>>>(p, partial, H, part);
}

/* dqkv, unless p.y is NULL, and the partial sums of the gammas of q and k that are not. */
template <class T, int N>
static void norms_bwd_launch(const struct rotary_params &p, float *const (&partial)[2], const struct cuda_call *c)
{
    int64_t packs = p.D / 2 / N;
    if (p.y && p.each && packs <= 32) {
        WITH_LANES(
            packs, L,
            (heads_bwd_kernel<T, N, L><<<(unsigned)chunks(p.T), THREADS, 0, c->stream>>>(p, partial[0], partial[1])));
        return;
    }
    if (p.y && p.each)
        rotary_norm_bwd_kernel<T, N, 32><<<blocks(p.T * (p.groups + p.K), THREADS / 32), THREADS, 0, c->stream>>>(p);
    else if (p.y)
        rotary_norm_bwd_kernel<T, N, THREADS><<<blocks(p.T * (p.groups + 1), 1), THREADS, 0, c->stream>>>(p);
    for (int part = 0; part < 2; part++)
        if (partial[part])
            gamma_sums_launch<T, N>(p, partial[part], part, c);
}

extern "C" int cuda_rotary_bwd(const struct args_rotary_bwd *a, const struct cuda_call *c)
{
    struct rotary_shape s =
        rotary_shape(&a->dy, &a->table, &a->q_gamma, a->heads, a->kv_heads, a->by_group, a->interleaved);
    struct rotary_params p = params(&s, &a->table, &a->q_gamma, &a->k_gamma, a->one_plus);
    const struct tensor *dgammas[2] = {&a->dq_gamma, &a->dk_gamma};
    float *next = (float *)c->workspace, *partial[2] = {NULL, NULL};
    p.x = a->dy.data, p.y = a->dqkv.data, p.qkv = a->qkv.data, p.rstd = (float *)a->rstd.data;
    p.sign = -1, p.add = a->dqkv.add;
    for (int part = 0; part < 2; part++)
        if (dgammas[part]->data) {
            partial[part] = next;
            next += chunks(p.T) * dgammas[part]->shape[0];
        }
    if (p.T > 0)
        WITH_FLOAT_TYPE(a->dy.dtype, T, WITH_PACKS(p, T, N, {
                            if (p.q_gamma)
                                norms_bwd_launch<T, N>(p, partial, c);
                            else if (p.y)
                                turn_launch<T, N>(p, true, c);
                        }))
    for (int part = 0; part < 2; part++)
        if (partial[part]) {
            struct column_sums sums = {
                .partial = partial[part], .chunks = chunks(p.T), .H = dgammas[part]->shape[0], .parts = 1};
            column_sums_set(&sums, 0, dgammas[part]);
            column_sums_launch(&sums, c);
        }
    return cuda_launched(c, "rotary_bwd");
}
