/* many.cuh: one launch over many tensors of all sizes. A row for each of them travels in a kernel parameter (32,764
 * bytes at most: CUDA 12.1, compute capability 7.0; what does not fit takes another launch). The work is cut into chunks
 * of equal size, numbered through all tensors; a block finds the row of a chunk by search. Which block does a chunk has
 * no effect on results. */
#ifndef CUDA_MANY_CUH
#define CUDA_MANY_CUH

#include "cuda/kernel.cuh"

enum { PARAMETER_BYTES = 32764 };

/* Row must have a member `int first`: the number of its first chunk. */
template <class Head, class Row> struct many {
    static constexpr int max_rows = (PARAMETER_BYTES - (int)sizeof(Head) - 16) / (int)sizeof(Row);
    Head head;
    int n, chunks;
    Row row[max_rows];
};

/* Counts row[n] in, which the caller has filled but for its `first`; a row with no chunks is dropped. Returns true when
 * the table must be launched before another row is filled. */
template <class Table> static inline bool add_row(Table *t, int64_t chunks)
{
    t->row[t->n].first = t->chunks;
    t->chunks += (int)chunks;
    t->n += chunks > 0;
    return t->n == Table::max_rows;
}

/* The row that a chunk lies in. */
template <class Table> __device__ static inline int find_row(const Table &t, int chunk)
{
    int low = 0, high = t.n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (t.row[middle].first <= chunk)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Blocks of a grid in which every block does several chunks: as many as run at the same time. */
static inline unsigned resident_blocks(int chunks, int per_multiprocessor, const struct cuda_call *c)
{
    int most = c->sms * per_multiprocessor;
    return (unsigned)(chunks < most ? chunks : most);
}

/* N neighbouring elements of T at once, as floats. */
template <class T, int N> __device__ static inline void load_floats(float (&v)[N], const T *p)
{
    pack<T, N> x = *(const pack<T, N> *)p;
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = to_float(x.v[i]);
}

template <class T, int N> __device__ static inline void store_floats(T *p, const float (&v)[N])
{
    pack<T, N> x;
#pragma unroll
    for (int i = 0; i < N; i++)
        x.v[i] = from_float<T>(v[i]);
    *(pack<T, N> *)p = x;
}

/* The same for a tensor whose type is known only when the kernel runs; base NULL: nothing. */
template <int N> __device__ static inline void store_as(uint8_t dtype, void *base, int64_t i, const float (&v)[N])
{
    if (!base)
        return;
    WITH_FLOAT_TYPE(dtype, T, store_floats((T *)base + i, v));
}

/* Whether a tensor (or none) can be read and written `width` elements at once. */
static inline bool fits_packs(const struct tensor *t, int width)
{
    return (uintptr_t)t->data % (size_t)(t->data ? dtype_bytes(t->dtype, width) : 1) == 0;
}

#endif
