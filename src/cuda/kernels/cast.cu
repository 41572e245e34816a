/* move: by the copy engine. cast: another dtype, rounded to nearest even. Bound by bytes. One launch does many tensors: their addresses
 * go with the launch, and each block takes the next CHUNK elements of the tensor that its number falls in. */
#include "cuda/kernels/vector.cuh"

enum { THREADS = 256, WIDTH = 8, CHUNK = 4 * THREADS * WIDTH, MAX_TENSORS = 96 };

struct cast_table {
    const void *x[MAX_TENSORS];
    void *y[MAX_TENSORS];
    int64_t elements[MAX_TENSORS];
    unsigned end[MAX_TENSORS]; /* number of the first block behind it */
    uint8_t from[MAX_TENSORS], to[MAX_TENSORS];
    int n;
};

template <class X, class Y> __device__ static void cast_chunk(const X *x, Y *y, int64_t from, int64_t elements)
{
    bool packed = ((uintptr_t)x | (uintptr_t)y) % 16 == 0;
    int64_t end = from + CHUNK < elements ? from + CHUNK : elements;
    int64_t whole = packed ? from + (end - from) / WIDTH * WIDTH : from;
#pragma unroll
    for (int k = 0; k < CHUNK / (THREADS * WIDTH); k++) {
        int64_t i = from + (k * THREADS + (int)threadIdx.x) * WIDTH;
        float v[WIDTH];
        if (i >= whole)
            break;
        load<X, WIDTH>(v, x + i);
        store<Y, WIDTH>(y + i, v);
    }
    for (int64_t i = whole + threadIdx.x; i < end; i += THREADS)
        y[i] = from_float<Y>(to_float(x[i]));
}

template <class X> __device__ static void cast_from(const X *x, void *y, enum dtype to, int64_t from, int64_t elements)
{
    if (to == DT_BF16)
        cast_chunk<X, __nv_bfloat16>(x, (__nv_bfloat16 *)y, from, elements);
    else if (to == DT_F16)
        cast_chunk<X, __half>(x, (__half *)y, from, elements);
    else
        cast_chunk<X, float>(x, (float *)y, from, elements);
}

__global__ static void __launch_bounds__(THREADS) cast_kernel(const __grid_constant__ struct cast_table t)
{
    int low = 0, high = t.n - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (blockIdx.x < t.end[middle])
            high = middle;
        else
            low = middle + 1;
    }
    int64_t from = (int64_t)(blockIdx.x - (low ? t.end[low - 1] : 0)) * CHUNK;
    if (t.from[low] == DT_BF16)
        cast_from((const __nv_bfloat16 *)t.x[low], t.y[low], (enum dtype)t.to[low], from, t.elements[low]);
    else if (t.from[low] == DT_F16)
        cast_from((const __half *)t.x[low], t.y[low], (enum dtype)t.to[low], from, t.elements[low]);
    else
        cast_from((const float *)t.x[low], t.y[low], (enum dtype)t.to[low], from, t.elements[low]);
}

extern "C" int cuda_cast_many(const struct args_cast *const *a, int n, const struct cuda_call *c)
{
    for (int done = 0; done < n;) {
        struct cast_table t;
        unsigned blocks = 0;
        for (t.n = 0; done < n && t.n < MAX_TENSORS; done++) {
            int64_t elements = tensor_elements(&a[done]->x);
            clear_rows_behind(&a[done]->y, c);
            if (elements == 0)
                continue;
            blocks += (unsigned)((elements + CHUNK - 1) / CHUNK);
            t.x[t.n] = a[done]->x.data;
            t.y[t.n] = a[done]->y.data;
            t.from[t.n] = (uint8_t)a[done]->x.dtype;
            t.to[t.n] = (uint8_t)a[done]->y.dtype;
            t.elements[t.n] = elements;
            t.end[t.n++] = blocks;
        }
        if (blocks)
            cast_kernel<<<blocks, THREADS, 0, c->stream>>>(t);
    }
    return cuda_launched(c, "cast");
}

extern "C" int cuda_cast(const struct args_cast *a, const struct cuda_call *c)
{
    return cuda_cast_many(&a, 1, c);
}

extern "C" int cuda_move(const struct args_move *a, const struct cuda_call *c)
{
    size_t bytes = (size_t)dtype_bytes(a->x.dtype, tensor_elements(&a->x));
    if (bytes > 0)
        cudaMemcpyAsync(a->y.data, a->x.data, bytes, cudaMemcpyDefault, c->stream);
    return cuda_launched(c, "move");
}
