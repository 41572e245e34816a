/* StableAdamW (op/optimizer/stable_adamw.c) in two launches: the sums of g^2 / v by chunk, and the update, each of whose blocks adds up the
 * sums of its tensor in the same order. Bound by bytes: 8 a parameter, then 28. */
#include "cuda/kernels/optimizer/update.cuh"

extern "C" {
#include "op/optimizer/stable_adamw.h"
}

enum { THREADS = 256, CHUNK = 16384 };

struct stable_head {
    const double *step;
    const float *coef;
    double beta1, beta2, eps;
};

struct stable_row {
    struct updated u;
    void *m, *v;  /* of the weight's type */
    double *sums; /* of each chunk */
};
typedef many<struct stable_head, struct stable_row> stable_table;

struct stable_factors {
    float beta1, rest1, beta2, rest2, eps, coef;
};

__device__ static inline struct stable_factors factors_of(const struct stable_head &h)
{
    double rest1 = stable_adamw_rest(h.beta1, h.step[STEP_UPDATE]),
           rest2 = stable_adamw_rest(h.beta2, h.step[STEP_UPDATE]);
    return {(float)(1 - rest1), (float)rest1, (float)(1 - rest2), (float)rest2, (float)h.eps, h.coef ? *h.coef : 1};
}

/* The sum over the block, in all threads. */
__device__ static inline double block_sum(double x)
{
    __shared__ double part[THREADS / 32];
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, d);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < THREADS / 32; i++)
        x += part[i];
    return x;
}

template <class G, class P>
__device__ static double sum_chunk(const struct stable_row &r, const struct stable_factors &f, int64_t start)
{
    double sum = 0;
    for (int64_t i = start + threadIdx.x; i < r.u.n && i < start + CHUNK; i += THREADS) {
        float g = to_float(((const G *)r.u.g)[i]) * f.coef, squares = g * g;
        float v = fmaf(f.beta2, to_float(((const P *)r.v)[i]), f.rest2 * squares);
        sum += squares / fmaxf(v, f.eps * f.eps);
    }
    return sum;
}

__global__ static void __launch_bounds__(THREADS) sums_kernel(const __grid_constant__ stable_table t)
{
    int row = find_row(t, (int)blockIdx.x);
    const struct stable_row &r = t.row[row];
    struct stable_factors f = factors_of(t.head);
    int64_t chunk = (int)blockIdx.x - t.first[row];
    double sum = 0;
    if (f.coef < 0)
        return;
    WITH_FLOAT_TYPE(r.u.type, G, WITH_STORED_TYPE(r.u.pure, P, sum = (sum_chunk<G, P>(r, f, chunk * CHUNK))));
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        r.sums[chunk] = sum;
}

template <class G, class P>
__device__ static void update_chunk(const struct stable_row &r, const struct stable_factors &f, float rate, float decay,
                                    const struct rounding &rounding, int64_t start)
{
    for (int64_t i = start + threadIdx.x; i < r.u.n && i < start + CHUNK; i += THREADS) {
        float g = to_float(((const G *)r.u.g)[i]) * f.coef, p = to_float(((const P *)r.u.p)[i]);
        float m = fmaf(f.beta1, to_float(((const P *)r.m)[i]), f.rest1 * g);
        float v = fmaf(f.beta2, to_float(((const P *)r.v)[i]), f.rest2 * (g * g));
        p = fmaf(decay, p, p) - rate * m / (sqrtf(v) + f.eps);
        store_stored<1>((P *)r.u.p, i, {p}, rounding, ROUND_WEIGHT);
        store_stored<1>((P *)r.m, i, {m}, rounding, ROUND_STATE1);
        store_stored<1>((P *)r.v, i, {v}, rounding, ROUND_STATE2);
        store_as<1>(r.u.copy_type, r.u.copy, i, {p});
    }
}

__global__ static void __launch_bounds__(THREADS) update_kernel(const __grid_constant__ stable_table t)
{
    int row = find_row(t, (int)blockIdx.x);
    const struct stable_row &r = t.row[row];
    struct stable_factors f = factors_of(t.head);
    int64_t chunks = (r.u.n + CHUNK - 1) / CHUNK, start = (int64_t)((int)blockIdx.x - t.first[row]) * CHUNK;
    double sum = 0;
    if (f.coef < 0)
        return;
    for (int64_t i = threadIdx.x; i < chunks; i += THREADS)
        sum += r.sums[i];
    double rate = stable_adamw_rate(t.head.step[STEP_LR], block_sum(sum), (double)r.u.n);
    float decay = (float)(-rate * r.u.weight_decay);
    struct rounding rounding = rounding_of(t.head.step, r.u.noise, 0);
    WITH_FLOAT_TYPE(r.u.type, G,
                    WITH_STORED_TYPE(r.u.pure, P, (update_chunk<G, P>(r, f, (float)rate, decay, rounding, start))));
}

extern "C" int64_t cuda_stable_adamw_workspace(const struct args_stable_adamw *a, const struct cuda_call *c)
{
    (void)c;
    return chunks_of(tensor_elements(&a->p), CHUNK) * (int64_t)sizeof(double);
}

extern "C" int cuda_stable_adamw_many(const struct args_stable_adamw *const *a, int n, const struct cuda_call *c)
{
    stable_table all;
    all.head = {(const double *)a[0]->step.data, (const float *)a[0]->coef.data, a[0]->beta1, a[0]->beta2, a[0]->eps};
    double *sums = (double *)c->workspace;
    launch_many(
        &all, a, n,
        [&](struct stable_row *r, const struct args_stable_adamw *x) {
            *r = {updated_of(x, false), x->m.data, x->v.data, sums};
            int64_t chunks = chunks_of(r->u.n, CHUNK);
            sums += chunks;
            return chunks;
        },
        [=](const stable_table &t) {
            sums_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t);
            update_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t);
        });
    return cuda_launched(c, "stable_adamw");
}

extern "C" int cuda_stable_adamw(const struct args_stable_adamw *a, const struct cuda_call *c)
{
    return cuda_stable_adamw_many(&a, 1, c);
}
