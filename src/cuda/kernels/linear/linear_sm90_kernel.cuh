/* linear_sm90_kernel.cuh: Hopper's kernel of products, and its launch: linear_sm90.cu says what it does. EXPERTS: rows are sorted by
 * expert, each expert has a W of its own, and tiles begin where its rows do. */
#ifndef CUDA_KERNELS_LINEAR_SM90_KERNEL_CUH
#define CUDA_KERNELS_LINEAR_SM90_KERNEL_CUH

#include "cuda/kernels/act.cuh"
#include "cuda/kernels/linear/linear_sm90.cuh"
#include "cuda/kernels/matrices.cuh"
#include "cuda/kernels/vector.cuh"

/* ---- loading ---- */

/* TURNED: a row of W has neighbouring columns of y, not neighbouring terms of the sums. One thread. */
template <bool TURNED, bool EXPERTS>
__device__ static inline void load_stages(const struct params &p, const struct places &at)
{
    int rank = blockIdx.x % CLUSTER;
    unsigned i = 0;
    for (struct tiles t = tiles_of(p); tiles_next<EXPERTS>(&t, p);)
        for (int k = 0; k < p.depth_blocks; k++, i++) {
            unsigned s = i % STAGES;
            uint32_t w = at.stages + s * STAGE_BYTES, x = w + W_BYTES, full = at.full + 8 * s;
            barrier_wait(at.empty + 8 * s, (i / STAGES & 1) ^ 1);
            barrier_expect(full, STAGE_BYTES);
            if (TURNED)
                for (int h = 0; h < HALVES; h++)
                    box_load(w + h * (W_BYTES / HALVES), &p.w, t.column + h * BOX, t.w_row + k * DEPTH, full);
            else
                box_load(w, &p.w, k * DEPTH, t.w_row + t.column, full);
            box_load_for_all(x + rank * (X_BYTES / CLUSTER), &p.x, k * DEPTH, t.row + rank * (ROWS / CLUSTER), full);
        }
}

/* The slope comes to where du will go. One thread. */
__device__ static inline void load_slope(const struct params &p, const struct places &at)
{
    unsigned n = 0;
    for (struct tiles t = tiles_of(p); tiles_next<false>(&t, p); n++) {
        unsigned group = n % GROUPS;
        barrier_wait(at.out_free + 8 * group, (n / GROUPS & 1) ^ 1);
        barrier_expect(at.slope_here + 8 * group, HALVES * HALF_BYTES);
        for (int h = 0; h < HALVES; h++)
            box_load(at.out + (group * HALVES + h) * HALF_BYTES, &p.slope, t.column + h * BOX, t.row,
                     at.slope_here + 8 * group);
    }
}

/* ---- out ---- */

/* Half of a tile lies in shared memory as rows of 64 columns, swizzled as the TMA has them. A warp has 16 of the columns;
 * `from` is the lane's place in that for matrices of 8 by 8: two neighbouring ones of 8 rows each, twice. */
__device__ static inline uint32_t matrices_at(uint32_t half, int warp, int lane)
{
    return half + (lane / 16 * 8 + lane % 8) * 128 + ((2 * warp + lane / 8 % 2) ^ (lane % 8)) * 16;
}

/* Rows 16 j to 16 j + 15 of the warp's columns, 8 numbers a thread as the products leave them. */
template <class T> __device__ static inline void put_rows(uint32_t from, const float *d, int j)
{
    uint32_t r[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        r[e] = pack_pair(d[2 * e], d[2 * e + 1], T());
    store_matrices_transposed(from + j * 2048, r);
}

template <class T> __device__ static inline void get_rows(uint32_t from, float *d, int j)
{
    uint32_t r[4];
    load_matrices_transposed(r, from + j * 2048);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float2 v = unpack_pair(r[e], T());
        d[2 * e] = v.x;
        d[2 * e + 1] = v.y;
    }
}

/* Until at most LEFT of the thread's copies have still to be read out of shared memory. */
template <int LEFT> __device__ static inline void sent(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

/* Sends half a tile, which the group has written. */
__device__ static inline void send(const CUtensorMap *map, uint32_t half, const struct tiles &t, int h, int group)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    group_sync(group);
    if (threadIdx.x % 128 == 0) {
        box_store(map, half, t.column + h * BOX, t.row);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
}

__device__ static inline int4 load_int4(uint32_t shared)
{
    int4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(shared)
                 : "memory");
    return v;
}

/* Writes the rows of half a tile that are the expert's. The copies that are under way are counted as if it had been sent. */
__device__ static inline void write_part(const struct params &p, uint32_t half, const struct tiles &t, int h, int group)
{
    group_sync(group);
    for (int i = (int)threadIdx.x % 128; i < (t.limit - t.row) * 8; i += 128) {
        int row = i / 8, chunk = i % 8;
        int64_t column = t.column + h * BOX + chunk * 8;
        if (column < p.columns)
            *(int4 *)((uint16_t *)p.out + (t.row + row) * p.columns + column) =
                load_int4(half + (uint32_t)(row * 128 + (chunk ^ row % 8) * 16));
    }
    if (threadIdx.x % 128 == 0)
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Of a group's two places for half a tile the next one, once it has been sent. */
__device__ static inline uint32_t next_half(const struct places &at, int place, int group)
{
    if (threadIdx.x % 128 == 0)
        sent<HALVES - 1>();
    group_sync(group);
    return at.out + (group * HALVES + place % HALVES) * HALF_BYTES;
}

/* As a T, also where it is wider: so cuBLASLt has it. */
template <class T> __device__ static inline float bias_at(const struct params &p, int column)
{
    if (!p.b || column >= p.columns)
        return 0;
    return to_float(p.wide_b ? from_float<T>(((const float *)p.b)[column]) : ((const T *)p.b)[column]);
}

/* y, and the slope where it is kept. */
template <class T, int A, bool EXPERTS>
__device__ static inline void write_forward(const struct params &p, const struct places &at,
                                            float (&d)[HALVES][ROWS / 2], const struct tiles &t, int group)
{
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, place = 0;
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        int column = t.column + h * BOX + warp * 16 + lane / 4;
        float b0 = bias_at<T>(p, column), b8 = bias_at<T>(p, column + 8);
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++)
            d[h][i] += i % 4 < 2 ? b0 : b8;
        if (A != ACT_none && p.keep_slope) {
            uint32_t half = next_half(at, place++, group);
#pragma unroll
            for (int j = 0; j < ROWS / 16; j++) {
                float slope[8], *u = d[h] + 8 * j;
#pragma unroll
                for (int i = 0; i < 8; i++)
                    u[i] = act_and_slope<A, T>(u[i], &slope[i]);
                put_rows<T>(matrices_at(half, warp, lane), slope, j);
            }
            send(&p.slope, half, t, h, group);
        } else {
            float unused;
#pragma unroll
            for (int i = 0; i < ROWS / 2; i++)
                d[h][i] = act_and_slope<A, T>(d[h][i], &unused);
        }
        uint32_t half = next_half(at, place++, group);
#pragma unroll
        for (int j = 0; j < ROWS / 16; j++)
            put_rows<T>(matrices_at(half, warp, lane), d[h] + 8 * j, j);
        if (EXPERTS && t.limit - t.row < ROWS)
            write_part(p, half, t, h, group);
        else
            send(&p.y, half, t, h, group);
    }
}

/* du, in the place of the slope, and the sums of its columns. */
template <class T>
__device__ static inline void write_backward(const struct params &p, const struct places &at,
                                             float (&d)[HALVES][ROWS / 2], const struct tiles &t, int group)
{
    constexpr int BATCH = 5; /* of 16 rows, under way together */
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        uint32_t half = at.out + (group * HALVES + h) * HALF_BYTES, from = matrices_at(half, warp, lane);
        float sum0 = 0, sum8 = 0;
#pragma unroll
        for (int j = 0; j < ROWS / 16; j += BATCH) {
            float slope[BATCH][8];
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                get_rows<T>(from, slope[k], j + k);
#pragma unroll
            for (int k = 0; k < BATCH; k++)
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float *v = &d[h][8 * (j + k) + i];
                    *v *= slope[k][i];
                    if (i % 4 < 2)
                        sum0 += *v;
                    else
                        sum8 += *v;
                }
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                put_rows<T>(from, d[h] + 8 * (j + k), j + k);
        }
        send(&p.y, half, t, h, group);
        if (p.sums) {
            int column = t.column + h * BOX + warp * 16 + lane / 4;
            float *sums = p.sums + t.row / ROWS * p.columns;
            sum0 = quad_sum(sum0);
            sum8 = quad_sum(sum8);
            if (lane % 4 == 0 && column < p.columns)
                sums[column] = sum0;
            if (lane % 4 == 0 && column + 8 < p.columns)
                sums[column + 8] = sum8;
        }
    }
}

/* ---- the kernel ---- */

template <class T, int A, bool BACK, bool TURNED, bool EXPERTS>
__device__ static inline void make_tiles(const struct params &p, const struct places &at)
{
    int group = threadIdx.x / 128, lane = threadIdx.x % 32;
    unsigned seen = 0, mine = 0; /* tiles of the block and of this group */
    if (group == 1 && lane == 0) /* group 0 begins */
        barrier_arrive(at.turn);
    for (struct tiles t = tiles_of(p); tiles_next<EXPERTS>(&t, p); seen++) {
        if (seen % GROUPS != (unsigned)group)
            continue;
        float d[HALVES][ROWS / 2];
        /* A barrier tells apart two phases only: nobody may look for a tile's stages before the tile ahead of it has
         * seen all of its own. */
        barrier_wait(at.turn + 8 * group, mine++ & 1);
        unsigned i = seen * p.depth_blocks;
        for (int k = 0; k < p.depth_blocks; k++, i++) {
            unsigned s = i % STAGES;
            uint32_t w = at.stages + s * STAGE_BYTES, x = w + W_BYTES;
            barrier_wait(at.full + 8 * s, i / STAGES & 1);
            products_begin();
#pragma unroll
            for (int e = 0; e < DEPTH / 16; e++)
#pragma unroll
                for (int h = 0; h < HALVES; h++)
                    multiply<T, TURNED>(d[h], factor<TURNED>(w + h * (W_BYTES / HALVES), e), factor<false>(x, e),
                                        k + e > 0);
            products_commit();
            products_wait<1>();
            if (k > 0 && lane < CLUSTER) /* the stage before this one has been read */
                barrier_arrive_at(at.empty + 8 * ((i - 1) % STAGES), lane);
        }
        if (lane == 0)
            barrier_arrive(at.turn + 8 * (1 - group));
        products_wait<0>();
        if (lane < CLUSTER)
            barrier_arrive_at(at.empty + 8 * ((i - 1) % STAGES), lane);
        if (BACK) {
            barrier_wait(at.slope_here + 8 * group, (mine - 1) & 1);
            write_backward<T>(p, at, d, t, group);
            if (threadIdx.x % 128 == 0) {
                sent<0>();
                barrier_arrive(at.out_free + 8 * group);
            }
        } else
            write_forward<T, A, EXPERTS>(p, at, d, t, group);
    }
    if (threadIdx.x % 128 == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

template <class T, int A, bool BACK, bool TURNED, bool EXPERTS>
__global__ static void __launch_bounds__(THREADS, 1) linear_kernel(const __grid_constant__ struct params p)
{
    extern __shared__ uint8_t shared[];
    struct places at = places_of(shared);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(at.full + 8 * s, 1);
            barrier_init(at.empty + 8 * s, 4 * CLUSTER); /* the warps of one warpgroup in each block */
        }
        for (int g = 0; g < GROUPS; g++) {
            barrier_init(at.turn + 8 * g, 4);
            barrier_init(at.slope_here + 8 * g, 1);
            barrier_init(at.out_free + 8 * g, 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    cluster_sync();
    if (threadIdx.x < 128 * GROUPS) {
        if (EXPERTS)
            asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        else
            asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        make_tiles<T, A, BACK, TURNED, EXPERTS>(p, at);
    } else {
        if (EXPERTS) /* to find them takes more than counting */
            asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        else
            asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 128 * GROUPS)
            load_stages<TURNED, EXPERTS>(p, at);
        else if (BACK && threadIdx.x == 128 * GROUPS + 32)
            load_slope(p, at);
    }
    cluster_sync(); /* other blocks may still count on this one's barriers */
}

/* ---- launching ---- */

/* x (rows,depth), y and slope (rows,columns); slope: NULL where there is none. */
static int map_all(struct params *p, const struct tensor *x, const struct tensor *w, bool turned,
                   const struct tensor *y, const struct tensor *slope, const struct cuda_call *c)
{
    encode *f;
    TRY(find_encode(&f, "linear", c));
    p->columns = y->shape[1];
    p->depth_blocks = (int)((x->shape[1] + DEPTH - 1) / DEPTH);
    p->row_tiles = (int)((x->shape[0] + ROWS - 1) / ROWS);
    p->column_tiles = (int)((p->columns + CLUSTER * COLUMNS - 1) / (CLUSTER * COLUMNS));
    if (!f || map_matrix(&p->x, f, x, ROWS / CLUSTER) || map_matrix(&p->w, f, w, turned ? DEPTH : COLUMNS) ||
        map_matrix(&p->slope, f, slope && slope->data ? slope : y, ROWS) || map_matrix(&p->y, f, y, ROWS))
        return no_tensor_map("linear", c);
    return SNUG_OK;
}

/* row_tiles: of experts the most that there may be. */
template <class T, int A, bool BACK, bool TURNED, bool EXPERTS>
static void launch_linear(const struct params *p, const struct cuda_call *c)
{
    auto kernel = linear_kernel<T, A, BACK, TURNED, EXPERTS>;
    int tiles = p->row_tiles * p->column_tiles, most = 0;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
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
    cudaOccupancyMaxActiveClusters(&most, kernel, &config);
    config.gridDim = (unsigned)(CLUSTER * (tiles > most && most > 0 ? most : tiles));
    cudaLaunchKernelEx(&config, kernel, *p);
}

/* Rows of a multiple of 16 bytes, for the TMA. */
static bool mapped(const struct tensor *t, enum dtype type)
{
    return t->dtype == type && tensor_pitch(t) == t->shape[1] && t->shape[1] % 8 == 0 && (uintptr_t)t->data % 16 == 0;
}

static bool has_kernel(enum dtype type, const struct cuda_call *c)
{
    return c->sm90 && (type == DT_BF16 || type == DT_F16);
}

#endif
