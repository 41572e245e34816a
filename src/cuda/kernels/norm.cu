/* Residual, dropout and layer normalisation in one pass: a row stays in the registers of its warps, unrounded, for its
 * statistics (mean first, then the sum of squared differences) and its output. Bound by bytes: x, res, y and h once
 * forward; dy, h, dh, dx and dres once backward.
 *
 * Order of sums: within a row by lanes, folded in a butterfly, then warp after warp. dgamma, dbeta, dbias: rows are
 * dealt out to at most NORM_CHUNKS blocks by shape. Each sums its rows in order (as NORM_GROUPS interleaved sums, folded in
 * order), and the blocks are added as columns.cuh says. */
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/feature_mask.cuh"
#include "cuda/kernels/rows.cuh"

struct norm_params {
    const void *x, *res;
    const float *gamma, *beta;
    void *y, *h;
    float *mean, *rstd;
    int64_t N, H;
    float eps, one; /* one: 1 where s is 1 + gamma, else 0 */
    struct feature_mask mask;
};

template <class T, int N, int PER, int W, int ROWS>
__global__ void __launch_bounds__(LANE *W *ROWS) norm_kernel(const struct norm_params p)
{
    __shared__ float2 sums[2][W];
    int lane = threadIdx.x % (LANE * W);
    int64_t n = (int64_t)blockIdx.x * ROWS + threadIdx.x / (LANE * W);
    struct words<T, N> xs[PER], ress[PER];
    float v[PER][N];
    float2 total = {0, 0};
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
    struct row_mask mask = mask_start(p.mask);
    mask_set_row(p.mask, &mask, n);
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t h = (int64_t)(k * LANE * W + lane) * N, at = n * p.H + h;
#pragma unroll
        for (int i = 0; i < N; i++)
            v[k][i] = 0;
        if (h >= p.H)
            continue;
        unpack<T, N>(v[k], xs[k]);
        if (p.mask.coords)
            mask_apply<N>(p.mask, mask, h, v[k]);
        if (p.res) {
            float res[N];
            unpack<T, N>(res, ress[k]);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[k][i] += res[i];
        }
        if (p.h)
            store<T, N>((T *)p.h + at, v[k]);
#pragma unroll
        for (int i = 0; i < N; i++)
            total.x += v[k][i];
    }
    float mean = row_sum<W>(total, sums[0], 1).x / (float)p.H;
    total = make_float2(0, 0);
#pragma unroll
    for (int k = 0; k < PER; k++)
        if ((int64_t)(k * LANE * W + lane) * N < p.H)
#pragma unroll
            for (int i = 0; i < N; i++)
                total.x += (v[k][i] - mean) * (v[k][i] - mean);
    float rstd = 1 / sqrtf(row_sum<W>(total, sums[1], 1).x / (float)p.H + p.eps);
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t h = (int64_t)(k * LANE * W + lane) * N;
        float gamma[N], beta[N] = {0};
        if (h >= p.H)
            continue;
        load<float, N>(gamma, p.gamma + h);
        if (p.beta)
            load<float, N>(beta, p.beta + h);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[k][i] = (v[k][i] - mean) * rstd * (p.one + gamma[i]) + beta[i];
        store<T, N>((T *)p.y + n * p.H + h, v[k]);
    }
    if (lane == 0) {
        p.mean[n] = mean;
        p.rstd[n] = rstd;
    }
}

template <class T, int N, int PER, int W, int ROWS>
static void norm_launch(const struct norm_params *p, const struct cuda_call *c)
{
    norm_kernel<T, N, PER, W, ROWS><<<(unsigned)((p->N + ROWS - 1) / ROWS), LANE * W * ROWS, 0, c->stream>>>(*p);
}

extern "C" int cuda_norm(const struct args_norm *a, const struct cuda_call *c)
{
    struct norm_params p = {.x = a->x.data,
                            .res = a->res.data,
                            .gamma = (const float *)a->gamma.data,
                            .beta = (const float *)a->beta.data,
                            .y = a->y.data,
                            .h = a->h.data,
                            .mean = (float *)a->mean.data,
                            .rstd = (float *)a->rstd.data,
                            .N = a->x.shape[0],
                            .H = a->x.shape[1],
                            .eps = (float)a->eps,
                            .one = a->one_plus ? 1.0f : 0.0f,
                            .mask = feature_mask(&a->rng, &a->coords, a->site, a->p)};
    bool packed = packs_fit(&a->x) && packs_fit(&a->res) && packs_fit(&a->gamma) && packs_fit(&a->beta) &&
                  packs_fit(&a->y) && packs_fit(&a->h);
    TRY(cuda_check_features(p.H, "norm", c->err));
    if (p.N > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, constexpr int N = pack_width<T>;
                        if (packed && p.H <= 1024) norm_launch<T, N, 32 / N, 1, 4>(&p, c);
                        else if (packed) norm_launch<T, N, 32 / N, 8, 1>(&p, c);
                        else norm_launch<T, 1, 8, 32, 1>(&p, c))
    return cuda_launched(c, "norm");
}

struct norm_bwd_params {
    const void *dy, *dh, *h;
    const float *gamma, *mean, *rstd;
    void *dx, *dres;
    bool add_dx, add_dres;
    float *partial; /* (chunks, COLUMN_PARTS, H): dgamma, dbeta, dbias; NULL where none is wanted */
    int64_t N, H;
    float one;
    struct feature_mask mask;
};

/* A lane's part of a row, and what belongs to all of the row. */
template <class T, int N, int PER> struct row_part : row_words<T, N, PER> {
    float mean, rstd;
    int32_t coord[2];
};

template <class T, int N, int PER, int W>
__device__ static inline void part_fetch(struct row_part<T, N, PER> *r, const struct norm_bwd_params &p, int64_t n,
                                         int lane)
{
    if (n >= p.N)
        return;
    row_fetch<T, N, PER, W>(r, p.dy, p.h, p.dh, n, p.H, lane);
    r->mean = p.mean[n];
    r->rstd = p.rstd[n];
    for (int i = 0; p.mask.coords && i < 2; i++)
        r->coord[i] = __ldg(p.mask.coords + 2 * n + i);
}

/* Adds to the sums of g = dy gamma and of g z over a lane's part of a row, and to those of dgamma and dbeta. */
template <class T, int N, int PER, int W>
__device__ static __forceinline__ void row_totals(float2 &total, float (&columns)[COLUMN_PARTS][PER][N],
                                                  const struct row_part<T, N, PER> &r, const float (&gamma)[PER][N],
                                                  int64_t H, int lane)
{
#pragma unroll
    for (int k = 0; k < PER; k++) {
        float dy[N], h[N];
        if ((int64_t)(k * LANE * W + lane) * N >= H)
            continue;
        unpack<T, N>(dy, r.dy[k]);
        unpack<T, N>(h, r.h[k]);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float z = (h[i] - r.mean) * r.rstd, g = dy[i] * gamma[k][i];
            total.x += g;
            total.y += g * z;
            columns[0][k][i] += dy[i] * z;
            columns[1][k][i] += dy[i];
        }
    }
}

/* Writes a lane's part of row n of dx and dres, and adds it to the sums of dbias. */
template <class T, int N, int PER, int W>
__device__ static __forceinline__ void
row_gradients(const struct norm_bwd_params &p, float (&columns)[COLUMN_PARTS][PER][N],
              const struct row_part<T, N, PER> &r, const float (&gamma)[PER][N], const struct row_mask &mask,
              float mean_g, float mean_gz, int64_t n, int lane)
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
        for (int i = 0; i < N; i++) {
            float z = (h[i] - r.mean) * r.rstd;
            grad[i] = (dy[i] * gamma[k][i] - mean_g - z * mean_gz) * r.rstd;
        }
        if (p.dh) {
            unpack<T, N>(h, r.dh[k]);
#pragma unroll
            for (int i = 0; i < N; i++)
                grad[i] += h[i];
        }
        if (p.dres)
            store_or_add<T, N>((T *)p.dres + n * p.H + at, grad, p.add_dres);
        if (p.mask.coords)
            mask_apply<N>(p.mask, mask, at, grad);
        if (p.dx)
            store_or_add<T, N>((T *)p.dx + n * p.H + at, grad, p.add_dx);
#pragma unroll
        for (int i = 0; i < N; i++)
            columns[2][k][i] += grad[i];
    }
}

/* Writes the block's sums of all parts. */
template <int N, int PER, int W, int ROWS>
__device__ static __forceinline__ void
columns_write(const struct norm_bwd_params &p, float (&columns)[COLUMN_PARTS][PER][N], float *folded, int row, int lane)
{
#pragma unroll
    for (int part = 0; part < COLUMN_PARTS; part++) {
        float *to = p.partial + (blockIdx.x * (int64_t)COLUMN_PARTS + part) * p.H;
        rows_sum<N, PER, W, ROWS>(to, columns[part], folded, p.H, row, lane);
    }
}

template <class T, int N, int PER, int W, int ROWS>
__global__ void __launch_bounds__(LANE *W *ROWS) norm_bwd_kernel(const struct norm_bwd_params p)
{
    __shared__ float2 sums[2][ROWS][W];
    __shared__ float folded[ROWS > 1 ? LANE * W * PER * N : 1];
    constexpr bool AHEAD = PER * N <= 8; /* registers allow it */
    const int lane = threadIdx.x % (LANE * W), row = threadIdx.x / (LANE * W);
    const int64_t step = (int64_t)gridDim.x * ROWS;
    float columns[COLUMN_PARTS][PER][N], gamma[PER][N];
    struct row_part<T, N, PER> next;
    struct row_mask mask = mask_start(p.mask);
    int64_t n = (int64_t)blockIdx.x * ROWS + row;
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int64_t h = (int64_t)(k * LANE * W + lane) * N;
#pragma unroll
        for (int i = 0; i < N; i++)
            gamma[k][i] = columns[0][k][i] = columns[1][k][i] = columns[2][k][i] = 0;
        if (h < p.H)
            load<float, N>(gamma[k], p.gamma + h);
#pragma unroll
        for (int i = 0; i < N; i++)
            gamma[k][i] += p.one;
    }
    if (AHEAD)
        part_fetch<T, N, PER, W>(&next, p, n, lane);
    for (int odd = 0; n < p.N; n += step, odd ^= 1) {
        float2 total = {0, 0};
        if (!AHEAD)
            part_fetch<T, N, PER, W>(&next, p, n, lane);
        struct row_part<T, N, PER> r = next;
        if (AHEAD)
            part_fetch<T, N, PER, W>(&next, p, n + step, lane);
        mask.coord[0] = r.coord[0], mask.coord[1] = r.coord[1];
        row_totals<T, N, PER, W>(total, columns, r, gamma, p.H, lane);
        total = row_sum<W>(total, sums[odd][row], 1 + row);
        float mean_g = total.x / (float)p.H, mean_gz = total.y / (float)p.H;
        row_gradients<T, N, PER, W>(p, columns, r, gamma, mask, mean_g, mean_gz, n, lane);
    }
    if (p.partial)
        columns_write<N, PER, W, ROWS>(p, columns, folded, row, lane);
}

extern "C" int64_t cuda_norm_bwd_workspace(const struct args_norm_bwd *a, const struct cuda_call *c)
{
    (void)c;
    return (int64_t)sizeof(float) * norm_chunks(a->dy.shape[0]) * COLUMN_PARTS * a->dy.shape[1];
}

template <class T, int N, int PER, int W, int ROWS>
static void norm_bwd_launch(const struct norm_bwd_params *p, const struct cuda_call *c)
{
    norm_bwd_kernel<T, N, PER, W, ROWS><<<(unsigned)norm_chunks(p->N), LANE * W * ROWS, 0, c->stream>>>(*p);
}

extern "C" int cuda_norm_bwd(const struct args_norm_bwd *a, const struct cuda_call *c)
{
    struct norm_bwd_params p = {.dy = a->dy.data,
                                .dh = a->dh.data,
                                .h = a->h.data,
                                .gamma = (const float *)a->gamma.data,
                                .mean = (const float *)a->mean.data,
                                .rstd = (const float *)a->rstd.data,
                                .dx = a->dx.data,
                                .dres = a->dres.data,
                                .add_dx = a->dx.add,
                                .add_dres = a->dres.add,
                                .partial = (float *)c->workspace,
                                .N = a->dy.shape[0],
                                .H = a->dy.shape[1],
                                .one = a->one_plus ? 1.0f : 0.0f,
                                .mask = feature_mask(&a->rng, &a->coords, a->site, a->p)};
    struct column_sums s = {.partial = p.partial, .chunks = norm_chunks(p.N), .H = p.H, .parts = COLUMN_PARTS};
    bool packed = packs_fit(&a->dy) && packs_fit(&a->dh) && packs_fit(&a->h) && packs_fit(&a->gamma) &&
                  packs_fit(&a->dx) && packs_fit(&a->dres);
    column_sums_set(&s, 0, &a->dgamma);
    column_sums_set(&s, 1, &a->dbeta);
    column_sums_set(&s, 2, &a->dbias);
    bool summed = s.to[0] || s.to[1] || s.to[2];
    if (!summed)
        p.partial = NULL;
    TRY(cuda_check_features(p.H, "norm_bwd", c->err));
    if (p.N > 0)
        WITH_FLOAT_TYPE(a->dy.dtype, T, constexpr int N = pack_width<T>;
                        if (packed && p.H <= 1024) norm_bwd_launch<T, N, 8 / N, 4, NORM_GROUPS>(&p, c);
                        else if (packed) norm_bwd_launch<T, N, 16 / N, 16, 1>(&p, c);
                        else norm_bwd_launch<T, 1, 8, 32, 1>(&p, c))
    if (summed)
        column_sums_launch(&s, c);
    return cuda_launched(c, "norm_bwd");
}
