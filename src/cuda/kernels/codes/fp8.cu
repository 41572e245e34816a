/* quantize_fp8 (op/codes/fp8.c); the products of what it makes are in linear/linear.cu. Bound by bytes: x is read once from memory, and again
 * from the caches. Transposed it is read twice: for the largest of each column, of which an atomic maximum takes those of stretches of
 * rows, in any order; and tile by tile, which are turned round in shared memory. */
#include "cuda/kernels/codes/codes.cuh"

extern "C" {
#include "op/codes/fp8.h"
}

struct quantize_params {
    const void *x;
    const float *x_scale; /* of codes */
    uint8_t *y;
    float *scale;
    int64_t N, I, pitch; /* of x */
};

/* Elements of row n of x, from column i on. */
template <class T, int N>
__device__ static inline void read(float (&v)[N], const struct quantize_params &p, int64_t n, int64_t i)
{
    const T *x = (const T *)p.x + n * p.pitch + i;
    if constexpr (sizeof(T) == 1)
        load_codes<N>(v, x, p.x_scale[n]);
    else
        load<T, N>(v, x);
}

/* N codes, one behind the other. */
template <int N> __device__ static inline void store_codes(uint8_t *to, const float (&v)[N], float by)
{
    if constexpr (N == 1)
        *to = (uint8_t)__nv_cvt_float_to_fp8(v[0] * by, __NV_SATFINITE, __NV_E4M3);
    else {
        pack<uint16_t, N / 2> codes;
#pragma unroll
        for (int i = 0; i < N; i += 2)
            codes.v[i / 2] =
                (uint16_t)__nv_cvt_float2_to_fp8x2(make_float2(v[i] * by, v[i + 1] * by), __NV_SATFINITE, __NV_E4M3);
        *(pack<uint16_t, N / 2> *)to = codes;
    }
}

/* ---- rows ---- */

enum { ROW_THREADS = 128 };

template <class T, int N>
__global__ static void __launch_bounds__(ROW_THREADS) rows_kernel(const struct quantize_params p)
{
    __shared__ float of_warp[ROW_THREADS / 32];
    float largest = 0, v[N];
    for (int64_t i = threadIdx.x * N; i < p.I; i += ROW_THREADS * N) {
        read<T, N>(v, p, blockIdx.x, i);
#pragma unroll
        for (int k = 0; k < N; k++)
            largest = fmaxf(largest, fabsf(v[k]));
    }
#pragma unroll
    for (int step = 16; step; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int i = 0; i < ROW_THREADS / 32; i++)
        largest = fmaxf(largest, of_warp[i]);
    float scale = fp8_scale(largest), by = 1 / scale;
    for (int64_t i = threadIdx.x * N; i < p.I; i += ROW_THREADS * N) {
        read<T, N>(v, p, blockIdx.x, i);
        store_codes<N>(p.y + blockIdx.x * p.I + i, v, by);
    }
    if (threadIdx.x == 0)
        p.scale[blockIdx.x] = scale;
}

/* ---- columns ---- */

enum { MOST_WARPS = 8, MOST_ROWS = 256, TILE = 64, TILE_THREADS = 256, TILE_PITCH = TILE + 4 };

/* scale[i] = that of the largest of column i, if it is more than what is there. Block (x, y): 32 N columns, the y-th MOST_ROWS rows. */
template <class T, int N>
__global__ static void __launch_bounds__(32 * MOST_WARPS) largest_kernel(const struct quantize_params p)
{
    __shared__ float of_warp[MOST_WARPS][32 * N];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t first = (int64_t)blockIdx.x * 32 * N, column = first + lane * N, end = (blockIdx.y + 1) * MOST_ROWS;
    float largest[N] = {0}, v[N];
    for (int64_t n = blockIdx.y * MOST_ROWS + warp; n < end && n < p.N && column < p.I; n += MOST_WARPS) {
        read<T, N>(v, p, n, column);
#pragma unroll
        for (int k = 0; k < N; k++)
            largest[k] = fmaxf(largest[k], fabsf(v[k]));
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        of_warp[warp][lane * N + k] = largest[k];
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * N && first + i < p.I; i += 32 * MOST_WARPS) {
        float most = 0;
        for (int w = 0; w < MOST_WARPS; w++)
            most = fmaxf(most, of_warp[w][i]);
        atomicMax((unsigned *)&p.scale[first + i], __float_as_uint(fp8_scale(most)));
    }
}

/* Block (x, y): columns from x TILE on of rows from y TILE on. A thread reads 16 elements of a row, and writes 16 of a column. */
template <class T, int N>
__global__ static void __launch_bounds__(TILE_THREADS) turn_kernel(const struct quantize_params p)
{
    __shared__ __align__(16) uint8_t codes[TILE][TILE_PITCH]; /* by column */
    __shared__ float by[TILE];
    int64_t first_row = (int64_t)blockIdx.y * TILE, first_column = (int64_t)blockIdx.x * TILE;
    int line = threadIdx.x / 4, from = threadIdx.x % 4 * 16;
    if (threadIdx.x < TILE && first_column + threadIdx.x < p.I)
        by[threadIdx.x] = 1 / p.scale[first_column + threadIdx.x];
    __syncthreads();
    for (int i = from; i < from + 16 && first_row + line < p.N && first_column + i < p.I; i += N) {
        float v[N];
        read<T, N>(v, p, first_row + line, first_column + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            codes[i + k][line] = (uint8_t)__nv_cvt_float_to_fp8(v[k] * by[i + k], __NV_SATFINITE, __NV_E4M3);
    }
    __syncthreads();
    if (first_column + line >= p.I)
        return;
    uint8_t *to = p.y + (first_column + line) * p.N + first_row + from;
    if ((uintptr_t)to % 4 == 0 && first_row + from + 16 <= p.N)
        for (int i = 0; i < 16; i += 4)
            *(uint32_t *)(to + i) = *(const uint32_t *)&codes[line][from + i];
    else
        for (int i = 0; i < 16 && first_row + from + i < p.N; i++)
            to[i] = codes[line][from + i];
}

static unsigned ceiling(int64_t n, int64_t of)
{
    return (unsigned)((n + of - 1) / of);
}

template <class T, int N> static void launch(const struct quantize_params *p, bool transposed, cudaStream_t s)
{
    if (!transposed) {
        rows_kernel<T, N><<<(unsigned)p->N, ROW_THREADS, 0, s>>>(*p);
        return;
    }
    cudaMemsetAsync(p->scale, 0, (size_t)p->I * sizeof(float), s);
    largest_kernel<T, N><<<dim3(ceiling(p->I, 32 * N), ceiling(p->N, MOST_ROWS)), 32 * MOST_WARPS, 0, s>>>(*p);
    turn_kernel<T, N><<<dim3(ceiling(p->I, TILE), ceiling(p->N, TILE)), TILE_THREADS, 0, s>>>(*p);
}

template <class T, int N>
static void launch_packed(const struct quantize_params *p, bool packed, bool transposed, cudaStream_t s)
{
    if (packed)
        launch<T, N>(p, transposed, s);
    else
        launch<T, 1>(p, transposed, s);
}

extern "C" int cuda_quantize_fp8(const struct args_quantize_fp8 *a, const struct cuda_call *c)
{
    struct quantize_params p = {.x = a->x.data,
                                .x_scale = (const float *)a->x_scale.data,
                                .y = (uint8_t *)a->y.data,
                                .scale = (float *)a->scale.data,
                                .N = a->x.shape[0],
                                .I = a->x.shape[1],
                                .pitch = tensor_pitch(&a->x)};
    bool packed = packs_fit(&a->x) && p.pitch % 8 == 0 && (uintptr_t)p.y % 16 == 0;
    if (p.N > 0 && p.I > 0 && a->x.dtype == DT_F8_E4M3)
        launch_packed<uint8_t, 8>(&p, packed, a->transposed, c->stream);
    else if (p.N > 0 && p.I > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T, { launch_packed<T, pack_width<T>>(&p, packed, a->transposed, c->stream); })
    return cuda_launched(c, "quantize_fp8");
}
