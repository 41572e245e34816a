/* DoRA's lengths of rows, and what it makes of a layer's result. dora and dora_bwd are bound by bytes: every matrix once. dora_norm reads
 * the weight once and, for each ROWS_OF_W of its rows, A out of the cache; it is small beside the layer's product, as r is beside the rows
 * of a micro-batch.
 *
 * Order of sums: of a length thread t takes the elements t, t + NORM_THREADS, … in order, then lanes by a butterfly, warp after warp.
 * Over rows as walk.cuh says. */
#include "cuda/kernels/act.cuh"
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/walk.cuh"

enum { NORM_THREADS = 256, ROWS_OF_W = 8 };

/* ---- lengths ---- */

struct dora_norm_params {
    const void *w;
    const float *a, *b;
    float *norm;
    int64_t r, I, O, row, column; /* row, column: elements of w from an output to the next, and from an input */
    float scale;
};

template <class T> __global__ void __launch_bounds__(NORM_THREADS) dora_norm_kernel(const struct dora_norm_params p)
{
    __shared__ float sums[ROWS_OF_W][NORM_THREADS / 32];
    const int64_t first = (int64_t)blockIdx.x * ROWS_OF_W;
    float squares[ROWS_OF_W] = {0};
    for (int64_t i = threadIdx.x; i < p.I; i += NORM_THREADS) {
        float x[ROWS_OF_W];
#pragma unroll
        for (int o = 0; o < ROWS_OF_W; o++)
            x[o] = first + o < p.O ? to_float(((const T *)p.w)[(first + o) * p.row + i * p.column]) : 0;
        for (int64_t k = 0; k < p.r; k++) {
            float a = p.scale * p.a[k * p.I + i];
#pragma unroll
            for (int o = 0; o < ROWS_OF_W; o++)
                if (first + o < p.O)
                    x[o] = fmaf(p.b[(first + o) * p.r + k], a, x[o]);
        }
#pragma unroll
        for (int o = 0; o < ROWS_OF_W; o++)
            squares[o] = fmaf(x[o], x[o], squares[o]);
    }
#pragma unroll
    for (int o = 0; o < ROWS_OF_W; o++) {
        float sum = warp_sum(squares[o]);
        if (threadIdx.x % 32 == 0)
            sums[o][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < ROWS_OF_W && first + threadIdx.x < p.O) {
        float sum = 0;
        for (int i = 0; i < NORM_THREADS / 32; i++)
            sum += sums[threadIdx.x][i];
        p.norm[first + threadIdx.x] = sqrtf(sum);
    }
}

extern "C" int cuda_dora_norm(const struct args_dora_norm *a, const struct cuda_call *c)
{
    struct dora_norm_params p = {.w = a->w.data,
                                 .a = (const float *)a->a.data,
                                 .b = (const float *)a->b.data,
                                 .norm = (float *)a->norm.data,
                                 .r = a->a.shape[0],
                                 .I = a->a.shape[1],
                                 .O = a->b.shape[0],
                                 .scale = (float)a->scale};
    p.row = a->in_out ? 1 : p.I;
    p.column = a->in_out ? p.O : 1;
    unsigned blocks = (unsigned)((p.O + ROWS_OF_W - 1) / ROWS_OF_W);
    if (p.O > 0)
        WITH_FLOAT_TYPE(a->w.dtype, T, dora_norm_kernel<T><<<blocks, NORM_THREADS, 0, c->stream>>>(p))
    return cuda_launched(c, "dora_norm");
}

/* ---- the layer ---- */

struct dora_params {
    const void *z;
    const float *m, *norm, *bias;
    void *y;
    int64_t N, O, pitch;
};

/* 1 / norm for N columns, 0 where the norm is. */
template <int N> __device__ static inline void one_over(float (&inverse)[N], const float *norm)
{
    load<float, N>(inverse, norm);
#pragma unroll
    for (int i = 0; i < N; i++)
        inverse[i] = inverse[i] > 0 ? 1 / inverse[i] : 0;
}

template <class T, int N> __global__ void __launch_bounds__(THREADS) dora_kernel(const struct dora_params p)
{
    int64_t o = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    float factor[N], m[N], bias[N] = {0};
    if (o >= p.O)
        return;
    one_over<N>(factor, p.norm + o);
    load<float, N>(m, p.m + o);
    if (p.bias)
        load<float, N>(bias, p.bias + o);
#pragma unroll
    for (int i = 0; i < N; i++)
        factor[i] *= m[i];
    for (int64_t n = blockIdx.y * (int64_t)ROWS; n < p.N; n += ROWS * (int64_t)gridDim.y) {
        struct words<T, N> z[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N)
                z[r] = fetch<T, N>((const T *)p.z + (n + r) * p.O + o);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N) {
                float x[N];
                unpack<T, N>(x, z[r]);
#pragma unroll
                for (int i = 0; i < N; i++)
                    x[i] = fmaf(x[i], factor[i], bias[i]);
                store<T, N>((T *)p.y + (n + r) * p.pitch + o, x);
            }
    }
}

template <class T, int N> static void dora_launch(const struct dora_params *p, const struct cuda_call *c)
{
    struct column_grid g = column_grid(p->O, N);
    int64_t blocks = row_blocks(p->N, false);
    dora_kernel<T, N><<<dim3((unsigned)g.blocks, (unsigned)blocks), g.threads, 0, c->stream>>>(*p);
}

/* Whether a matrix may be accessed in packs along its rows, wherever these lie. */
static bool rows_fit(const struct tensor *t)
{
    return packs_fit(t) && (!t->ndim || tensor_pitch(t) % 8 == 0);
}

extern "C" int cuda_dora(const struct args_dora *a, const struct cuda_call *c)
{
    struct dora_params p = {.z = a->z.data,
                            .m = (const float *)a->m.data,
                            .norm = (const float *)a->norm.data,
                            .bias = (const float *)a->bias.data,
                            .y = a->y.data,
                            .N = a->z.shape[0],
                            .O = a->z.shape[1],
                            .pitch = tensor_pitch(&a->y)};
    struct act_params act = {.y = a->y.data,
                             .slope = a->slope.data,
                             .N = p.N,
                             .O = p.O,
                             .pitch = p.pitch,
                             .dtype = a->z.dtype,
                             .act = (enum act)a->act};
    bool packed = rows_fit(&a->z) && rows_fit(&a->y) && packs_fit(&a->m) && packs_fit(&a->norm) && packs_fit(&a->bias);
    if (p.N * p.O > 0)
        WITH_FLOAT_TYPE(a->z.dtype, T, {
            if (packed)
                dora_launch<T, pack_width<T>>(&p, c);
            else
                dora_launch<T, 1>(&p, c);
        })
    if (a->act)
        cuda_act(&act, c);
    return cuda_launched(c, "dora");
}

struct dora_bwd_params {
    const void *dy, *z;
    const float *m, *norm;
    void *dz;
    bool add;
    float *partial; /* (chunks, 2, O): of dm, then of dbias; NULL where none is wanted */
    int64_t N, O, pitch;
};

template <class T, int N> __global__ void __launch_bounds__(THREADS) dora_bwd_kernel(const struct dora_bwd_params p)
{
    int64_t o = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    float inverse[N], m[N], dm[N] = {0}, dbias[N] = {0};
    if (o >= p.O)
        return;
    one_over<N>(inverse, p.norm + o);
    load<float, N>(m, p.m + o);
    for (int64_t n = blockIdx.y * (int64_t)ROWS; n < p.N; n += ROWS * (int64_t)gridDim.y) {
        struct words<T, N> dy[ROWS], z[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N) {
                dy[r] = fetch<T, N>((const T *)p.dy + (n + r) * p.pitch + o);
                z[r] = fetch<T, N>((const T *)p.z + (n + r) * p.O + o);
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N) {
                float g[N], x[N];
                unpack<T, N>(g, dy[r]);
                unpack<T, N>(x, z[r]);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    dm[i] += g[i] * x[i] * inverse[i];
                    dbias[i] += g[i];
                    g[i] *= inverse[i] * m[i];
                }
                if (p.dz)
                    store_or_add<T, N>((T *)p.dz + (n + r) * p.O + o, g, p.add);
            }
    }
    if (p.partial) {
        store<float, N>(p.partial + 2 * blockIdx.y * p.O + o, dm);
        store<float, N>(p.partial + (2 * blockIdx.y + 1) * p.O + o, dbias);
    }
}

template <class T, int N>
static void dora_bwd_launch(const struct dora_bwd_params *p, int64_t chunks, const struct cuda_call *c)
{
    struct column_grid g = column_grid(p->O, N);
    dora_bwd_kernel<T, N><<<dim3((unsigned)g.blocks, (unsigned)chunks), g.threads, 0, c->stream>>>(*p);
}

extern "C" int64_t cuda_dora_bwd_workspace(const struct args_dora_bwd *a, const struct cuda_call *c)
{
    (void)c;
    return (int64_t)sizeof(float) * 2 * row_blocks(a->z.shape[0], true) * a->z.shape[1];
}

extern "C" int cuda_dora_bwd(const struct args_dora_bwd *a, const struct cuda_call *c)
{
    bool summed = a->dm.data || a->dbias.data;
    struct dora_bwd_params p = {.dy = a->dy.data,
                                .z = a->z.data,
                                .m = (const float *)a->m.data,
                                .norm = (const float *)a->norm.data,
                                .dz = a->dz.data,
                                .add = a->dz.add,
                                .partial = summed ? (float *)c->workspace : NULL,
                                .N = a->z.shape[0],
                                .O = a->z.shape[1],
                                .pitch = tensor_pitch(&a->dy)};
    bool packed = rows_fit(&a->dy) && rows_fit(&a->z) && rows_fit(&a->dz) && packs_fit(&a->m) && packs_fit(&a->norm);
    int64_t chunks = row_blocks(p.N, summed);
    struct column_sums s = {.partial = p.partial, .chunks = chunks, .H = p.O, .parts = 2};
    if (p.N * p.O > 0)
        WITH_FLOAT_TYPE(a->z.dtype, T, {
            if (packed)
                dora_bwd_launch<T, pack_width<T>>(&p, chunks, c);
            else
                dora_bwd_launch<T, 1>(&p, chunks, c);
        })
    column_sums_set(&s, 0, &a->dm);
    column_sums_set(&s, 1, &a->dbias);
    if (summed)
        column_sums_launch(&s, c);
    return cuda_launched(c, "dora_bwd");
}
