/* Residual and root-mean-square normalisation in one pass: a row stays in the registers of its warps for rstd and its
 * output, a sum rounded as it is stored. Bound by bytes: x, res, y and h once forward; dy, h, dh, dx and dres once backward.
 *
 * Order of sums: within a row by lanes, folded in a butterfly, then warp after warp. dgamma: rows are dealt out to at
 * most NORM_CHUNKS blocks by shape. Each sums its rows in order (as NORM_GROUPS interleaved sums, folded in order), and the blocks are
 * added as columns.cuh says. */
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/rows.cuh"

struct rms_norm_params {
    const void *x, *res;
    const float *gamma;
    void *y, *h;
    float *rstd;
    int64_t N, H;
    float eps, one; /* one: what is added to gamma */
};

template <class T, int N, int PER, int W, int ROWS>
__global__ void __launch_bounds__(LANE *W *ROWS) rms_norm_kernel(const struct rms_norm_params p)
{
    __shared__ float2 sums[W];
    int lane = threadIdx.x % (LANE * W);
    int64_t n = (int64_t)blockIdx.x * ROWS + threadIdx.x / (LANE * W);
    struct words<T, N> xs[PER], ress[PER];
    float v[PER][N], squares = 0;
    if (n >= p.N)
        return; /* whole warps; ROWS is 1 where a row has several */
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t h = (int64_t)(k * LANE * W + lane) * N, at = n * p.H + h;
        if (h >= p.H)
            continue;
        xs[k] = fetch<T, N>((const T *)p.x + at);
        if (p.res)
            ress[k] = fetch<T, N>((const T *)p.res + at);
    }
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t h = (int64_t)(k * LANE * W + lane) * N, at = n * p.H + h;
        if (h >= p.H)
            continue;
        unpack<T, N>(v[k], xs[k]);
        if (p.res) {
            float res[N];
            unpack<T, N>(res, ress[k]);
#pragma unroll
            for (int i = 0; i < N; i++) /* as h is stored, from which the rest may be computed again */
                v[k][i] = to_float(from_float<T>(v[k][i] + res[i]));
        }
        if (p.h)
            store<T, N>((T *)p.h + at, v[k]);
#pragma unroll
        for (int i = 0; i < N; i++)
            squares += v[k][i] * v[k][i];
    }
    float rstd = 1 / sqrtf(row_sum<W>(make_float2(squares, 0), sums, 1).x / (float)p.H + p.eps);
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t h = (int64_t)(k * LANE * W + lane) * N;
        float gamma[N];
        if (h >= p.H)
            continue;
        load<float, N>(gamma, p.gamma + h);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[k][i] *= rstd * (gamma[i] + p.one);
        store<T, N>((T *)p.y + n * p.H + h, v[k]);
    }
    if (lane == 0)
        p.rstd[n] = rstd;
}

template <class T, int N, int PER, int W, int ROWS>
static void rms_norm_launch(const struct rms_norm_params *p, const struct cuda_call *c)
{
    rms_norm_kernel<T, N, PER, W, ROWS><<<(unsigned)((p->N + ROWS - 1) / ROWS), LANE * W * ROWS, 0, c->stream>>>(*p);
}

extern "C" int cuda_rms_norm(const struct args_rms_norm *a, const struct cuda_call *c)
{
    struct rms_norm_params p = {.x = a->x.data,
                                .res = a->res.data,
                                .gamma = (const float *)a->gamma.data,
                                .y = a->y.data,
                                .h = a->h.data,
                                .rstd = (float *)a->rstd.data,
                                .N = a->x.shape[0],
                                .H = a->x.shape[1],
                                .eps = (float)a->eps,
                                .one = a->one_plus ? 1.0f : 0.0f};
    bool packed =
        packs_fit(&a->x) && packs_fit(&a->res) && packs_fit(&a->gamma) && packs_fit(&a->y) && packs_fit(&a->h);
    TRY(cuda_check_features(p.H, "rms_norm", c->err));
    if (p.N > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, constexpr int N = pack_width<T>;
                        if (packed && p.H <= 1024) rms_norm_launch<T, N, 32 / N, 1, 4>(&p, c);
                        else if (packed) rms_norm_launch<T, N, 32 / N, 8, 1>(&p, c);
                        else rms_norm_launch<T, 1, 8, 32, 1>(&p, c))
    return cuda_launched(c, "rms_norm");
}

struct rms_norm_bwd_params {
    const void *dy, *dh, *h;
    const float *gamma, *rstd;
    void *dx, *dres;
    bool add_dx, add_dres;
    float *partial; /* (chunks, H) of dgamma; NULL where it is not wanted */
    int64_t N, H;
    float one;
};

/* A lane's part of a row, and what belongs to all of the row. */
template <class T, int N, int PER> struct row_part : row_words<T, N, PER> {
    float rstd;
};

template <class T, int N, int PER, int W>
__device__ static inline void part_fetch(struct row_part<T, N, PER> *r, const struct rms_norm_bwd_params &p, int64_t n,
                                         int lane)
{
    if (n >= p.N)
        return;
    row_fetch<T, N, PER, W>(r, p.dy, p.h, p.dh, n, p.H, lane);
    r->rstd = p.rstd[n];
}

/* The sum of g z over a lane's part of a row, g = dy (gamma + one); adds to those of dgamma. */
template <class T, int N, int PER, int W>
__device__ static __forceinline__ float row_total(float (&dgamma)[PER][N], const struct row_part<T, N, PER> &r,
                                                  const float (&gamma)[PER][N], int64_t H, int lane)
{
    float total = 0;
#pragma unroll
    for (int k = 0; k < PER; k++) {
        float dy[N], h[N];
        if ((int64_t)(k * LANE * W + lane) * N >= H)
            continue;
        unpack<T, N>(dy, r.dy[k]);
        unpack<T, N>(h, r.h[k]);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float z = h[i] * r.rstd;
            total += dy[i] * gamma[k][i] * z;
            dgamma[k][i] += dy[i] * z;
        }
    }
    return total;
}

/* Writes a lane's part of row n of dx and dres. */
template <class T, int N, int PER, int W>
__device__ static __forceinline__ void row_gradients(const struct rms_norm_bwd_params &p,
                                                     const struct row_part<T, N, PER> &r, const float (&gamma)[PER][N],
                                                     float mean_gz, int64_t n, int lane)
{
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t at = (int64_t)(k * LANE * W + lane) * N;
        float dy[N], h[N], grad[N];
        if (at >= p.H)
            continue;
        unpack<T, N>(dy, r.dy[k]);
        unpack<T, N>(h, r.h[k]);
#pragma unroll
        for (int i = 0; i < N; i++)
            grad[i] = (dy[i] * gamma[k][i] - h[i] * r.rstd * mean_gz) * r.rstd;
        if (p.dh) {
            unpack<T, N>(h, r.dh[k]);
#pragma unroll
            for (int i = 0; i < N; i++)
                grad[i] += h[i];
        }
        if (p.dres)
            store_or_add<T, N>((T *)p.dres + n * p.H + at, grad, p.add_dres);
        if (p.dx)
            store_or_add<T, N>((T *)p.dx + n * p.H + at, grad, p.add_dx);
    }
}

template <class T, int N, int PER, int W, int ROWS>
__global__ void __launch_bounds__(LANE *W *ROWS) rms_norm_bwd_kernel(const struct rms_norm_bwd_params p)
{
    __shared__ float2 sums[2][ROWS][W];
    __shared__ float folded[ROWS > 1 ? LANE * W * PER * N : 1];
    constexpr bool AHEAD = PER * N <= 8; /* registers allow it */
    const int lane = threadIdx.x % (LANE * W), row = threadIdx.x / (LANE * W);
    const int64_t step = (int64_t)gridDim.x * ROWS;
    float dgamma[PER][N], gamma[PER][N];
    struct row_part<T, N, PER> next;
    int64_t n = (int64_t)blockIdx.x * ROWS + row;
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t h = (int64_t)(k * LANE * W + lane) * N;
#pragma unroll
        for (int i = 0; i < N; i++)
            gamma[k][i] = dgamma[k][i] = 0;
        if (h < p.H)
            load<float, N>(gamma[k], p.gamma + h);
#pragma unroll
        for (int i = 0; i < N; i++)
            gamma[k][i] += p.one;
    }
    if (AHEAD)
        part_fetch<T, N, PER, W>(&next, p, n, lane);
    for (int odd = 0; n < p.N; n += step, odd ^= 1) {
        if (!AHEAD)
            part_fetch<T, N, PER, W>(&next, p, n, lane);
        struct row_part<T, N, PER> r = next;
        if (AHEAD)
            part_fetch<T, N, PER, W>(&next, p, n + step, lane);
        float total = row_total<T, N, PER, W>(dgamma, r, gamma, p.H, lane);
        total = row_sum<W>(make_float2(total, 0), sums[odd][row], 1 + row).x;
        row_gradients<T, N, PER, W>(p, r, gamma, total / (float)p.H, n, lane);
    }
    if (p.partial)
        rows_sum<N, PER, W, ROWS>(p.partial + blockIdx.x * p.H, dgamma, folded, p.H, row, lane);
}

extern "C" int64_t cuda_rms_norm_bwd_workspace(const struct args_rms_norm_bwd *a, const struct cuda_call *c)
{
    (void)c;
    return (int64_t)sizeof(float) * norm_chunks(a->dy.shape[0]) * a->dy.shape[1];
}

template <class T, int N, int PER, int W, int ROWS>
static void rms_norm_bwd_launch(const struct rms_norm_bwd_params *p, const struct cuda_call *c)
{
    rms_norm_bwd_kernel<T, N, PER, W, ROWS><<<(unsigned)norm_chunks(p->N), LANE * W * ROWS, 0, c->stream>>>(*p);
}

extern "C" int cuda_rms_norm_bwd(const struct args_rms_norm_bwd *a, const struct cuda_call *c)
{
    struct rms_norm_bwd_params p = {.dy = a->dy.data,
                                    .dh = a->dh.data,
                                    .h = a->h.data,
                                    .gamma = (const float *)a->gamma.data,
                                    .rstd = (const float *)a->rstd.data,
                                    .dx = a->dx.data,
                                    .dres = a->dres.data,
                                    .add_dx = a->dx.add,
                                    .add_dres = a->dres.add,
                                    .partial = a->dgamma.data ? (float *)c->workspace : NULL,
                                    .N = a->dy.shape[0],
                                    .H = a->dy.shape[1],
                                    .one = a->one_plus ? 1.0f : 0.0f};
    struct column_sums s = {.partial = p.partial, .chunks = norm_chunks(p.N), .H = p.H, .parts = 1};
    bool packed = packs_fit(&a->dy) && packs_fit(&a->dh) && packs_fit(&a->h) && packs_fit(&a->gamma) &&
                  packs_fit(&a->dx) && packs_fit(&a->dres);
    column_sums_set(&s, 0, &a->dgamma);
    TRY(cuda_check_features(p.H, "rms_norm_bwd", c->err));
    if (p.N > 0)
        WITH_FLOAT_TYPE(a->dy.dtype, T, constexpr int N = pack_width<T>;
                        if (packed && p.H <= 1024) rms_norm_bwd_launch<T, N, 8 / N, 4, NORM_GROUPS>(&p, c);
                        else if (packed && p.H <= 2048) rms_norm_bwd_launch<T, N, 8 / N, 8, NORM_GROUPS>(&p, c);
                        else if (packed && p.H <= 4096) rms_norm_bwd_launch<T, N, 8 / N, 16, 1>(&p, c);
                        else if (packed) rms_norm_bwd_launch<T, N, 16 / N, 16, 1>(&p, c);
                        else rms_norm_bwd_launch<T, 1, 8, 32, 1>(&p, c))
    if (p.partial)
        column_sums_launch(&s, c);
    return cuda_launched(c, "rms_norm_bwd");
}
