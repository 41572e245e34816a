/* many.cuh: one launch over many tensors of all sizes. A row for each of them travels in a kernel parameter (32,764
 * bytes at most: CUDA 12.1, compute capability 7.0; what does not fit takes another launch). The work is cut into chunks
 * of equal size, numbered through all tensors; a block finds the row of a chunk by search. Which block does a chunk has
 * no effect on results. */
#ifndef CUDA_MANY_CUH
#define CUDA_MANY_CUH

#include "cuda/kernels/kernel.cuh"

enum { PARAMETER_BYTES = 32764 };

/* Row is what the kernel knows of one tensor. */
template <class Head, class Row> struct many {
    static constexpr int max_rows = (PARAMETER_BYTES - (int)sizeof(Head) - 16) / (int)(sizeof(Row) + sizeof(int));
    Head head;
    int n, chunks;
    int first[max_rows]; /* the number of the row's first chunk */
    Row row[max_rows];
};

/* Does all n tensors with as few launches as there is room for: describe(row, a[i]) fills a row but for a tensor of 0
 * chunks, and gives their number; launch(table) enqueues the kernel. The caller has filled the table's head. */
template <class Table, class Args, class Describe, class Launch>
static inline void launch_many(Table *t, const Args *const *a, int n, Describe describe, Launch launch)
{
    static_assert(sizeof(Table) <= PARAMETER_BYTES, "a table is a kernel's parameter");
    t->n = t->chunks = 0;
    for (int i = 0; i < n; i++) {
        int64_t chunks = describe(&t->row[t->n], a[i]);
        t->first[t->n] = t->chunks;
        t->chunks += (int)chunks;
        t->n += chunks > 0;
        if (t->n == 0 || (t->n < Table::max_rows && i < n - 1))
            continue;
        launch(*t);
        t->n = t->chunks = 0;
    }
}

static inline int64_t chunks_of(int64_t elements, int64_t chunk)
{
    return (elements + chunk - 1) / chunk;
}

/* The row that a chunk lies in. */
template <class Table> __device__ static inline int find_row(const Table &t, int chunk)
{
    int low = 0, high = t.n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (t.first[middle] <= chunk)
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

/* The same for a tensor whose type (enum dtype, a float) is known only when the kernel runs; base NULL: nothing. */
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
