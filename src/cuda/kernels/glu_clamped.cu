/* The clamped gated linear unit of gpt-oss, and back (op/glu_clamped.c). Bound by bytes: x and y once; back, x and dy once, and dx. A
 * thread owns N neighbouring elements of x, N / 2 pairs of a gate and an up. Activations are those of F32 for all types. */
#include "cuda/kernels/vector.cuh"

enum { THREADS = 256, MAX_BLOCKS = 65535 };

struct clamped_params {
    const void *x, *dy; /* dy NULL: forward, to y; else back, to dx */
    void *y, *dx;
    bool add;
    int64_t pairs;
    float alpha, limit;
};

/* What a limit leaves; NaN stays. */
__device__ static inline float clamped(float x, float low, float high)
{
    return x > high ? high : x < low ? low : x;
}

/* sigmoid(z), and *slope = s + z s (1 - s) with 1 - s = e s. */
__device__ static inline float sigmoid_and_slope(float z, float *slope)
{
    z = clamped(z, -80, 80); /* beyond, both are 0 or 1 */
    float e = expf(-z), s = 1 / (1 + e);
    *slope = s + z * e * s * s;
    return s;
}

/* N elements from x on: a pack, or where rows or pointers are not aligned two, one by one. */
template <class T, int N> __device__ static inline void load_pairs(float (&v)[N], const T *x)
{
    if constexpr (N > 2)
        load<T, N>(v, x);
    else
        v[0] = to_float(x[0]), v[1] = to_float(x[1]);
}

template <class T, int N> __device__ static inline void store_pairs(T *x, const float (&v)[N], bool add)
{
    if constexpr (N > 2)
        store_or_add<T, N>(x, v, add);
    else
        for (int i = 0; i < N; i++)
            x[i] = from_float<T>(add ? to_float(x[i]) + v[i] : v[i]);
}

template <class T, int N> __device__ static inline void clamped_forward(const struct clamped_params &p, int64_t pair)
{
    constexpr int HALF = N / 2;
    float x[N];
    load_pairs<T, N>(x, (const T *)p.x + 2 * pair);
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float g = clamped(x[2 * i], -INFINITY, p.limit), u = clamped(x[2 * i + 1], -p.limit, p.limit);
        ((T *)p.y)[pair + i] = from_float<T>((u + 1) * g / (1 + expf(-p.alpha * g)));
    }
}

template <class T, int N> __device__ static inline void clamped_backward(const struct clamped_params &p, int64_t pair)
{
    constexpr int HALF = N / 2;
    float x[N];
    load_pairs<T, N>(x, (const T *)p.x + 2 * pair);
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float gate = x[2 * i], up = x[2 * i + 1], dy = to_float(((const T *)p.dy)[pair + i]), slope;
        float g = clamped(gate, -INFINITY, p.limit), u = clamped(up, -p.limit, p.limit);
        float s = sigmoid_and_slope(p.alpha * g, &slope);
        x[2 * i] = gate > p.limit ? 0 : dy * (u + 1) * slope;
        x[2 * i + 1] = fabsf(up) > p.limit ? 0 : dy * g * s;
    }
    store_pairs<T, N>((T *)p.dx + 2 * pair, x, p.add);
}

/* N elements of x, at least two. */
template <class T, int N, bool BACK>
__global__ void __launch_bounds__(THREADS) clamped_kernel(const struct clamped_params p)
{
    int64_t step = (int64_t)gridDim.x * THREADS * (N / 2);
    for (int64_t pair = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * (N / 2); pair < p.pairs; pair += step)
        if constexpr (BACK)
            clamped_backward<T, N>(p, pair);
        else
            clamped_forward<T, N>(p, pair);
}

template <class T, int N> static void clamped_launch(const struct clamped_params *p, const struct cuda_call *c)
{
    int64_t blocks = (p->pairs + (int64_t)THREADS * (N / 2) - 1) / ((int64_t)THREADS * (N / 2));
    unsigned grid = (unsigned)(blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS);
    if (p->dy)
        clamped_kernel<T, N, true><<<grid, THREADS, 0, c->stream>>>(*p);
    else
        clamped_kernel<T, N, false><<<grid, THREADS, 0, c->stream>>>(*p);
}

/* Of either direction. Rows of x that are whole packs make all of it so. */
static void clamped_glu(const struct clamped_params *p, enum dtype dtype, bool packed, const struct cuda_call *c)
{
    if (p->pairs > 0)
        WITH_FLOAT_TYPE(dtype, T, {
            if (packed)
                clamped_launch<T, pack_width<T>>(p, c);
            else
                clamped_launch<T, 2>(p, c);
        })
}

extern "C" int cuda_glu_clamped(const struct args_glu_clamped *a, const struct cuda_call *c)
{
    struct clamped_params p = {.x = a->x.data,
                               .y = a->y.data,
                               .pairs = tensor_elements(&a->y),
                               .alpha = (float)a->alpha,
                               .limit = (float)a->limit};
    clamped_glu(&p, a->x.dtype, packs_fit(&a->x), c);
    return cuda_launched(c, "glu_clamped");
}

extern "C" int cuda_glu_clamped_bwd(const struct args_glu_clamped_bwd *a, const struct cuda_call *c)
{
    struct clamped_params p = {.x = a->x.data,
                               .dy = a->dy.data,
                               .dx = a->dx.data,
                               .add = a->dx.add,
                               .pairs = tensor_elements(&a->dy),
                               .alpha = (float)a->alpha,
                               .limit = (float)a->limit};
    if (p.dx)
        clamped_glu(&p, a->x.dtype, packs_fit(&a->x) && packs_fit(&a->dx), c);
    return cuda_launched(c, "glu_clamped_bwd");
}
