/* Gated linear units, and back, elementwise. Bound by bytes: gate, up and y once; back, gate, up and dy once, and their gradients.
 * A thread owns N neighbouring columns and walks down rows, ROWS at a time so that enough reads are under way. Activations are
 * those of F32 for all types: there is time, and an error of 1e-4 in a slope near 0 would show in dgate in F16. */
#include "cuda/kernels/act.cuh"
#include "cuda/kernels/vector.cuh"

enum { THREADS = 256, ROWS = 4, MAX_BLOCKS = 65535 };

struct glu_params {
    const void *x, *dy; /* dy NULL: forward, to y; else back, to dx */
    void *y, *dx;
    bool add;
    int64_t N, F;
};

/* y = act(gate) up for one row's N columns. */
template <class T, int N, int A>
__device__ static inline void glu_at(const struct glu_params &p, const struct words<T, N> &gate,
                                     const struct words<T, N> &up, int64_t n, int64_t f)
{
    float g[N], u[N], slope;
    unpack<T, N>(g, gate);
    unpack<T, N>(u, up);
#pragma unroll
    for (int i = 0; i < N; i++)
        u[i] *= act_and_slope<A, float>(g[i], &slope);
    store<T, N>((T *)p.y + n * p.F + f, u);
}

/* dgate = dy up act'(gate), dup = dy act(gate). */
template <class T, int N, int A>
__device__ static inline void glu_bwd_at(const struct glu_params &p, const struct words<T, N> &gate,
                                         const struct words<T, N> &up, const struct words<T, N> &grad, int64_t n,
                                         int64_t f)
{
    float g[N], u[N], dy[N], slope;
    unpack<T, N>(g, gate);
    unpack<T, N>(u, up);
    unpack<T, N>(dy, grad);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float y = act_and_slope<A, float>(g[i], &slope);
        g[i] = dy[i] * u[i] * slope;
        u[i] = dy[i] * y;
    }
    store_or_add<T, N>((T *)p.dx + 2 * n * p.F + f, g, p.add);
    store_or_add<T, N>((T *)p.dx + (2 * n + 1) * p.F + f, u, p.add);
}

template <class T, int N, int A, bool BACK>
__global__ void __launch_bounds__(THREADS) glu_kernel(const struct glu_params p)
{
    int64_t f = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (f >= p.F)
        return;
    for (int64_t n = blockIdx.y * (int64_t)ROWS; n < p.N; n += ROWS * (int64_t)gridDim.y) {
        struct words<T, N> gate[ROWS], up[ROWS], dy[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N) {
                gate[r] = fetch<T, N>((const T *)p.x + 2 * (n + r) * p.F + f);
                up[r] = fetch<T, N>((const T *)p.x + (2 * (n + r) + 1) * p.F + f);
                if (BACK)
                    dy[r] = fetch<T, N>((const T *)p.dy + (n + r) * p.F + f);
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < p.N) {
                if constexpr (BACK)
                    glu_bwd_at<T, N, A>(p, gate[r], up[r], dy[r], n + r, f);
                else
                    glu_at<T, N, A>(p, gate[r], up[r], n + r, f);
            }
    }
}

template <class T, int N, int A> static void glu_launch(const struct glu_params *p, const struct cuda_call *c)
{
    int64_t packs = (p->F + N - 1) / N, rows = (p->N + ROWS - 1) / ROWS;
    int threads = packs < THREADS ? (int)(packs + 31) / 32 * 32 : THREADS;
    dim3 blocks((unsigned)((packs + threads - 1) / threads), (unsigned)(rows < MAX_BLOCKS ? rows : MAX_BLOCKS));
    if (p->dy)
        glu_kernel<T, N, A, true><<<blocks, threads, 0, c->stream>>>(*p);
    else
        glu_kernel<T, N, A, false><<<blocks, threads, 0, c->stream>>>(*p);
}

/* Of either direction. */
static void glu(const struct glu_params *p, enum dtype dtype, int64_t act, bool packed, const struct cuda_call *c)
{
    if (p->N * p->F > 0)
        WITH_FLOAT_TYPE(dtype, T, WITH_ACT(act, A, {
                            if (packed)
                                glu_launch<T, pack_width<T>, A>(p, c);
                            else
                                glu_launch<T, 1, A>(p, c);
                        }))
}

extern "C" int cuda_glu(const struct args_glu *a, const struct cuda_call *c)
{
    struct glu_params p = {.x = a->x.data, .y = a->y.data, .N = a->y.shape[0], .F = a->y.shape[1]};
    glu(&p, a->x.dtype, a->act, packs_fit(&a->x) && packs_fit(&a->y), c);
    return cuda_launched(c, "glu");
}

extern "C" int cuda_glu_bwd(const struct args_glu_bwd *a, const struct cuda_call *c)
{
    struct glu_params p = {
        .x = a->x.data, .dy = a->dy.data, .dx = a->dx.data, .add = a->dx.add, .N = a->dy.shape[0], .F = a->dy.shape[1]};
    if (p.dx)
        glu(&p, a->x.dtype, a->act, packs_fit(&a->x) && packs_fit(&a->dy) && packs_fit(&a->dx), c);
    return cuda_launched(c, "glu_bwd");
}
