/* vector.cuh: N neighbouring elements of a tensor as floats in registers, read and written by 16-byte accesses. N is
 * pack_width<T> (or 8 for all types), or 1 where rows or pointers are not aligned. */
#ifndef CUDA_VECTOR_CUH
#define CUDA_VECTOR_CUH

#include "cuda/kernels/kernel.cuh"

/* Two 16-bit floats in a word, the first in its low half. */
__device__ static inline float2 unpack_pair(uint32_t w, __nv_bfloat16)
{
    return make_float2(__uint_as_float(w << 16), __uint_as_float(w & 0xFFFF0000u));
}
__device__ static inline float2 unpack_pair(uint32_t w, __half)
{
    return __half22float2(*(const __half2 *)&w);
}
__device__ static inline uint32_t pack_pair(float a, float b, __nv_bfloat16)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *(const uint32_t *)&pair;
}
__device__ static inline uint32_t pack_pair(float a, float b, __half)
{
    __half2 pair = __floats2half2_rn(a, b);
    return *(const uint32_t *)&pair;
}

/* N elements of T as they lie in memory. They are read past the order of this kernel's writes, so that a read need not
 * wait for them: a thread fetches only what no other thread of the kernel writes, and what it writes itself, before. */
template <class T, int N> struct words {
    static constexpr int count = (N * (int)sizeof(T) + 3) / 4;
    uint32_t w[count];
};

template <class T, int N> __device__ static inline struct words<T, N> fetch(const T *p) {
    struct words<T, N> x;
    constexpr int count = words<T, N>::count;
    if constexpr (N == 1 && sizeof(T) == 2)
        x.w[0] = __ldg((const unsigned short *)p);
    else if constexpr (count == 1)
        x.w[0] = __ldg((const uint32_t *)p);
    else if constexpr (count == 2) {
        uint2 v = __ldg((const uint2 *)p);
        x.w[0] = v.x, x.w[1] = v.y;
    } else
#pragma unroll
        for (int i = 0; i < count; i += 4) {
            uint4 v = __ldg((const uint4 *)p + i / 4);
            x.w[i] = v.x, x.w[i + 1] = v.y, x.w[i + 2] = v.z, x.w[i + 3] = v.w;
        }
    return x;
}

template <class T, int N>
__device__ static inline void unpack(float (&v)[N], const struct words<T, N> &x)
{
#pragma unroll
    for (int i = 0; i < words<T, N>::count; i++)
        if constexpr (sizeof(T) == 4)
            v[i] = __uint_as_float(x.w[i]);
        else {
            float2 pair = unpack_pair(x.w[i], T());
            v[2 * i] = pair.x;
            if constexpr (N > 1)
                v[2 * i + 1] = pair.y;
        }
}

template <class T, int N> __device__ static inline void load(float (&v)[N], const T *p)
{
    unpack<T, N>(v, fetch<T, N>(p));
}

template <class T, int N> __device__ static inline void store(T *p, const float (&v)[N])
{
    constexpr int count = words<T, N>::count;
    if constexpr (N == 1)
        *p = from_float<T>(v[0]);
    else {
        uint32_t w[count];
#pragma unroll
        for (int i = 0; i < count; i++)
            if constexpr (sizeof(T) == 4)
                w[i] = __float_as_uint(v[i]);
            else
                w[i] = pack_pair(v[2 * i], v[2 * i + 1], T());
        if constexpr (count == 2)
            *(uint2 *)p = make_uint2(w[0], w[1]);
        else
#pragma unroll
            for (int i = 0; i < count; i += 4)
                ((uint4 *)p)[i / 4] = make_uint4(w[i], w[i + 1], w[i + 2], w[i + 3]);
    }
}

/* v, added to what is there when `add`. */
template <class T, int N> __device__ static inline void store_or_add(T *p, const float (&v)[N], bool add)
{
    float sum[N];
    if (!add) {
        store<T, N>(p, v);
        return;
    }
    load<T, N>(sum, p);
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] += v[i];
    store<T, N>(p, sum);
}

/* The zeros behind the last row of a dense tensor (pass_pad). */
static inline void clear_rows_behind(const struct tensor *t, const struct cuda_call *c)
{
    int64_t elements = tensor_elements(t), zeros = tensor_room(t) - elements;
    if (zeros > 0)
        cudaMemsetAsync((char *)t->data + dtype_bytes(t->dtype, elements), 0, (size_t)dtype_bytes(t->dtype, zeros),
                        c->stream);
}

/* Whether a tensor (which may be absent) can be accessed in aligned packs of 8 along its rows. */
static inline bool packs_fit(const struct tensor *t)
{
    return (uintptr_t)t->data % 16 == 0 && (!t->ndim || t->shape[t->ndim - 1] % 8 == 0);
}

#endif
