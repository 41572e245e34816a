/* attention_wgmma.cuh: the engine (attention_engine.cuh) of Hopper's wgmma, for 16-bit types; sm_90a only. Four warps make
 * 64 rows of a product; right factors, and the left factors of scores, are read from shared memory by the tensor cores
 * themselves. */
#ifndef CUDA_ATTENTION_WGMMA_CUH
#define CUDA_ATTENTION_WGMMA_CUH

#include "cuda/attention/attention_engine.cuh"
#include "cuda/attention/attention_half.cuh"

/* What wgmma has to know of a matrix in shared memory: its address, and 1024 bytes between groups of 8 rows of 128
 * bytes; swizzled by 128 bytes. For a right factor whose columns are neighbours in memory, N <= 64, the same holds. */
__device__ static inline uint64_t descriptor(uint32_t tile, int offset)
{
    uint32_t low = (tile >> 4 | 1 << 16) + (uint32_t)offset / 16, high = 1024 >> 4 | 1 << 30;
    return (uint64_t)high << 32 | low;
}

#define OUT_4(MODE, d, j) MODE(d[j][0]), MODE(d[j][1]), MODE(d[j][2]), MODE(d[j][3])
#define SET(x) "=f"(x)
#define ADD(x) "+f"(x)
#define OUT_16(MODE, d, j) OUT_4(MODE, d, j), OUT_4(MODE, d, j + 1), OUT_4(MODE, d, j + 2), OUT_4(MODE, d, j + 3)
#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA(N, TYPE) "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE

/* Both factors in shared memory, their depth along rows; the first product of a sum sets d. Then: the left factor in
 * registers, the depth of the right one along columns; adds to d from its n-tile j on. */
#define WGMMA_OF(NAME, TYPE)                                                                                           \
    __device__ static inline void wgmma_first(float(&d)[8][4], uint64_t a, uint64_t b, TYPE)                           \
    {                                                                                                                  \
        asm volatile(WGMMA("64", NAME) " {" NAMES_32 "}, %32, %33, 0, 1, 1, 0, 0;"                                     \
                     : OUT_16(SET, d, 0), OUT_16(SET, d, 4)                                                            \
                     : "l"(a), "l"(b));                                                                                \
    }                                                                                                                  \
    __device__ static inline void wgmma_next(float(&d)[8][4], uint64_t a, uint64_t b, TYPE)                            \
    {                                                                                                                  \
        asm volatile(WGMMA("64", NAME) " {" NAMES_32 "}, %32, %33, 1, 1, 1, 0, 0;"                                     \
                     : OUT_16(ADD, d, 0), OUT_16(ADD, d, 4)                                                            \
                     : "l"(a), "l"(b));                                                                                \
    }                                                                                                                  \
    __device__ static inline void wgmma_left_first(float(&d)[8][4], const uint32_t(&a)[4], uint64_t b, TYPE)           \
    {                                                                                                                  \
        asm volatile(WGMMA("64", NAME) " {" NAMES_32 "}, {%32, %33, %34, %35}, %36, 0, 1, 1, 0;"                       \
                     : OUT_16(SET, d, 0), OUT_16(SET, d, 4)                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }                                                                                                                  \
    __device__ static inline void wgmma_left_next(float(&d)[8][4], const uint32_t(&a)[4], uint64_t b, TYPE)            \
    {                                                                                                                  \
        asm volatile(WGMMA("64", NAME) " {" NAMES_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"                       \
                     : OUT_16(ADD, d, 0), OUT_16(ADD, d, 4)                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }                                                                                                                  \
    __device__ static inline void wgmma_set_64(float(&d)[8][4], const uint32_t(&a)[4], uint64_t b, TYPE)               \
    {                                                                                                                  \
        asm volatile(WGMMA("64", NAME) " {" NAMES_32 "}, {%32, %33, %34, %35}, %36, 0, 1, 1, 1;"                       \
                     : OUT_16(SET, d, 0), OUT_16(SET, d, 4)                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }                                                                                                                  \
    template <int J, int M>                                                                                            \
    __device__ static inline void wgmma_add_64(float(&d)[M][4], const uint32_t(&a)[4], uint64_t b, TYPE)               \
    {                                                                                                                  \
        asm volatile(WGMMA("64", NAME) " {" NAMES_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                       \
                     : OUT_16(ADD, d, J), OUT_16(ADD, d, J + 4)                                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }                                                                                                                  \
    template <int J, int M>                                                                                            \
    __device__ static inline void wgmma_add_32(float(&d)[M][4], const uint32_t(&a)[4], uint64_t b, TYPE)               \
    {                                                                                                                  \
        asm volatile(WGMMA("32", NAME) " {" NAMES_16 "}, {%16, %17, %18, %19}, %20, 1, 1, 1, 1;"                       \
                     : OUT_16(ADD, d, J)                                                                               \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }
WGMMA_OF("bf16", __nv_bfloat16)
WGMMA_OF("f16", __half)

template <class T> struct wgmma_engine {
    using type = T;
    using fragments = struct half_fragments;
    static constexpr int ROW_UNIT = 64;
    static constexpr bool KEEPS_MASK = true, LIMITS = false, WINDOWS = true;

    /* What cp.async wrote is for the tensor cores to read. */
    __device__ static inline void arrived(void)
    {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __device__ static inline int column(int j)
    {
        return 8 * j + (int)threadIdx.x % 4 * 2;
    }

    __device__ static inline void begin(void)
    {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    }
    __device__ static inline void commit(void)
    {
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }

    /* Until at most N products are under way; x is among those that are done, and is not to be looked at before. */
    template <int N, int M> __device__ static inline void wait(float (&x)[M][4])
    {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#pragma unroll
        for (int j = 0; j < M; j++)
            asm volatile("" : OUT_4(ADD, x, j)::"memory");
    }

    template <int ROWS, int DP> __device__ static inline void scores(float (&s)[8][4], uint32_t a, int row0, uint32_t b)
    {
        a += (uint32_t)(row0 / 64 * 64 * 128);
        begin();
        wgmma_first(s, descriptor(a, 0), descriptor(b, 0), T());
#pragma unroll
        for (int k = 1; k < DP / 16; k++)
            wgmma_next(s, descriptor(a, k / 4 * ROWS * 128 + k % 4 * 32),
                       descriptor(b, k / 4 * TILE * 128 + k % 4 * 32), T());
        commit();
    }

    /* The left factor in registers, for heads of 64. */
    __device__ static inline void scores_of(float (&s)[8][4], const fragments &a, uint32_t b)
    {
        begin();
        wgmma_left_first(s, a.r[0], descriptor(b, 0), T());
#pragma unroll
        for (int k = 1; k < 4; k++)
            wgmma_left_next(s, a.r[k], descriptor(b, k * 32), T());
        commit();
    }

    /* As add_product, but sets x. */
    __device__ static inline void product(float (&x)[8][4], const fragments &f, uint32_t b)
    {
        begin();
        wgmma_set_64(x, f.r[0], descriptor(b, 0), T());
#pragma unroll
        for (int k = 1; k < 4; k++)
            wgmma_add_64<0>(x, f.r[k], descriptor(b, k * 16 * 128), T());
        commit();
    }

    template <int DP> __device__ static inline void add_product(float (&x)[DP / 8][4], const fragments &f, uint32_t b)
    {
        begin();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if constexpr (DP >= 64)
                wgmma_add_64<0>(x, f.r[k], descriptor(b, k * 16 * 128), T());
            if constexpr (DP == 128)
                wgmma_add_64<8>(x, f.r[k], descriptor(b, k * 16 * 128 + TILE * 128), T());
            if constexpr (DP % 64)
                wgmma_add_32<DP / 64 * 8>(x, f.r[k], descriptor(b, k * 16 * 128 + DP / 64 * TILE * 128), T());
        }
        commit();
    }

    __device__ static inline void make(fragments &f, const float (&s)[8][4])
    {
        half_make<T>(f, s);
    }
    __device__ static inline void make_masked(fragments &f, const float (&s)[8][4], const uint32_t (&flags)[2][4])
    {
        half_make_masked<T>(f, s, flags);
    }
};

#endif
