/* linear_sm90.cuh: what linear_sm90.cu is made of: the shared memory of a block, the order of its tiles, copies by the TMA, and
 * products of a warpgroup. */
#ifndef CUDA_KERNELS_LINEAR_SM90_CUH
#define CUDA_KERNELS_LINEAR_SM90_CUH

#include "cuda/kernels/tma.cuh"

#include <type_traits>

enum {
    ROWS = 160,    /* of a tile */
    COLUMNS = 128, /* of a tile: two times 64 */
    DEPTH = 64,    /* terms of the sums in a stage: 128 bytes, the width of the swizzle */
    STAGES = 4,
    CLUSTER = 2, /* blocks that share the rows that they load */
    GROUPS = 2,  /* warpgroups that multiply */
    THREADS = 128 * (1 + GROUPS),
    BOX = 64, /* columns in a box of the TMA, where a row of a box has 128 bytes */
    HALVES = COLUMNS / BOX,
    W_BYTES = COLUMNS * DEPTH * 2,
    X_BYTES = ROWS * DEPTH * 2,
    STAGE_BYTES = W_BYTES + X_BYTES,
    HALF_BYTES = ROWS * BOX * 2, /* of a tile's result */
    SHARED_BYTES = STAGES * STAGE_BYTES + GROUPS * HALVES * HALF_BYTES + 1024 + 256,
};

/* A kernel's parameter. Maps are made on the host (map_all) and hold the tensors' addresses, which are the plan's. */
struct params {
    CUtensorMap x, w, slope, y; /* going back: dy, W, slope, du */
    const void *b;              /* (columns), of T, or F32 where wide_b; NULL: none */
    float *sums;                /* (row_tiles, columns), of du over a tile's rows, in the workspace; NULL: not wanted */
    int64_t columns;            /* of y */
    int depth_blocks, row_tiles; /* of DEPTH terms, of ROWS rows */
    int column_tiles;            /* of CLUSTER * COLUMNS columns */
    bool keep_slope, wide_b;

    /* Of experts, whose rows of x and y are those from offsets[e] to before offsets[e + 1]. */
    const int32_t *offsets; /* (experts + 1) */
    int experts, w_rows;    /* w_rows: of an expert's W */
    void *out;              /* y's data */
};

/* Where things are in shared memory, of which a block has SHARED_BYTES. Behind `out` are barriers, 8 bytes each: one for each stage
 * (full, empty) or for each group. */
struct places {
    uint32_t stages, out, full, empty, turn, slope_here, out_free;
};

__device__ static inline struct places places_of(const uint8_t *shared)
{
    struct places p;
    p.stages = (shared_address(shared) + 1023) / 1024 * 1024;
    p.out = p.stages + STAGES * STAGE_BYTES;
    p.full = p.out + GROUPS * HALVES * HALF_BYTES; /* a stage has arrived, */
    p.empty = p.full + 8 * STAGES;                 /* has been read; */
    p.turn = p.empty + 8 * STAGES;                 /* a group may multiply; */
    p.slope_here = p.turn + 8 * GROUPS;            /* the slope of its tile has arrived; */
    p.out_free = p.slope_here + 8 * GROUPS;        /* its tile has left `out` */
    return p;
}

/* The tiles of a block, in the order in which its groups take them. Each of its threads goes through them by itself. */
struct tiles {
    int next, step, end;
    int row, column; /* where the tile begins in y */
    /* Of experts: this one, how many tiles of rows those before it have, where its W begins, behind its last row. */
    int expert, before, w_row, limit;
};

__device__ static inline struct tiles tiles_of(const struct params &p)
{
    return {(int)blockIdx.x / CLUSTER, (int)gridDim.x / CLUSTER, p.row_tiles * p.column_tiles};
}

/* Goes on to the expert that has the row tile; false: there is none. */
__device__ static inline bool find_expert(struct tiles *t, const struct params &p, int row_tile)
{
    for (; t->expert < p.experts; t->expert++) {
        int first = p.offsets[t->expert], end = p.offsets[t->expert + 1], tiles = (end - first + ROWS - 1) / ROWS;
        if (row_tile < t->before + tiles) {
            t->row = first + (row_tile - t->before) * ROWS;
            t->w_row = t->expert * p.w_rows;
            t->limit = end;
            return true;
        }
        t->before += tiles;
    }
    return false;
}

template <bool EXPERTS> __device__ static inline bool tiles_next(struct tiles *t, const struct params &p)
{
    int row_tile = t->next / p.column_tiles;
    if (EXPERTS ? !find_expert(t, p, row_tile) : t->next >= t->end)
        return false;
    if (!EXPERTS)
        t->row = row_tile * ROWS;
    t->column = (t->next % p.column_tiles * CLUSTER + (int)blockIdx.x % CLUSTER) * COLUMNS;
    t->next += t->step;
    return true;
}

/* ---- barriers and copies ---- */

/* The same barrier in block `rank` of the cluster. Nothing was written that the others should see, so no fence over the
 * whole GPU is asked for (.release.cluster is one, and halves the rate). */
__device__ static inline void barrier_arrive_at(uint32_t barrier, uint32_t rank)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}\n" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

/* Into every block of the cluster, where it counts on the same barrier. */
__device__ static inline void box_load_for_all(uint32_t to, const CUtensorMap *map, int column, int row,
                                               uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier), "h"((uint16_t)((1 << CLUSTER) - 1))
                 : "memory");
}

/* ---- products ---- */

/* A factor in shared memory as the products read it, in rows of 128 swizzled bytes, eight rows 1024 bytes from the next
 * eight. As it lies: a row has 64 terms, and the next 16 terms are 32 bytes on. Turned: a row has 64 columns of one term,
 * and the next 16 terms are 16 rows on. */
template <bool TURNED> __device__ static inline uint64_t factor(uint32_t address, int step)
{
    uint32_t at = address + step * (TURNED ? 16 * 128 : 32);
    return (uint64_t)(at >> 4 & 0x3FFF) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* d (64,160), 80 numbers a thread, += or = a (64,16) b (160,16)^T */
#define MULTIPLY(type, turned)                                                                                         \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred add;\n"                                                                                   \
                 "setp.ne.b32 add, %82, 0;\n"                                                                          \
                 "wgmma.mma_async.sync.aligned.m64n160k16.f32." type "." type "\n{"                                    \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                    \
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                    \
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79}, "                   \
                 "%80, %81, add, 1, 1, " turned ", 0;\n"                                                               \
                 "}\n"                                                                                                 \
                 : D16(0), D16(16), D16(32), D16(48), D16(64)                                                          \
                 : "l"(a), "l"(b), "r"((int)add))

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)

template <class T, bool TURNED>
__device__ static inline void multiply(float (&d)[ROWS / 2], uint64_t a, uint64_t b, bool add)
{
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
        if constexpr (TURNED)
            MULTIPLY("bf16", "1");
        else
            MULTIPLY("bf16", "0");
    else if constexpr (TURNED)
        MULTIPLY("f16", "1");
    else
        MULTIPLY("f16", "0");
}

/* Around the products of a step: all threads of the warpgroup call each of these. `d` is not to be looked at before products_wait has
 * left its group done. */
__device__ static inline void products_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static inline void products_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT> __device__ static inline void products_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#endif
