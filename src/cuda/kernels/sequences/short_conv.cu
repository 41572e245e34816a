/* Gated short convolutions. A thread has N neighbouring columns, and walks down RUN rows, or those of a chunk; what it wants of the rows
 * before and behind it reads again, out of the cache. Bound by bytes: bcx and y once forward; bcx, dy and dbcx once backward.
 *
 * Order of sums: over taps in their order. dw and db: rows are cut into at most CHUNKS chunks by their number; each is summed in order, and
 * the chunks are added as columns.cuh says. */
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/sequences/bounds.cuh"
#include "cuda/kernels/vector.cuh"

enum { THREADS = 128, RUN = 8, CHUNKS = 264, PACK = 4 };

/* What all kernels have; rows from `rows` on, as many, are a block's. */
struct conv {
    const void *bcx;
    const float *w, *b; /* b NULL: none */
    const int32_t *cu;
    int64_t B, T, H, rows;
    int W;
};

/* Of a thread's columns: what their rows are multiplied with, in the order of rows, and what is added. */
template <int N> struct taps {
    float w[SHORT_CONV_TAPS][N], b[N];
};

template <int N> __device__ static inline struct taps<N> taps_of(const struct conv &p, int64_t h) {
    struct taps<N> t;
#pragma unroll
    for (int i = 0; i < N; i++) {
        t.b[i] = p.b ? p.b[h + i] : 0;
#pragma unroll
        for (int k = 0; k < SHORT_CONV_TAPS; k++)
            t.w[k][i] = k < p.W ? p.w[(h + i) * p.W + k] : 0;
    }
    return t;
}

/* Columns from h of part 0, 1 or 2 (B, C or x) of a row. */
template <class T, int N>
__device__ static inline void load_part(float (&v)[N], const struct conv &p, int64_t row, int part, int64_t h)
{
    load<T, N>(v, (const T *)p.bcx + (row * 3 + part) * p.H + h);
}

template <class T, int N>
__device__ static inline void load_gated(float (&z)[N], const struct conv &p, int64_t row, int64_t h)
{
    float x[N];
    load_part<T, N>(z, p, row, 0, h);
    load_part<T, N>(x, p, row, 2, h);
#pragma unroll
    for (int i = 0; i < N; i++)
        z[i] *= x[i];
}

template <int N> __device__ static inline void multiply_add(float (&sum)[N], const float (&a)[N], const float (&b)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = fmaf(a[i], b[i], sum[i]);
}

/* y = C u of row n, 0 where it has no sequence. */
template <class T, int N>
__device__ static inline void store_row(const struct conv &p, T *y, float (&u)[N], int64_t n, int64_t h, bool is_there)
{
    float c[N];
    load_part<T, N>(c, p, n, 1, h);
#pragma unroll
    for (int i = 0; i < N; i++)
        u[i] = is_there ? u[i] * c[i] : 0;
    store<T, N>(y + n * p.H + h, u);
}

/* The thread's first column, and the rows [n, end) of its block. Block (x, y): rows, columns. */
struct walk {
    int64_t h, n, end;
};

template <int N> __device__ static inline struct walk walk_of(const struct conv &p)
{
    int64_t block = blockIdx.x;
    struct walk w = {((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * N, block * p.rows, (block + 1) * p.rows};
    if (w.end > p.T)
        w.end = p.T;
    return w;
}

/* Row n's sequence, which follows on that of the row before, and what its sums begin with. */
template <int N>
__device__ static inline void begin_row(struct bounds *s, float (&u)[N], const struct conv &p, const struct taps<N> &t,
                                        int64_t n)
{
    if (n >= s->to)
        *s = bounds_of(p.cu, p.B, n);
#pragma unroll
    for (int i = 0; i < N; i++)
        u[i] = t.b[i];
}

template <class T, int N> __global__ void __launch_bounds__(THREADS) short_conv_kernel(const struct conv p, T *y)
{
    struct walk w = walk_of<N>(p);
    struct bounds s = {-1, 0, 0};
    if (w.h >= p.H)
        return;
    const struct taps<N> t = taps_of<N>(p, w.h);
    for (int64_t n = w.n; n < w.end; n++) {
        float u[N], z[N];
        begin_row<N>(&s, u, p, t, n);
#pragma unroll
        for (int k = 0; k < SHORT_CONV_TAPS; k++) {
            int64_t row = n - (p.W - 1) + k;
            if (k >= p.W || row < s.from || s.b < 0)
                continue;
            load_gated<T, N>(z, p, row, w.h);
            multiply_add<N>(u, t.w[k], z);
        }
        store_row<T, N>(p, y, u, n, w.h, s.b >= 0);
    }
}

/* ---- backward ---- */

struct conv_bwd {
    const void *dy;
    void *dbcx; /* NULL: not wanted */
    bool add;
    float *dw, *db; /* (chunks, H, W) and (chunks, H) partial sums; NULL: not wanted */
};

/* Row n of dbcx from dz, dy and u. */
template <class T, int N>
__device__ static inline void store_gradients(const struct conv &p, const struct conv_bwd &q, const float (&dz)[N],
                                              const float (&dy)[N], const float (&u)[N], int64_t n, int64_t h)
{
    T *to = (T *)q.dbcx + n * 3 * p.H + h;
    float b[N], x[N], c[N];
    load_part<T, N>(b, p, n, 0, h);
    load_part<T, N>(x, p, n, 2, h);
#pragma unroll
    for (int i = 0; i < N; i++) {
        x[i] *= dz[i];
        c[i] = dy[i] * u[i];
        b[i] *= dz[i];
    }
    store_or_add<T, N>(to, x, q.add);
    store_or_add<T, N>(to + p.H, c, q.add);
    store_or_add<T, N>(to + 2 * p.H, b, q.add);
}

/* g = dy C of a row, and dy. */
template <class T, int N>
__device__ static inline void load_gradient(float (&g)[N], float (&dy)[N], const struct conv &p,
                                            const struct conv_bwd &q, int64_t row, int64_t h)
{
    load<T, N>(dy, (const T *)q.dy + row * p.H + h);
    load_part<T, N>(g, p, row, 1, h);
#pragma unroll
    for (int i = 0; i < N; i++)
        g[i] *= dy[i];
}

template <class T, int N>
__global__ void __launch_bounds__(THREADS) short_conv_bwd_kernel(const struct conv p, const struct conv_bwd q)
{
    struct walk w = walk_of<N>(p);
    struct bounds s = {-1, 0, 0};
    float dw[SHORT_CONV_TAPS][N] = {}, db[N] = {};
    if (w.h >= p.H)
        return;
    const struct taps<N> t = taps_of<N>(p, w.h);
    for (int64_t n = w.n; n < w.end; n++) {
        float u[N], dz[N] = {}, dy[N] = {}, g[N] = {};
        if (n >= s.to)
            s = bounds_of(p.cu, p.B, n);
        if (s.b >= 0)
            load_gradient<T, N>(g, dy, p, q, n, w.h);
#pragma unroll
        for (int i = 0; i < N; i++) {
            u[i] = t.b[i];
            db[i] += g[i];
        }
#pragma unroll
        for (int k = 0; k < SHORT_CONV_TAPS; k++) {
            int64_t before = n - (p.W - 1) + k, behind = n + (p.W - 1) - k;
            float z[N], unused[N];
            if (k >= p.W || s.b < 0)
                continue;
            if (before >= s.from) {
                load_gated<T, N>(z, p, before, w.h);
                multiply_add<N>(u, t.w[k], z);
                multiply_add<N>(dw[k], g, z);
            }
            if (behind < s.to) {
                load_gradient<T, N>(z, unused, p, q, behind, w.h);
                multiply_add<N>(dz, t.w[k], z);
            }
        }
        if (q.dbcx)
            store_gradients<T, N>(p, q, dz, dy, u, n, w.h);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        int64_t to = (int64_t)blockIdx.x * p.H + w.h + i;
#pragma unroll
        for (int k = 0; k < SHORT_CONV_TAPS; k++)
            if (q.dw && k < p.W)
                q.dw[to * p.W + k] = dw[k][i];
        if (q.db)
            q.db[to] = db[i];
    }
}

/* ---- piece by piece ---- */

struct conv_cached {
    const int32_t *past, *at; /* at NULL: sequences share nothing */
    float *rows;
    int64_t L;
};

/* Where z of row j of sequence b is kept. */
__device__ static inline float *kept(const struct conv &p, const struct conv_cached &q, int64_t b, int64_t j)
{
    int64_t owner = q.at ? q.at[b * q.L + j] / q.L : b;
    return q.rows + (owner * p.W + j % p.W) * p.H;
}

template <class T, int N>
__global__ void __launch_bounds__(THREADS)
    short_conv_cached_kernel(const struct conv p, const struct conv_cached q, T *y)
{
    struct walk w = walk_of<N>(p);
    struct bounds s = {-1, 0, 0};
    if (w.h >= p.H)
        return;
    const struct taps<N> t = taps_of<N>(p, w.h);
    for (int64_t n = w.n; n < w.end; n++) {
        float u[N], z[N];
        begin_row<N>(&s, u, p, t, n);
#pragma unroll
        for (int k = 0; k < SHORT_CONV_TAPS; k++) {
            int64_t row = n - (p.W - 1) + k;
            if (k >= p.W || s.b < 0)
                continue;
            int64_t j = q.past[s.b] + row - s.from;
            if (j < 0)
                continue;
            if (row >= s.from)
                load_gated<T, N>(z, p, row, w.h);
            else
                load<float, N>(z, kept(p, q, s.b, j) + w.h);
            multiply_add<N>(u, t.w[k], z);
        }
        store_row<T, N>(p, y, u, n, w.h, s.b >= 0);
    }
}

/* z of the last W of the new rows of a sequence, to where they are kept. Block (x, y): sequence x, columns. */
template <class T, int N>
__global__ void __launch_bounds__(THREADS) keep_kernel(const struct conv p, const struct conv_cached q)
{
    int64_t h = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * N, b = blockIdx.x;
    int64_t from = p.cu[b], to = p.cu[b + 1];
    if (h >= p.H)
        return;
    for (int64_t n = to - from > p.W ? to - p.W : from; n < to; n++) {
        float z[N];
        load_gated<T, N>(z, p, n, h);
        store<float, N>(kept(p, q, b, q.past[b] + n - from) + h, z);
    }
}

/* ---- launching ---- */

static struct conv conv_of(const struct tensor *bcx, const struct tensor *w, const struct tensor *b,
                           const struct tensor *cu)
{
    return (struct conv){.bcx = bcx->data,
                         .w = (const float *)w->data,
                         .b = (const float *)b->data,
                         .cu = (const int32_t *)cu->data,
                         .B = cu->shape[0] - 1,
                         .T = bcx->shape[0],
                         .H = w->shape[0],
                         .rows = RUN,
                         .W = (int)w->shape[2]};
}

/* Blocks over columns, `packed` or one by one. */
static unsigned column_blocks(int64_t H, bool packed)
{
    int64_t width = THREADS * (packed ? PACK : 1);
    return (unsigned)((H + width - 1) / width);
}

static int64_t runs(int64_t T, int64_t rows)
{
    return (T + rows - 1) / rows;
}

extern "C" int cuda_short_conv(const struct args_short_conv *a, const struct cuda_call *c)
{
    const struct conv p = conv_of(&a->bcx, &a->w, &a->b, &a->cu);
    bool packed = packs_fit(&a->bcx) && packs_fit(&a->y) && p.H % 8 == 0;
    dim3 grid((unsigned)runs(p.T, RUN), column_blocks(p.H, packed));
    TRY(cuda_check_taps(p.W, "short_conv", c->err));
    if (p.T > 0 && p.H > 0)
        WITH_FLOAT_TYPE(a->bcx.dtype, T, {
            if (packed)
                short_conv_kernel<T, PACK><<<grid, THREADS, 0, c->stream>>>(p, (T *)a->y.data);
            else
                short_conv_kernel<T, 1><<<grid, THREADS, 0, c->stream>>>(p, (T *)a->y.data);
        })
    return cuda_launched(c, "short_conv");
}

static int64_t chunks_of(int64_t T)
{
    int64_t n = runs(T, RUN);
    return n < CHUNKS ? n : CHUNKS;
}

extern "C" int64_t cuda_short_conv_bwd_workspace(const struct args_short_conv_bwd *a, const struct cuda_call *c)
{
    (void)c;
    return (int64_t)sizeof(float) * chunks_of(a->dy.shape[0]) * a->w.shape[0] * (a->w.shape[2] + 1);
}

/* to = the sums over chunks of partial sums, as many side by side as `to` has elements. */
static void add_chunks(const struct tensor *to, const float *partial, int64_t chunks, const struct cuda_call *c)
{
    struct column_sums s = {.partial = partial, .chunks = chunks, .H = tensor_elements(to), .parts = 1};
    column_sums_set(&s, 0, to);
    if (to->data)
        column_sums_launch(&s, c);
}

extern "C" int cuda_short_conv_bwd(const struct args_short_conv_bwd *a, const struct cuda_call *c)
{
    struct conv p = conv_of(&a->bcx, &a->w, &a->b, &a->cu);
    int64_t chunks = chunks_of(p.T);
    float *dw = (float *)c->workspace, *db = dw + chunks * p.H * p.W;
    const struct conv_bwd q = {.dy = a->dy.data,
                               .dbcx = a->dbcx.data,
                               .add = a->dbcx.add,
                               .dw = a->dw.data ? dw : NULL,
                               .db = a->db.data ? db : NULL};
    bool packed = packs_fit(&a->bcx) && packs_fit(&a->dy) && packs_fit(&a->dbcx) && p.H % 8 == 0;
    dim3 grid((unsigned)chunks, column_blocks(p.H, packed));
    TRY(cuda_check_taps(p.W, "short_conv_bwd", c->err));
    if (p.T > 0)
        p.rows = runs(p.T, chunks);
    if (p.T > 0 && p.H > 0)
        WITH_FLOAT_TYPE(a->dy.dtype, T, {
            if (packed)
                short_conv_bwd_kernel<T, PACK><<<grid, THREADS, 0, c->stream>>>(p, q);
            else
                short_conv_bwd_kernel<T, 1><<<grid, THREADS, 0, c->stream>>>(p, q);
        })
    add_chunks(&a->dw, dw, chunks, c);
    add_chunks(&a->db, db, chunks, c);
    return cuda_launched(c, "short_conv_bwd");
}

template <class T, int N>
static void cached_launch(const struct conv &p, const struct conv_cached &q, void *y, const struct cuda_call *c)
{
    unsigned columns = column_blocks(p.H, N > 1);
    short_conv_cached_kernel<T, N><<<dim3((unsigned)runs(p.T, RUN), columns), THREADS, 0, c->stream>>>(p, q, (T *)y);
    if (p.B > 0)
        keep_kernel<T, N><<<dim3((unsigned)p.B, columns), THREADS, 0, c->stream>>>(p, q);
}

extern "C" int cuda_short_conv_cached(const struct args_short_conv_cached *a, const struct cuda_call *c)
{
    const struct conv p = conv_of(&a->bcx, &a->w, &a->b, &a->cu);
    const struct conv_cached q = {.past = (const int32_t *)a->past.data,
                                  .at = (const int32_t *)a->at.data,
                                  .rows = (float *)a->rows.data,
                                  .L = a->at.shape[1]};
    bool packed = packs_fit(&a->bcx) && packs_fit(&a->y) && packs_fit(&a->rows) && p.H % 8 == 0;
    TRY(cuda_check_taps(p.W, "short_conv_cached", c->err));
    if (p.T > 0 && p.H > 0)
        WITH_FLOAT_TYPE(a->bcx.dtype, T, {
            if (packed)
                cached_launch<T, PACK>(p, q, a->y.data, c);
            else
                cached_launch<T, 1>(p, q, a->y.data, c);
        })
    return cuda_launched(c, "short_conv_cached");
}
