/* attention_wide.cuh: what the kernels for heads of 128 elements (attention_wide_sm90.cu) share: tiles that the TMA brings, and products
 * with results of 128 columns. A tile is (ROWS, 128) in two panels of 64 columns, as attention_tile.cuh has them; rows are in their
 * own order. */
#ifndef CUDA_ATTENTION_WIDE_CUH
#define CUDA_ATTENTION_WIDE_CUH

#include "cuda/attention/attention_wgmma.cuh"
#include "cuda/kernels/tma.cuh"

enum {
    WIDE = 128,      /* elements of a head; rows of a block */
    WIDE_GROUPS = 2, /* warpgroups of a block that multiply, 64 rows each; one more loads */
    WIDE_THREADS = 128 * (WIDE_GROUPS + 1),
    WIDE_BYTES = WIDE * WIDE * 2, /* of a tile of 128 rows */
    PANEL_BYTES = WIDE_BYTES / 2, /* of a panel of it, as of a tile of 64 rows */
};

/* A kernel's parameter. Maps are made on the host; a box has 64 rows. */
struct wide_params {
    CUtensorMap qkv, dout;
    struct attention_params p;
};

__device__ static inline int width_of_rows(const struct attention_params &p)
{
    return (p.heads + 2 * p.kv_heads) * WIDE;
}

/* In a row of qkv: where keys of query head `head` begin. Their values are kv_heads heads on. */
__device__ static inline int keys_column(const struct attention_params &p, int head)
{
    return (p.heads + head / (p.heads / p.kv_heads)) * WIDE;
}

/* ---- tiles ---- */

/* Where this thread's block has its tiles, for pointers too. */
struct wide_shared {
    char *base;
    uint32_t start;
    __device__ explicit wide_shared(char *shared)
    {
        start = (shared_address(shared) + 1023) / 1024 * 1024;
        base = shared + (start - shared_address(shared));
    }
    __device__ char *at(uint32_t address) const
    {
        return base + (address - start);
    }
};

/* Starts loading a tile from (row, column) on; `full` counts its bytes. Rows past the tensor's are 0. One thread. */
template <int ROWS>
__device__ static inline void wide_load(uint32_t to, const CUtensorMap *map, int column, int row, uint32_t full)
{
    constexpr int BOXES = ROWS / 64; /* of a panel */
#pragma unroll
    for (int i = 0; i < 2 * BOXES; i++)
        box_load(to + (uint32_t)(i * 64 * 128), map, column + i / BOXES * 64, row + i % BOXES * 64, full);
}

/* Rows from `from` on of a tile become 0, since weights of 0 hide no infinity. A group's 128 threads call it, and wide_cleared before
 * their next products. */
template <int ROWS> __device__ static inline void wide_clear_rows(char *tile, int from)
{
    for (int i = from * 8 + (int)threadIdx.x % 128; i < ROWS * 8; i += 128) {
        *(int4 *)(tile + i * 16) = make_int4(0, 0, 0, 0);
        *(int4 *)(tile + ROWS * 128 + i * 16) = make_int4(0, 0, 0, 0);
    }
}

__device__ static inline void wide_cleared(int group)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    group_sync(group);
}

/* What was done to barriers is seen by the TMA; all threads of the block call it. */
__device__ static inline void barriers_made(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}

/* The tiles of `rows` rows that some of the rows see whose first and last see these. */
__device__ static inline struct span tiles_seen(struct span first, struct span last, int rows)
{
    return {first.from / rows, (last.end + rows - 1) / rows};
}

/* -inf for columns that row 0 and row 8 of a lane's scores do not see: those of row 0 and the 8th after it. */
template <int M>
__device__ static inline void wide_hide(float (&s)[M][4], struct span row, struct span eighth, int at, int c)
{
#pragma unroll
    for (int j = 0; j < M; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int column = at + 8 * j + 2 * c + k % 2;
            struct span seen = k / 2 ? eighth : row;
            s[j][k] = (column < seen.from) | (column >= seen.end) ? -INFINITY : s[j][k];
        }
}

/* ---- products ---- */

/* A right factor of ROWS rows whose columns are neighbours in memory, from a row on: its second 64 columns are a panel on. */
template <int ROWS> __device__ static inline uint64_t wide_descriptor(uint32_t tile, int row)
{
    uint32_t low = (tile >> 4 | (ROWS * 128 >> 4) << 16) + (uint32_t)row * 128 / 16, high = 1024 >> 4 | 1 << 30;
    return (uint64_t)high << 32 | low;
}

#define OUT_64(MODE, d) OUT_16(MODE, d, 0), OUT_16(MODE, d, 4), OUT_16(MODE, d, 8), OUT_16(MODE, d, 12)
#define NAMES_64                                                                                                       \
    NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "       \
             "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* As WGMMA_OF's, with 128 columns. */
#define WIDE_WGMMA_OF(NAME, TYPE)                                                                                      \
    __device__ static inline void wide_first(float(&d)[16][4], uint64_t a, uint64_t b, TYPE)                           \
    {                                                                                                                  \
        asm volatile(WGMMA("128", NAME) " {" NAMES_64 "}, %64, %65, 0, 1, 1, 0, 0;"                                    \
                     : OUT_64(SET, d)                                                                                  \
                     : "l"(a), "l"(b));                                                                                \
    }                                                                                                                  \
    __device__ static inline void wide_next(float(&d)[16][4], uint64_t a, uint64_t b, TYPE)                            \
    {                                                                                                                  \
        asm volatile(WGMMA("128", NAME) " {" NAMES_64 "}, %64, %65, 1, 1, 1, 0, 0;"                                    \
                     : OUT_64(ADD, d)                                                                                  \
                     : "l"(a), "l"(b));                                                                                \
    }                                                                                                                  \
    __device__ static inline void wide_add(float(&d)[16][4], const uint32_t(&a)[4], uint64_t b, TYPE)                  \
    {                                                                                                                  \
        asm volatile(WGMMA("128", NAME) " {" NAMES_64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"                      \
                     : OUT_64(ADD, d)                                                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }
WIDE_WGMMA_OF("bf16", __nv_bfloat16)
WIDE_WGMMA_OF("f16", __half)

/* s = A B^T of tile a's 64 rows from row0 on and tile b, both of 128 rows. Runs on until wait(). */
template <class T> __device__ static inline void wide_scores(float (&s)[16][4], uint32_t a, int row0, uint32_t b)
{
    a += (uint32_t)(row0 * 128);
    wgmma_engine<T>::begin();
    wide_first(s, descriptor(a, 0), descriptor(b, 0), T());
#pragma unroll
    for (int k = 1; k < WIDE / 16; k++) {
        int at = k / 4 * PANEL_BYTES + k % 4 * 32;
        wide_next(s, descriptor(a, at), descriptor(b, at), T());
    }
    wgmma_engine<T>::commit();
}

/* 64 rows, 16 K columns as a left factor. */
template <int K> struct wide_fragments {
    uint32_t r[K][4];
};

template <class T, int K>
__device__ static inline void wide_make(struct wide_fragments<K> &f, const float (&s)[2 * K][4])
{
#pragma unroll
    for (int j = 0; j < 2 * K; j++) {
        f.r[j / 2][j % 2 * 2] = pack_pair(s[j][0], s[j][1], T());
        f.r[j / 2][j % 2 * 2 + 1] = pack_pair(s[j][2], s[j][3], T());
    }
}

/* x += F B, B a tile of as many rows as F has columns. Runs on until wait(). */
template <class T, int K>
__device__ static inline void wide_add_product(float (&x)[16][4], const struct wide_fragments<K> &f, uint32_t b)
{
    wgmma_engine<T>::begin();
#pragma unroll
    for (int k = 0; k < K; k++)
        wide_add(x, f.r[k], wide_descriptor<16 * K>(b, 16 * k), T());
    wgmma_engine<T>::commit();
}

#endif
