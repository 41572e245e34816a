/* The sums of a matrix's columns (columns.cuh), where no kernel passes over it anyway. Bound by bytes: it is read once. A
 * column is cut into at most 128 runs of rows by N alone; within a run eight warps take every eighth row in ascending order
 * and are added in the order of warps; then the runs are added as columns.cuh says. */
#include "cuda/kernels/columns.cuh"

enum { RUN_WARPS = 8, RUNS = 128, RUN_ROWS = 64 };

static int64_t column_runs(int64_t N)
{
    int64_t runs = (N + RUN_ROWS - 1) / RUN_ROWS;
    return runs < RUNS ? runs : RUNS;
}

/* partials[run, o] = sum of x[n, o] over a run of `rows` rows. Block (x, y): 32 W columns, run y. */
template <class T, int W>
__global__ static void __launch_bounds__(32 * RUN_WARPS)
    row_runs(float *partials, const T *x, int64_t N, int64_t O, int64_t pitch, int64_t rows)
{
    __shared__ float sums[RUN_WARPS][32 * W];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t o = ((int64_t)blockIdx.x * 32 + lane) * W;
    int64_t n = blockIdx.y * rows + warp, end = blockIdx.y * rows + rows;
    if (end > N)
        end = N;
    float sum[W] = {0};
    if (o < O)
#pragma unroll 4
        for (; n < end; n += RUN_WARPS) {
            pack<T, W> v = *(const pack<T, W> *)(x + n * pitch + o);
            for (int k = 0; k < W; k++)
                sum[k] += to_float(v.v[k]);
        }
    for (int k = 0; k < W; k++)
        sums[warp][k * 32 + lane] = sum[k];
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * W; i += 32 * RUN_WARPS) {
        float total = 0;
        for (int w = 0; w < RUN_WARPS; w++)
            total += sums[w][i];
        int64_t column = ((int64_t)blockIdx.x * 32 + i % 32) * W + i / 32;
        if (column < O)
            partials[blockIdx.y * O + column] = total;
    }
}

/* Whether rows of so many bytes can be read 16 at a time. */
static bool packs_of(const void *p, int64_t row_bytes)
{
    return ((uintptr_t)p | (uintptr_t)row_bytes) % 16 == 0;
}

int64_t cuda_column_sums_workspace(const struct tensor *x)
{
    return column_runs(x->shape[0]) * x->shape[1] * (int64_t)sizeof(float);
}

void cuda_column_sums(const struct tensor *x, const struct tensor *to, const struct cuda_call *c)
{
    float *partials = (float *)c->workspace;
    int64_t N = x->shape[0], O = x->shape[1], pitch = tensor_pitch(x);
    if (N == 0) {
        if (!to->add)
            cudaMemsetAsync(to->data, 0, (size_t)O * sizeof(float), c->stream);
        return;
    }
    int64_t runs = column_runs(N), rows = (N + runs - 1) / runs;
    WITH_FLOAT_TYPE(x->dtype, T, {
        constexpr int W = pack_width<T>;
        const T *data = (const T *)x->data;
        if (packs_of(data, pitch * (int64_t)sizeof(T)))
            row_runs<T, W>
                <<<dim3((unsigned)((O + 32 * W - 1) / (32 * W)), (unsigned)runs), 32 * RUN_WARPS, 0, c->stream>>>(
                    partials, data, N, O, pitch, rows);
        else
            row_runs<T, 1><<<dim3((unsigned)((O + 31) / 32), (unsigned)runs), 32 * RUN_WARPS, 0, c->stream>>>(
                partials, data, N, O, pitch, rows);
    });
    struct column_sums sums = {partials, runs, O, 1};
    column_sums_set(&sums, 0, to);
    column_sums_launch(&sums, c);
}
