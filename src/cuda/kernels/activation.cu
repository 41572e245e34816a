/* act_bwd (du = dy * slope, and its column sums) and the activation behind a matrix product. Bound by bytes: three tensors
 * once, or two. A thread owns N neighbouring columns and walks down rows, ROWS at a time so that enough reads are under way.
 *
 * Order of the column sums: chunk i of `chunks` takes rows i, i + chunks, … in order; then as columns.cuh says. */
#include "cuda/kernels/act.cuh"
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/walk.cuh"

struct act_bwd_params {
    const void *slope, *dy;
    void *du;
    float *partial; /* (chunks, F), NULL where no sums are wanted */
    int64_t N, F;
};

template <class T, int N> __global__ void __launch_bounds__(THREADS) act_bwd_kernel(const struct act_bwd_params p)
{
    int64_t f = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    float sum[N] = {0};
    if (f >= p.F)
        return;
    for (int64_t n = blockIdx.y * (int64_t)ROWS; n < p.N; n += ROWS * (int64_t)gridDim.y) {
        struct words<T, N> slope[ROWS], dy[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N) {
                int64_t at = (n + r) * p.F + f;
                slope[r] = fetch<T, N>((const T *)p.slope + at);
                dy[r] = fetch<T, N>((const T *)p.dy + at);
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N) {
                float x[N], g[N];
                unpack<T, N>(x, slope[r]);
                unpack<T, N>(g, dy[r]);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    g[i] *= x[i];
                    sum[i] += g[i];
                }
                store<T, N>((T *)p.du + (n + r) * p.F + f, g);
            }
    }
    if (p.partial)
        store<float, N>(p.partial + blockIdx.y * p.F + f, sum);
}

template <class T, int N>
static void act_bwd_launch(const struct act_bwd_params *p, int64_t chunks, const struct cuda_call *c)
{
    struct column_grid g = column_grid(p->F, N);
    act_bwd_kernel<T, N><<<dim3((unsigned)g.blocks, (unsigned)chunks), g.threads, 0, c->stream>>>(*p);
}

extern "C" int64_t cuda_act_bwd_workspace(const struct args_act_bwd *a, const struct cuda_call *c)
{
    (void)c;
    return a->dbias.ndim ? (int64_t)sizeof(float) * row_blocks(a->slope.shape[0], true) * a->slope.shape[1] : 0;
}

extern "C" int cuda_act_bwd(const struct args_act_bwd *a, const struct cuda_call *c)
{
    bool summed = a->dbias.data;
    struct act_bwd_params p = {.slope = a->slope.data,
                               .dy = a->dy.data,
                               .du = a->du.data,
                               .partial = summed ? (float *)c->workspace : NULL,
                               .N = a->slope.shape[0],
                               .F = a->slope.shape[1]};
    bool packed = packs_fit(&a->slope) && packs_fit(&a->dy) && packs_fit(&a->du);
    int64_t chunks = row_blocks(p.N, summed);
    struct column_sums s = {.partial = p.partial, .chunks = chunks, .H = p.F, .parts = 1};
    if (p.N * p.F > 0)
        WITH_FLOAT_TYPE(a->slope.dtype, T, {
            if (packed)
                act_bwd_launch<T, pack_width<T>>(&p, chunks, c);
            else
                act_bwd_launch<T, 1>(&p, chunks, c);
        })
    column_sums_set(&s, 0, &a->dbias);
    if (summed)
        column_sums_launch(&s, c);
    return cuda_launched(c, "act_bwd");
}

template <class T, int N, int A> __global__ void __launch_bounds__(THREADS) act_kernel(const struct act_params p)
{
    int64_t o = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (o >= p.O)
        return;
    for (int64_t n = blockIdx.y * (int64_t)ROWS; n < p.N; n += ROWS * (int64_t)gridDim.y) {
        struct words<T, N> u[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N)
                u[r] = fetch<T, N>((const T *)p.y + (n + r) * p.pitch + o);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N) {
                float x[N], slope[N];
                unpack<T, N>(x, u[r]);
#pragma unroll
                for (int i = 0; i < N; i++)
                    x[i] = act_and_slope<A, T>(x[i], &slope[i]);
                if (p.slope)
                    store<T, N>((T *)p.slope + (n + r) * p.O + o, slope);
                store<T, N>((T *)p.y + (n + r) * p.pitch + o, x);
            }
    }
}

template <class T, int N, int A> static void act_launch(const struct act_params *p, const struct cuda_call *c)
{
    struct column_grid g = column_grid(p->O, N);
    int64_t chunks = row_blocks(p->N, false);
    act_kernel<T, N, A><<<dim3((unsigned)g.blocks, (unsigned)chunks), g.threads, 0, c->stream>>>(*p);
}

void cuda_act(const struct act_params *p, const struct cuda_call *c)
{
    bool packed = ((uintptr_t)p->y | (uintptr_t)p->slope) % 16 == 0 && p->O % 8 == 0 && p->pitch % 8 == 0;
    if (p->N * p->O > 0)
        WITH_FLOAT_TYPE(p->dtype, T, WITH_ACT(p->act, A, {
                            if (packed)
                                act_launch<T, pack_width<T>, A>(p, c);
                            else
                                act_launch<T, 1, A>(p, c);
                        }))
}
