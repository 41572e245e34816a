/* On Hopper, products with everything behind them in one kernel, for 16-bit x, dy and W (O,I):
 *     forward    u = x W^T + b, y = act(u); b is added in F32, u written where it is kept
 *     backward   du = (dy W) * act'(u), for the u of the layer before; dbias = sum of du over rows
 * Bound by flops: the epilogue of one tile runs under the products of the next.
 *
 * A cluster is two blocks; together they own 128 rows by 256 columns of the result, a block 64 of the rows. Columns of W
 * are loaded once for both, half by each: the L2 cache could not feed more. In a block one warp loads (TMA, four stages
 * of 64 terms of the sums), and two warpgroups take turns: while one multiplies its tile, the other writes the tile
 * before. Which tiles a cluster takes depends on shapes and on the number of multiprocessors, their sums do not:
 * ascending, 16 terms at a time. dbias: each warp adds up its 16 rows (a tree of pairs), then columns.cuh adds those. */
#include "cuda/act.cuh"
#include "cuda/barrier.cuh"
#include "cuda/columns.cuh"
#include "cuda/linear_sm90.h"
#include "cuda/vector.cuh"

#include <cuda.h>
#include <type_traits>

enum {
    ROWS = 64,     /* of a tile of one block */
    COLUMNS = 256, /* of a tile */
    DEPTH = 64,    /* terms of the sums in a stage: 128 bytes, the width of the swizzle */
    STAGES = 4,
    CLUSTER = 2, /* blocks that share the columns of W that they load */
    GROUPS = 2,  /* warpgroups that multiply */
    THREADS = 128 * (1 + GROUPS),
    BOX = 64, /* columns of a box of the TMA, where a row of a box has 128 bytes */
    X_BYTES = ROWS * DEPTH * 2,
    W_BYTES = COLUMNS * DEPTH * 2,
    STAGE_BYTES = X_BYTES + W_BYTES,
    OUT_ROWS = 16, /* a warp writes its rows by itself, 64 columns at a time */
    BOXES = COLUMNS / BOX,
    BOX_BYTES = OUT_ROWS * BOX * 2,
    OUT_BYTES = BOXES * BOX_BYTES, /* of a warp */
    SHARED_BYTES = STAGES * STAGE_BYTES + 4 * GROUPS * OUT_BYTES + 1024 + 256,
};

struct params {
    CUtensorMap x, w, u, y; /* going back: dy, W, u, du */
    const float *b;         /* NULL: none */
    float *sums;            /* (rows / 16, columns), NULL: not wanted */
    int64_t rows;
    int64_t columns; /* of y */
    int depth_blocks, row_tiles, column_tiles;
    bool keep_u;
};

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

__device__ static inline void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ static inline void load_tile(uint32_t to, const CUtensorMap *map, int column, int64_t row, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"((int)row), "r"(barrier)
                 : "memory");
}

/* Into every block of the cluster, where it counts on the same barrier. */
__device__ static inline void load_tile_for_all(uint32_t to, const CUtensorMap *map, int column, int64_t row,
                                                uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(column), "r"((int)row), "r"(barrier), "h"((uint16_t)((1 << CLUSTER) - 1))
                 : "memory");
}

__device__ static inline void store_tile(const CUtensorMap *map, uint32_t from, int64_t column, int64_t row)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"((int)column), "r"((int)row), "r"(from)
                 : "memory");
}

/* ---- products ---- */

/* A factor in shared memory as the products read it, in rows of 128 swizzled bytes, eight rows 1024 bytes from the next
 * eight. As it lies: a row has 64 terms, and the next 16 terms are 32 bytes on. Turned: a row has 64 columns of one term,
 * the next 64 columns lie behind all 64 terms, and the next 16 terms are 16 rows on. */
template <bool TURNED> __device__ static inline uint64_t factor(uint32_t address, int step)
{
    uint32_t at = address + step * (TURNED ? 16 * 128 : 32), across = TURNED ? DEPTH * 128 : 16;
    return (uint64_t)(at >> 4 & 0x3FFF) | (uint64_t)(across >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* d (64,256), 128 numbers a thread, += or = a (64,16) b (256,16)^T */
#define MULTIPLY(type, turned)                                                                                         \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred add;\n"                                                                                   \
                 "setp.ne.b32 add, %130, 0;\n"                                                                         \
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type "\n{"                                    \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                    \
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                    \
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                    \
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                    \
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "        \
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "   \
                 "%128, %129, add, 1, 1, 0, " turned ";\n"                                                             \
                 "}\n"                                                                                                 \
                 : D16(0), D16(16), D16(32), D16(48), D16(64), D16(80), D16(96), D16(112)                              \
                 : "l"(a), "l"(b), "r"((int)add))

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)

template <class T, bool TURNED>
__device__ static inline void multiply(float (&d)[128], uint64_t a, uint64_t b, bool add)
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

/* ---- out ---- */

/* A warp writes its 16 rows of a tile in boxes of 64 columns, swizzled as the TMA has them; its part of shared memory
 * holds four of them. The address of 8 neighbouring columns in a box. */
__device__ static inline uint32_t box_address(uint32_t box, int row, int eighth)
{
    return box + row * 128 + (eighth ^ (row % 8)) * 16;
}

/* Columns 16 j to 16 j + 15 of a box, 8 numbers a thread as the products leave them. */
template <class T> __device__ static inline void put_columns(uint32_t box, const float *d, int j, int lane)
{
    uint32_t a = pack_pair(d[0], d[1], T()), b = pack_pair(d[2], d[3], T());
    uint32_t c = pack_pair(d[4], d[5], T()), e = pack_pair(d[6], d[7], T());
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     box_address(box, lane % 16, 2 * j + lane / 16)),
                 "r"(a), "r"(b), "r"(c), "r"(e)
                 : "memory");
}

/* Multiplies them by the slope of the activation at u, which lies in the box. */
template <class T, int A> __device__ static inline void times_slope(uint32_t box, float *d, int j, int lane)
{
    uint32_t u[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(u[0]), "=r"(u[1]), "=r"(u[2]), "=r"(u[3])
                 : "r"(box_address(box, lane % 16, 2 * j + lane / 16))
                 : "memory");
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float2 v = unpack_pair(u[e], T());
        d[2 * e] *= act_slope<A, T>(v.x);
        d[2 * e + 1] *= act_slope<A, T>(v.y);
    }
}

/* Until at most LEFT of the warp's boxes have still to be read out of shared memory. */
template <int LEFT> __device__ static inline void sent(int lane)
{
    if (lane == 0)
        asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
    __syncwarp();
}

__device__ static inline void send(const CUtensorMap *map, uint32_t box, int64_t column, int64_t row, int lane)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) {
        store_tile(map, box, column, row);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
}

/* 64 columns of a tile to the next place for a box. */
template <class T>
__device__ static inline void write_box(const CUtensorMap *map, uint32_t box, const float *d, int64_t column,
                                        int64_t row, int lane)
{
    sent<BOXES - 1>(lane);
#pragma unroll
    for (int j = 0; j < BOX / 16; j++)
        put_columns<T>(box, d + 8 * j, j, lane);
    send(map, box, column, row, lane);
}

/* To the 32 numbers of 64 columns. */
__device__ static inline void add_bias(float *d, const struct params &p, int64_t column, int lane)
{
#pragma unroll
    for (int j = 0; j < BOX / 8; j++) {
        int64_t o = column + 8 * j + lane % 4 * 2;
        float2 b = o < p.columns ? __ldg((const float2 *)(p.b + o)) : make_float2(0, 0);
        d[4 * j] += b.x;
        d[4 * j + 1] += b.y;
        d[4 * j + 2] += b.x;
        d[4 * j + 3] += b.y;
    }
}

/* A lane gives half of its sums to a partner, and adds the partner's to the half that it keeps. */
template <int HALF> __device__ static inline void halve(float (&s)[16], int lane)
{
    bool upper = lane & 2 * HALF;
#pragma unroll
    for (int k = 0; k < HALF; k++) {
        float given = upper ? s[k] : s[k + HALF], kept = upper ? s[k + HALF] : s[k];
        s[k] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, 2 * HALF);
    }
}

/* The sums over the warp's rows of 64 columns, of which a thread has 32 numbers. */
__device__ static inline void add_rows(const float *d, float *sums, int64_t column, int64_t columns, int lane)
{
    float s[16];
#pragma unroll
    for (int k = 0; k < 16; k++)
        s[k] = d[8 * (k / 4) + k % 4 / 2 * 4 + k % 2] + d[8 * (k / 4) + k % 4 / 2 * 4 + k % 2 + 2];
    halve<8>(s, lane);
    halve<4>(s, lane);
    halve<2>(s, lane);
    int64_t o = column + lane / 8 * 16 + lane / 4 % 2 * 8 + lane % 4 * 2;
    if (o < columns)
        *(float2 *)(sums + o) = make_float2(s[0], s[1]);
}

/* ---- the kernel ---- */

template <class T, int A, bool BACK>
__global__ static void __launch_bounds__(THREADS, 1) linear_kernel(const __grid_constant__ struct params p)
{
    extern __shared__ uint8_t shared[];
    uint32_t stages = (shared_address(shared) + 1023) / 1024 * 1024;
    uint32_t outs = stages + STAGES * STAGE_BYTES;
    uint32_t full = outs + 4 * GROUPS * OUT_BYTES, empty = full + 8 * STAGES, turn = empty + 8 * STAGES;
    uint32_t u_here = turn + 8 * GROUPS;
    int group = threadIdx.x / 128, lane = threadIdx.x % 32;
    uint32_t rank = blockIdx.x % CLUSTER;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, 4 * CLUSTER); /* the warps of one warpgroup in each block */
        }
        for (int g = 0; g < GROUPS; g++)
            barrier_init(turn + 8 * g, 4);
        for (int w = 0; w < 4 * GROUPS; w++)
            barrier_init(u_here + 8 * w, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    cluster_sync();

    int tiles = p.row_tiles * p.column_tiles, step = gridDim.x / CLUSTER;
    if (group == GROUPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 128 * GROUPS) {
            unsigned i = 0;
            for (int t = blockIdx.x / CLUSTER; t < tiles; t += step) {
                int64_t row = (int64_t)(t / p.column_tiles) * (CLUSTER * ROWS) + rank * ROWS;
                int64_t column = (int64_t)(t % p.column_tiles) * COLUMNS;
                for (int k = 0; k < p.depth_blocks; k++, i++) {
                    unsigned s = i % STAGES;
                    uint32_t x = stages + s * STAGE_BYTES, w = x + X_BYTES;
                    barrier_wait(empty + 8 * s, (i / STAGES & 1) ^ 1);
                    barrier_expect(full + 8 * s, STAGE_BYTES);
                    load_tile(x, &p.x, k * DEPTH, row, full + 8 * s);
                    for (int i = 0; i < COLUMNS / BOX / CLUSTER; i++) {
                        int box = rank * (COLUMNS / BOX / CLUSTER) + i;
                        if (BACK)
                            load_tile_for_all(w + box * (W_BYTES * BOX / COLUMNS), &p.w, (int)column + box * BOX,
                                              k * DEPTH, full + 8 * s);
                        else
                            load_tile_for_all(w + box * (W_BYTES * BOX / COLUMNS), &p.w, k * DEPTH, column + box * BOX,
                                              full + 8 * s);
                    }
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int warp = threadIdx.x / 32;
        uint32_t out = outs + warp * OUT_BYTES;
        int seen = 0, mine = 0, place = 0; /* tiles of the block and of this group; where the next box goes */
        if (group == 1 && lane == 0)       /* group 0 begins */
            barrier_arrive(turn);
        for (int t = blockIdx.x / CLUSTER; t < tiles; t += step, seen++) {
            if (seen % GROUPS != group)
                continue;
            float d[128];
            int64_t row = (int64_t)(t / p.column_tiles) * (CLUSTER * ROWS) + rank * ROWS + warp % 4 * OUT_ROWS;
            int64_t column = (int64_t)(t % p.column_tiles) * COLUMNS;
            if (BACK && A != ACT_none) { /* u comes to where du will go */
                sent<0>(lane);
                if (lane == 0) {
                    barrier_expect(u_here + 8 * warp, OUT_BYTES);
                    for (int i = 0; i < BOXES; i++)
                        load_tile(out + i * BOX_BYTES, &p.u, (int)column + i * BOX, row, u_here + 8 * warp);
                }
            }
            /* A barrier tells apart two phases only: nobody may look for a tile's stages before the tile ahead of it
             * has seen all of its own. */
            barrier_wait(turn + 8 * group, mine++ & 1);
            unsigned i = seen * p.depth_blocks;
            for (int k = 0; k < p.depth_blocks; k++, i++) {
                unsigned s = i % STAGES;
                uint32_t x = stages + s * STAGE_BYTES, w = x + X_BYTES;
                barrier_wait(full + 8 * s, i / STAGES & 1);
                products_begin();
#pragma unroll
                for (int e = 0; e < DEPTH / 16; e++)
                    multiply<T, BACK>(d, factor<false>(x, e), factor<BACK>(w, e), k + e > 0);
                products_commit();
                products_wait<1>();
                if (k > 0 && lane < CLUSTER) /* the stage before this one has been read */
                    barrier_arrive_at(empty + 8 * ((i - 1) % STAGES), lane);
            }
            if (lane == 0)
                barrier_arrive(turn + 8 * (1 - group));
            products_wait<0>();
            if (lane < CLUSTER)
                barrier_arrive_at(empty + 8 * ((i - 1) % STAGES), lane);

            if (BACK && A != ACT_none)
                barrier_wait(u_here + 8 * warp, (mine - 1) & 1);
#pragma unroll
            for (int i = 0; i < BOXES; i++) {
                float *v = d + i * (BOX / 2);
                int64_t first = column + i * BOX;
                if (BACK && A != ACT_none) {
#pragma unroll
                    for (int j = 0; j < BOX / 16; j++) {
                        times_slope<T, A>(out + i * BOX_BYTES, v + 8 * j, j, lane);
                        put_columns<T>(out + i * BOX_BYTES, v + 8 * j, j, lane);
                    }
                    send(&p.y, out + i * BOX_BYTES, first, row, lane);
                    if (p.sums && row < p.rows)
                        add_rows(v, p.sums + row / OUT_ROWS * p.columns, first, p.columns, lane);
                    continue;
                }
                if (p.b)
                    add_bias(v, p, first, lane);
                if (A != ACT_none && p.keep_u)
                    write_box<T>(&p.u, out + place++ % BOXES * BOX_BYTES, v, first, row, lane);
#pragma unroll
                for (int e = 0; e < BOX / 2; e++)
                    v[e] = act_value<A, T>(v[e]);
                write_box<T>(&p.y, out + place++ % BOXES * BOX_BYTES, v, first, row, lane);
            }
        }
        if (lane == 0)
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    cluster_sync(); /* other blocks may still count on this one's barriers */
}

/* ---- launching ---- */

typedef CUresult encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                        const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                        CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* Boxes of `box_rows` by 64 elements of a row-major (rows, columns) matrix; what is outside reads as 0 and is not
 * written. */
static int map_matrix(CUtensorMap *map, encode *f, enum dtype type, const void *data, int64_t rows, int64_t columns,
                      int box_rows)
{
    cuuint64_t size[2] = {(cuuint64_t)columns, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)columns * 2};
    cuuint32_t box[2] = {DEPTH, (cuuint32_t)box_rows}, ones[2] = {1, 1};
    return f(map, type == DT_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)data,
             size, stride, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* x (rows,depth), y and u (rows,columns); of W, boxes of 64 by 64. */
static int map_all(struct params *p, const struct tensor *x, const struct tensor *w, const struct tensor *y,
                   const void *u, const struct cuda_call *c)
{
    int64_t rows = x->shape[0], depth = x->shape[1], columns = y->shape[1];
    enum dtype t = x->dtype;
    void *f = NULL;
    enum cudaDriverEntryPointQueryResult found;
    TRY(cuda_check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found),
                   "linear", c->err));
    p->rows = rows;
    p->columns = columns;
    p->depth_blocks = (int)((depth + DEPTH - 1) / DEPTH);
    p->row_tiles = (int)((rows + CLUSTER * ROWS - 1) / (CLUSTER * ROWS));
    p->column_tiles = (int)((columns + COLUMNS - 1) / COLUMNS);
    if (!f || map_matrix(&p->x, (encode *)f, t, x->data, rows, depth, ROWS) ||
        map_matrix(&p->w, (encode *)f, t, w->data, w->shape[0], w->shape[1], BOX) ||
        map_matrix(&p->u, (encode *)f, t, u ? u : y->data, rows, columns, OUT_ROWS) ||
        map_matrix(&p->y, (encode *)f, t, y->data, rows, columns, OUT_ROWS))
        return err_set(c->err, SNUG_ERR_ENV, "cuda: linear: the driver makes no tensor map; update it");
    return SNUG_OK;
}

template <class T, int A, bool BACK> static void launch(const struct params *p, const struct cuda_call *c)
{
    int tiles = p->row_tiles * p->column_tiles, most = 0;
    cudaFuncSetAttribute(linear_kernel<T, A, BACK>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = CLUSTER;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = CLUSTER;
    config.blockDim = THREADS;
    config.dynamicSmemBytes = SHARED_BYTES;
    config.stream = c->stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    cudaOccupancyMaxActiveClusters(&most, linear_kernel<T, A, BACK>, &config);
    config.gridDim = (unsigned)(CLUSTER * (tiles > most && most > 0 ? most : tiles));
    cudaLaunchKernelEx(&config, linear_kernel<T, A, BACK>, *p);
}

template <class T, bool BACK> static void launch_act(const struct params *p, int64_t act, const struct cuda_call *c)
{
    switch ((enum act)act) {
    case ACT_gelu:
        launch<T, ACT_gelu, BACK>(p, c);
        break;
    case ACT_gelu_tanh:
        launch<T, ACT_gelu_tanh, BACK>(p, c);
        break;
    case ACT_silu:
        launch<T, ACT_silu, BACK>(p, c);
        break;
    default:
        launch<T, ACT_none, BACK>(p, c);
        break;
    }
}

/* Rows of a multiple of 16 bytes, for the TMA. */
static bool mapped(const struct tensor *t, enum dtype type)
{
    return t->dtype == type && t->shape[1] % 8 == 0 && (uintptr_t)t->data % 16 == 0;
}

static bool has_kernel(int64_t act, enum dtype type, const struct cuda_call *c)
{
    return c->sm90 && (type == DT_BF16 || type == DT_F16) &&
           (act == ACT_none || act == ACT_gelu || act == ACT_gelu_tanh || act == ACT_silu);
}

bool cuda_linear_sm90_fits(const struct args_linear *a, const struct cuda_call *c)
{
    enum dtype t = a->x.dtype;
    return has_kernel(a->act, t, c) && !a->in_out && !a->y.pad[1] && mapped(&a->x, t) && mapped(&a->w, t) &&
           mapped(&a->y, t) && (!a->u.ndim || mapped(&a->u, t)) && (!a->b.ndim || a->b.dtype == DT_F32) &&
           (uintptr_t)a->b.data % 8 == 0;
}

int cuda_linear_sm90(const struct args_linear *a, const struct cuda_call *c)
{
    struct params p = {};
    p.b = (const float *)a->b.data;
    p.keep_u = a->u.data != NULL;
    TRY(map_all(&p, &a->x, &a->w, &a->y, a->u.data, c));
    if (a->x.dtype == DT_BF16)
        launch_act<__nv_bfloat16, false>(&p, a->act, c);
    else
        launch_act<__half, false>(&p, a->act, c);
    return cuda_launched(c, "linear");
}

bool cuda_linear_dx_act_sm90_fits(const struct args_linear_dx_act *a, const struct cuda_call *c)
{
    enum dtype t = a->dy.dtype;
    return has_kernel(a->act, t, c) && a->act && !a->in_out && mapped(&a->dy, t) && mapped(&a->w, t) &&
           mapped(&a->u, t) && mapped(&a->du, t);
}

static int64_t warps_of_rows(const struct args_linear_dx_act *a)
{
    return (a->du.shape[0] + OUT_ROWS - 1) / OUT_ROWS;
}

int64_t cuda_linear_dx_act_sm90_workspace(const struct args_linear_dx_act *a)
{
    return a->dbias.ndim ? warps_of_rows(a) * a->du.shape[1] * (int64_t)sizeof(float) : 0;
}

int cuda_linear_dx_act_sm90(const struct args_linear_dx_act *a, const struct cuda_call *c)
{
    struct params p = {};
    p.sums = a->dbias.data ? (float *)c->workspace : NULL;
    TRY(map_all(&p, &a->dy, &a->w, &a->du, a->u.data, c));
    if (a->dy.dtype == DT_BF16)
        launch_act<__nv_bfloat16, true>(&p, a->act, c);
    else
        launch_act<__half, true>(&p, a->act, c);
    if (a->dbias.data) {
        struct column_sums sums = {p.sums, warps_of_rows(a), p.columns, 1};
        column_sums_set(&sums, 0, &a->dbias);
        column_sums_launch(&sums, c);
    }
    return cuda_launched(c, "linear_dx_act");
}
