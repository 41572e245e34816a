/* route and its gradient: a warp a token. The sort, which has no atomics: block e goes through the choices of all tokens twice, which
 * are few bytes, counts those of the experts before its own, and gives its own rows their places in order. */
#include "cuda/kernels/experts/rows.cuh"

enum { THREADS = LANE * WARPS };

struct choice {
    float z; /* NaN has become -infinity */
    int e;
};

__device__ static inline bool before(struct choice a, struct choice b)
{
    return a.z > b.z || (a.z == b.z && a.e < b.e);
}

template <class T> __device__ static inline float logit(const T *z)
{
    float x[1];
    load<T, 1>(x, z);
    return x[0];
}

/* The best of the experts behind `last`, in all lanes; e < 0: there is no last. */
template <class T> __device__ static inline struct choice next_choice(const T *z, int E, struct choice last, int lane)
{
    struct choice best = {-INFINITY, E};
    for (int e = lane; e < E; e += LANE) {
        float x = logit(z + e);
        struct choice here = {isnan(x) ? -INFINITY : x, e};
        if ((last.e < 0 || before(last, here)) && before(here, best))
            best = here;
    }
    for (int d = LANE / 2; d > 0; d /= 2) {
        struct choice other = {__shfl_xor_sync(0xFFFFFFFFu, best.z, d), __shfl_xor_sync(0xFFFFFFFFu, best.e, d)};
        best = before(other, best) ? other : best;
    }
    return best;
}

template <class T> __device__ static inline float exp_sum(const T *z, int E, float max, int lane)
{
    float sum = 0;
    for (int e = lane; e < E; e += LANE)
        sum += expf(logit(z + e) - max);
    return warp_sum(sum);
}

/* Lane j keeps the j-th choice: k is at most LANE. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    choose_kernel(const T *logits, T *gates, int32_t *chosen, bool normalized, int64_t rows, int E, int k)
{
    int64_t n = row_of_warp();
    int lane = threadIdx.x % LANE;
    if (n >= rows)
        return;
    const T *z = logits + n * E;
    struct choice last = {0, -1}, mine = {0, 0};
    for (int j = 0; j < k; j++) {
        last = next_choice(z, E, last, lane);
        if (lane == j)
            mine = last;
    }
    float own = lane < k ? logit(z + mine.e) : 0, max = __shfl_sync(0xFFFFFFFFu, own, 0);
    float p = lane < k ? expf(own - max) : 0;
    float sum = normalized ? warp_sum(p) : exp_sum(z, E, max, lane);
    if (lane >= k)
        return;
    gates[n * k + lane] = from_float<T>(p / sum);
    chosen[n * k + lane] = mine.e;
}

/* Sums of x over a block, in all its threads. `at`: WARPS ints of shared memory. */
__device__ static inline int block_sum(int x, int *at)
{
    for (int d = LANE / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, d);
    __syncthreads();
    if (threadIdx.x % LANE == 0)
        at[threadIdx.x / LANE] = x;
    __syncthreads();
    x = 0;
    for (int w = 0; w < WARPS; w++)
        x += at[w];
    return x;
}

__global__ void __launch_bounds__(THREADS)
    sort_kernel(const int32_t *chosen, int32_t *places, int32_t *offsets, int64_t n, int E)
{
    __shared__ int at[WARPS];
    int e = (int)blockIdx.x, lane = threadIdx.x % LANE, warp = threadIdx.x / LANE, less = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        less += chosen[i] < e;
    int next = block_sum(less, at); /* the place of this expert's next row */
    if (threadIdx.x == 0) {
        offsets[e] = next;
        if (e == E - 1)
            offsets[E] = (int32_t)n;
    }
    for (int64_t i = threadIdx.x; i - threadIdx.x < n; i += THREADS) {
        bool own = i < n && chosen[i] == e;
        unsigned others = __ballot_sync(0xFFFFFFFFu, own);
        __syncthreads();
        if (lane == 0)
            at[warp] = __popc(others);
        __syncthreads();
        int ahead = __popc(others & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < WARPS; w++) {
            ahead += w < warp ? at[w] : 0;
            all += at[w];
        }
        if (own)
            places[i] = next + ahead;
        next += all;
    }
}

extern "C" int64_t cuda_route_workspace(const struct args_route *a, const struct cuda_call *c)
{
    (void)c;
    return a->logits.shape[0] * a->k * (int64_t)sizeof(int32_t);
}

extern "C" int cuda_route(const struct args_route *a, const struct cuda_call *c)
{
    int64_t N = a->logits.shape[0];
    int E = (int)a->logits.shape[1];
    int32_t *chosen = (int32_t *)c->workspace;
    int code = cuda_check_experts(a->k, "route", c->err);
    if (code)
        return code;
    if (N > 0)
        WITH_FLOAT_TYPE(a->logits.dtype, T, {
            choose_kernel<T><<<(unsigned)((N + WARPS - 1) / WARPS), THREADS, 0, c->stream>>>(
                (const T *)a->logits.data, (T *)a->gates.data, chosen, a->normalized, N, E, (int)a->k);
        })
    sort_kernel<<<(unsigned)E, THREADS, 0, c->stream>>>(chosen, (int32_t *)a->places.data, (int32_t *)a->offsets.data,
                                                        N * a->k, E);
    return cuda_launched(c, "route");
}

/* Lane j has the j-th choice. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    route_bwd_kernel(const T *logits, const T *dgates, const int32_t *places, const int32_t *offsets, T *dlogits,
                     bool add, bool normalized, int64_t rows, int E, int k)
{
    int64_t n = row_of_warp();
    int lane = threadIdx.x % LANE;
    if (n >= rows)
        return;
    const T *z = logits + n * E;
    int mine = lane < k ? expert_of(offsets, E, places[n * k + lane]) : -1;
    float own = lane < k ? logit(z + mine) : 0, max = __shfl_sync(0xFFFFFFFFu, own, 0);
    float p = lane < k ? expf(own - max) : 0, d = lane < k ? to_float(dgates[n * k + lane]) : 0;
    float sum = normalized ? warp_sum(p) : exp_sum(z, E, max, lane);
    float s = warp_sum(p * d) / sum;
    for (int first = 0; first < E; first += LANE) {
        int e = first + lane;
        float of = 0;
        bool chosen = false;
        for (int j = 0; j < k; j++) {
            int other = __shfl_sync(0xFFFFFFFFu, mine, j);
            float its = __shfl_sync(0xFFFFFFFFu, d, j);
            of = other == e ? its : of;
            chosen |= other == e;
        }
        float dz[1] = {0};
        if (e < E && (chosen || !normalized))
            dz[0] = expf(logit(z + e) - max) / sum * (of - s);
        if (e < E)
            store_or_add<T, 1>(dlogits + n * E + e, dz, add);
    }
}

extern "C" int cuda_route_bwd(const struct args_route_bwd *a, const struct cuda_call *c)
{
    int64_t N = a->logits.shape[0], k = a->dgates.shape[1];
    int code = cuda_check_experts(k, "route_bwd", c->err);
    if (code)
        return code;
    if (N > 0 && a->dlogits.data)
        WITH_FLOAT_TYPE(a->logits.dtype, T, {
            route_bwd_kernel<T><<<(unsigned)((N + WARPS - 1) / WARPS), THREADS, 0, c->stream>>>(
                (const T *)a->logits.data, (const T *)a->dgates.data, (const int32_t *)a->places.data,
                (const int32_t *)a->offsets.data, (T *)a->dlogits.data, a->dlogits.add, a->normalized, N,
                (int)a->logits.shape[1], (int)k);
        })
    return cuda_launched(c, "route_bwd");
}
