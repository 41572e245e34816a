/* dequantize: weights in codes as numbers (op/codes/quantize.h, op/codes/fp8.h). A thread takes eight codes at a time, which are of one block or row.
 * Bound by bytes, most of which are y's. */
#include "cuda/kernels/codes/codes.cuh"

extern "C" {
#include "op/codes/quantize.h"
#include "op/optimizer/dynamic_map.h"
}

enum { THREADS = 256, WIDTH = 8, MOST_BLOCKS = 4096 };

struct coded {
    const uint8_t *codes;
    const void *absmax; /* floats, or with nested codes of 8 bits */
    const float *nested;
    void *y;
    int64_t n, packs; /* elements, and words that are taken whole */
    float table[QUANT_CODES];
};

__device__ static inline float largest_of(const struct coded &w, const float *map, int64_t block)
{
    if (!w.nested)
        return ((const float *)w.absmax)[block];
    float beyond = __fmul_rn(map[((const uint8_t *)w.absmax)[block]], w.nested[1 + block / MAP_BLOCK]);
    return __fadd_rn(beyond, w.nested[0]);
}

__device__ static inline int code_at(const uint8_t *codes, int64_t i)
{
    return codes[i / 2] >> (i % 2 ? 0 : 4) & 15;
}

template <class T> __global__ static void __launch_bounds__(THREADS) dequantize_kernel(const struct coded w)
{
    __shared__ float table[QUANT_CODES], map[MAP_CODES];
    for (int i = (int)threadIdx.x; i < QUANT_CODES; i += THREADS)
        table[i] = w.table[i];
    for (int i = (int)threadIdx.x; w.nested && i < MAP_CODES; i += THREADS)
        map[i] = map_signed(i);
    __syncthreads();
    T *y = (T *)w.y;
    int64_t stride = (int64_t)gridDim.x * THREADS, first = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    for (int64_t i = first; i < w.packs; i += stride) {
        float most = largest_of(w, map, i * WIDTH / QUANT_BLOCK), v[WIDTH];
        uint32_t codes = ((const uint32_t *)w.codes)[i];
#pragma unroll
        for (int k = 0; k < WIDTH; k++) /* the first of a byte's two is in its upper half */
            v[k] = table[codes >> (4 * (k ^ 1)) & 15] * most;
        store<T, WIDTH>(y + i * WIDTH, v);
    }
    for (int64_t i = w.packs * WIDTH + first; i < w.n; i += stride)
        y[i] = from_float<T>(table[code_at(w.codes, i)] * largest_of(w, map, i / QUANT_BLOCK));
}

/* ---- of 8 bits ---- */

struct coded_rows {
    const uint8_t *codes;
    const float *scale;
    void *y;
    int64_t n, width; /* elements, and those of a row */
};

template <class T, int N> __global__ static void __launch_bounds__(THREADS) rows_kernel(const struct coded_rows w)
{
    int64_t stride = (int64_t)gridDim.x * THREADS * N;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N; i < w.n; i += stride) {
        float v[N];
        load_codes<N>(v, w.codes + i, w.scale[i / w.width]);
        store<T, N>((T *)w.y + i, v);
    }
}

static unsigned blocks_for(int64_t elements)
{
    int64_t blocks = (elements + THREADS * WIDTH - 1) / (THREADS * WIDTH);
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

static void launch_rows(const struct args_dequantize *a, cudaStream_t s)
{
    struct coded_rows w = {.codes = (const uint8_t *)a->w.data,
                           .scale = (const float *)a->absmax.data,
                           .y = a->y.data,
                           .n = tensor_elements(&a->w),
                           .width = a->w.shape[a->w.ndim - 1]};
    bool packed = w.width % WIDTH == 0 && (uintptr_t)w.codes % WIDTH == 0 && (uintptr_t)w.y % 16 == 0;
    WITH_FLOAT_TYPE(a->y.dtype, T, if (packed) rows_kernel<T, WIDTH><<<blocks_for(w.n), THREADS, 0, s>>>(w);
                    else rows_kernel<T, 1><<<blocks_for(w.n), THREADS, 0, s>>>(w))
}

static void launch_blocks(const struct args_dequantize *a, cudaStream_t s)
{
    struct coded w = {.codes = (const uint8_t *)a->w.data,
                      .absmax = a->absmax.data,
                      .nested = (const float *)a->nested.data,
                      .y = a->y.data,
                      .n = tensor_elements(&a->w)};
    bool aligned = (uintptr_t)w.codes % sizeof(uint32_t) == 0 && (uintptr_t)w.y % 16 == 0;
    w.packs = aligned ? w.n / WIDTH : 0;
    memcpy(w.table, quant_table[a->table], sizeof w.table);
    WITH_FLOAT_TYPE(a->y.dtype, T, { dequantize_kernel<T><<<blocks_for(w.n), THREADS, 0, s>>>(w); })
}

extern "C" int cuda_dequantize(const struct args_dequantize *a, const struct cuda_call *c)
{
    clear_rows_behind(&a->y, c);
    if (tensor_elements(&a->w) > 0 && a->w.dtype == DT_F8_E4M3)
        launch_rows(a, c->stream);
    else if (tensor_elements(&a->w) > 0)
        launch_blocks(a, c->stream);
    return cuda_launched(c, "dequantize");
}
