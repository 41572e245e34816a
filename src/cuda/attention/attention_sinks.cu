/* Attention's sinks: what a forward kernel that knows of none has written becomes what it is with them, and their gradient.
 *     o *= 1 / (1 + exp(sink - lse)) ;  lse += log(1 + exp(sink - lse))
 * Bound by bytes: o read and written once more, beside an attention whose kernels stay one for all; o and its gradient read once backward.
 *
 * Blocks are of 64 rows and of the heads that a warp takes side by side: as many lanes a head as there are accesses of 16 bytes in it. Order
 * of sums of the gradient: a lane's part of a head through 8 rows, in order; lanes in a butterfly; a block's warps in order; of
 * the blocks, lane l of a warp takes l, l + 32, ... in order, then lanes in a butterfly. */
#include "cuda/attention/attention_sinks.cuh"
#include "cuda/kernels/vector.cuh"

enum { LANE = 32, WARPS = 8, WARP_ROWS = 8, BLOCK_ROWS = WARPS * WARP_ROWS };

/* Where heads and rows are. */
struct sinks_layout {
    int64_t T;
    int heads, D, B;
    int lanes; /* of a head: a power of two */
};

static struct sinks_layout layout_of(int64_t T, int64_t heads, int64_t columns, int64_t B, int width)
{
    struct sinks_layout l = {.T = T, .heads = (int)heads, .D = (int)(columns / heads), .B = (int)B, .lanes = 1};
    while (l.lanes < LANE && l.lanes * width < l.D)
        l.lanes *= 2;
    return l;
}

static int64_t row_blocks(int64_t T)
{
    return (T + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

static dim3 grid_of(const struct sinks_layout *l)
{
    int heads = LANE / l->lanes;
    return dim3((unsigned)row_blocks(l->T), (unsigned)((l->heads + heads - 1) / heads));
}

/* What a thread works on. */
struct sinks_part {
    int head, within; /* within: the number of the lane among those of the head */
    int64_t first;    /* row */
    int rows;         /* that are there, at most WARP_ROWS */
};

__device__ static inline struct sinks_part part_of(const struct sinks_layout &l, const int32_t *cu)
{
    int lane = (int)threadIdx.x % LANE;
    struct sinks_part p = {.head = (int)blockIdx.y * (LANE / l.lanes) + lane / l.lanes,
                           .within = lane % l.lanes,
                           .first = (int64_t)blockIdx.x * BLOCK_ROWS + (int)threadIdx.x / LANE * WARP_ROWS};
    int64_t end = cu[l.B] < l.T ? cu[l.B] : l.T;
    p.rows = p.head < l.heads && p.first < end ? (int)(end - p.first < WARP_ROWS ? end - p.first : WARP_ROWS) : 0;
    return p;
}

/* ---- forward ---- */

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    sinks_kernel(const struct sinks_layout l, T *o, float *lse, const float *sinks, const int32_t *cu)
{
    struct sinks_part p = part_of(l, cu);
    float *at = lse + p.head * l.T + p.first, sink = p.rows ? sinks[p.head] : 0, factor[WARP_ROWS], total[WARP_ROWS];
#pragma unroll
    for (int k = 0; k < WARP_ROWS; k++)
        if (k < p.rows) {
            float top = fmaxf(at[k], sink), of_keys = expf(at[k] - top), sum = of_keys + expf(sink - top);
            factor[k] = of_keys / sum;
            total[k] = top + logf(sum);
        }
    __syncwarp(); /* all lanes have read lse */
    for (int d = p.within * N; d < l.D; d += l.lanes * N)
#pragma unroll
        for (int k = 0; k < WARP_ROWS; k++)
            if (k < p.rows) {
                T *to = o + ((p.first + k) * l.heads + p.head) * l.D + d;
                float v[N];
                load<T, N>(v, to);
#pragma unroll
                for (int i = 0; i < N; i++)
                    v[i] *= factor[k];
                store<T, N>(to, v);
            }
#pragma unroll
    for (int k = 0; k < WARP_ROWS; k++)
        if (k < p.rows && p.within == 0)
            at[k] = total[k];
}

template <class T, int N> static void add_sinks(const struct args_attention *a, const struct cuda_call *c)
{
    struct sinks_layout l = layout_of(a->o.shape[0], a->heads, a->o.shape[1], a->cu.shape[0] - 1, N);
    sinks_kernel<T, N><<<grid_of(&l), LANE * WARPS, 0, c->stream>>>(
        l, (T *)a->o.data, (float *)a->lse.data, (const float *)a->sinks.data, (const int32_t *)a->cu.data);
}

/* Whether accesses of 16 bytes fit into heads. */
static bool packs_fit_heads(const struct tensor *o, int64_t heads)
{
    return packs_fit(o) && o->shape[1] / heads % 8 == 0;
}

void attention_add_sinks(const struct args_attention *a, const struct cuda_call *c)
{
    if (a->o.shape[0] > 0)
        WITH_FLOAT_TYPE(a->o.dtype, T, {
            if (packs_fit_heads(&a->o, a->heads))
                add_sinks<T, pack_width<T>>(a, c);
            else
                add_sinks<T, 1>(a, c);
        })
}

/* ---- backward ---- */

struct sinks_bwd {
    const void *o, *dout;
    const float *lse, *sinks;
    const int32_t *cu;
    float *partial; /* (heads, blocks) */
};

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS) sinks_bwd_kernel(const struct sinks_layout l, const struct sinks_bwd s)
{
    __shared__ float parts[WARPS][LANE];
    struct sinks_part p = part_of(l, s.cu);
    int warp = (int)threadIdx.x / LANE, lane = (int)threadIdx.x % LANE, heads = LANE / l.lanes;
    float sum = 0, weight[WARP_ROWS];
#pragma unroll
    for (int k = 0; k < WARP_ROWS; k++)
        weight[k] = k < p.rows ? expf(s.sinks[p.head] - s.lse[p.head * l.T + p.first + k]) : 0;
    for (int d = p.within * N; d < l.D; d += l.lanes * N)
#pragma unroll
        for (int k = 0; k < WARP_ROWS; k++)
            if (k < p.rows) {
                int64_t at = ((p.first + k) * l.heads + p.head) * l.D + d;
                float o[N], dout[N], dot = 0;
                load<T, N>(o, (const T *)s.o + at);
                load<T, N>(dout, (const T *)s.dout + at);
#pragma unroll
                for (int i = 0; i < N; i++)
                    dot += o[i] * dout[i];
                sum -= weight[k] * dot;
            }
    for (int i = l.lanes / 2; i > 0; i /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, i);
    if (p.within == 0)
        parts[warp][lane / l.lanes] = sum;
    __syncthreads();
    int head = (int)blockIdx.y * heads + (int)threadIdx.x;
    if ((int)threadIdx.x >= heads || head >= l.heads)
        return;
    sum = parts[0][threadIdx.x];
    for (int w = 1; w < WARPS; w++)
        sum += parts[w][threadIdx.x];
    s.partial[(int64_t)head * gridDim.x + blockIdx.x] = sum;
}

/* A warp a head. */
template <class D>
__global__ void __launch_bounds__(LANE *WARPS)
    sinks_sum_kernel(const float *partial, int64_t blocks, int heads, D *dsinks, bool add)
{
    int head = (int)(blockIdx.x * WARPS + threadIdx.x / LANE), lane = (int)threadIdx.x % LANE;
    float sum = 0;
    if (head >= heads)
        return; /* whole warps */
    for (int64_t i = lane; i < blocks; i += LANE)
        sum += partial[head * blocks + i];
    sum = warp_sum(sum);
    if (lane == 0)
        dsinks[head] = from_float<D>(add ? to_float(dsinks[head]) + sum : sum);
}

extern "C" int64_t cuda_attention_sinks_bwd_workspace(const struct args_attention_sinks_bwd *a,
                                                      const struct cuda_call *c)
{
    (void)c;
    return (int64_t)sizeof(float) * a->sinks.shape[0] * row_blocks(a->o.shape[0]);
}

template <class T, int N> static void sum_blocks(const struct args_attention_sinks_bwd *a, const struct cuda_call *c)
{
    struct sinks_layout l = layout_of(a->o.shape[0], a->sinks.shape[0], a->o.shape[1], a->cu.shape[0] - 1, N);
    struct sinks_bwd s = {.o = a->o.data,
                          .dout = a->dout.data,
                          .lse = (const float *)a->lse.data,
                          .sinks = (const float *)a->sinks.data,
                          .cu = (const int32_t *)a->cu.data,
                          .partial = (float *)c->workspace};
    if (l.T > 0)
        sinks_bwd_kernel<T, N><<<grid_of(&l), LANE * WARPS, 0, c->stream>>>(l, s);
}

template <class D> static void sum_all(const struct args_attention_sinks_bwd *a, const struct cuda_call *c)
{
    int heads = (int)a->sinks.shape[0];
    sinks_sum_kernel<D><<<(unsigned)((heads + WARPS - 1) / WARPS), LANE * WARPS, 0, c->stream>>>(
        (const float *)c->workspace, row_blocks(a->o.shape[0]), heads, (D *)a->dsinks.data, a->dsinks.add);
}

extern "C" int cuda_attention_sinks_bwd(const struct args_attention_sinks_bwd *a, const struct cuda_call *c)
{
    int64_t heads = a->sinks.shape[0];
    bool packed = packs_fit_heads(&a->o, heads) && packs_fit_heads(&a->dout, heads);
    if (a->dsinks.data) {
        WITH_FLOAT_TYPE(a->o.dtype, T, {
            if (packed)
                sum_blocks<T, pack_width<T>>(a, c);
            else
                sum_blocks<T, 1>(a, c);
        })
        WITH_FLOAT_TYPE(a->dsinks.dtype, D, sum_all<D>(a, c))
    }
    return cuda_launched(c, "attention_sinks_bwd");
}
