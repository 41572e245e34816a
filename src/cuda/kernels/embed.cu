/* Embedding lookups. Bound by bytes: forward a row of each table and one of y a token; backward dy once, and the
 * rows of the table that occur, or all of it where it is not added to.
 *
 * Backward, the sum over the rows n of one id in the order of n, without atomics:
 *     1. (id, n) is sorted: tiles of TILE in shared memory, then every element finds its place by how many are
 *        smaller in each other tile. Padding rows (n >= cu[B]) get the largest id and end behind the others.
 *     2. The sorted rows are cut into chunks of CHUNK. Each adds up the runs of one id in it, in order. A run that
 *        lies in the chunk goes to the table; one that does not leaves a partial sum, the chunk's first (of a run
 *        that began earlier) or last (of one that begins here and goes on).
 *     3. Where a run begins that goes on, its partial sums are added: warp w takes every FOLD-th chunk from the w-th
 *        on, then the warps are added in order. */
#include "cuda/kernels/vector.cuh"

#include <limits.h>

enum {
    LANE = 32,
    WARPS = 8,
    TILE = 1024,
    TILE_THREADS = TILE / 2,
    CHUNK = 16,
    AHEAD = 4,
    AT_ONCE = 4,
    SEARCH_THREADS = 64,
    JOIN = 8,
    RUN_THREADS = 128,
    FOLD = 16
};

struct embed_params {
    const int32_t *ids[3];
    const void *table[3]; /* NULL: absent */
    int64_t N, H;
};

/* W: of the tables. */
template <class T, class W, int N>
__global__ void __launch_bounds__(LANE *WARPS) embed_kernel(const __grid_constant__ struct embed_params p, T *y)
{
    int64_t n = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
    const W *row[3];
    if (n >= p.N)
        return;
#pragma unroll
    for (int t = 0; t < 3; t++)
        row[t] = p.table[t] ? (const W *)p.table[t] + p.ids[t][n] * p.H : NULL;
#pragma unroll 4
    for (int64_t h = threadIdx.x % LANE * N; h < p.H; h += LANE * N) {
        float sum[N], v[N];
        load<W, N>(sum, row[0] + h);
#pragma unroll
        for (int t = 1; t < 3; t++)
            if (row[t]) {
                load<W, N>(v, row[t] + h);
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum[i] += v[i];
            }
        store<T, N>(y + n * p.H + h, sum);
    }
}

extern "C" int cuda_embed(const struct args_embed *a, const struct cuda_call *c)
{
    struct embed_params p = {
        {(const int32_t *)a->ids.data, (const int32_t *)a->ids2.data, (const int32_t *)a->ids3.data},
        {a->table.data, a->table2.data, a->table3.data},
        a->y.shape[0],
        a->y.shape[1]};
    bool packed = packs_fit(&a->table) && packs_fit(&a->table2) && packs_fit(&a->table3) && packs_fit(&a->y);
    unsigned blocks = (unsigned)((p.N + WARPS - 1) / WARPS);
    if (p.N > 0)
        WITH_FLOAT_TYPE(a->y.dtype, T, WITH_FLOAT_TYPE(a->table.dtype, W, {
                            if (packed)
                                embed_kernel<T, W, pack_width<T>>
                                    <<<blocks, LANE * WARPS, 0, c->stream>>>(p, (T *)a->y.data);
                            else
                                embed_kernel<T, W, 1><<<blocks, LANE * WARPS, 0, c->stream>>>(p, (T *)a->y.data);
                        }))
    return cuda_launched(c, "embed");
}

/* ---- backward ---- */

/* id in the high half, n in the low: no two are equal. */
typedef unsigned long long sort_key;
static const sort_key NO_KEY = ~0ull;

__global__ static void __launch_bounds__(TILE_THREADS)
    sort_tiles_kernel(const int32_t *ids, const int32_t *cu, int64_t B, int64_t N, sort_key *to)
{
    __shared__ sort_key keys[TILE];
    int64_t start = (int64_t)blockIdx.x * TILE, real = cu[B];
    for (int i = threadIdx.x; i < TILE; i += TILE_THREADS) {
        int64_t n = start + i;
        uint32_t id = n < N && n < real ? (uint32_t)ids[n] : INT_MAX;
        keys[i] = (sort_key)id << 32 | (uint32_t)n;
    }
    bool far = true;                            /* whether other warps worked on this warp's keys */
    for (int size = 2; size <= TILE; size *= 2) /* a bitonic network */
        for (int apart = size / 2; apart > 0; apart /= 2) {
            int i = 2 * threadIdx.x - (threadIdx.x & (apart - 1));
            if (far || apart > LANE)
                __syncthreads();
            else
                __syncwarp();
            far = apart > LANE;
            sort_key low = keys[i], high = keys[i + apart];
            if ((low > high) == !(i & size)) {
                keys[i] = high;
                keys[i + apart] = low;
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < TILE && start + i < N; i += TILE_THREADS)
        to[start + i] = keys[i];
}

/* The place of each key among all: how many are smaller in each tile. */
__global__ static void __launch_bounds__(SEARCH_THREADS)
    merge_tiles_kernel(const sort_key *tiles, int64_t N, sort_key *sorted)
{
    int64_t i = (int64_t)blockIdx.x * SEARCH_THREADS + threadIdx.x, place = 0;
    if (i >= N)
        return;
    sort_key key = tiles[i];
    for (int64_t first = 0; first < N; first += AT_ONCE * TILE) { /* searches that do not wait for each other */
        int smaller[AT_ONCE] = {0};
#pragma unroll
        for (int jump = TILE; jump > 0; jump /= 2)
#pragma unroll
            for (int t = 0; t < AT_ONCE; t++) {
                int64_t at = first + t * TILE + smaller[t] + jump;
                if (smaller[t] + jump <= TILE && at <= N && __ldg(tiles + at - 1) < key)
                    smaller[t] += jump;
            }
#pragma unroll
        for (int t = 0; t < AT_ONCE; t++)
            place += smaller[t];
    }
    sorted[place] = key;
}

struct runs {
    const sort_key *sorted;
    const int32_t *cu;
    float *partial; /* (chunks, 2, H): the first run of a chunk that began earlier, the last one that goes on */
    float *dtable;
    bool add;
    int32_t still; /* an id whose rows count nothing */
    int64_t B, H;
};

__device__ static inline int32_t id_of(sort_key key)
{
    return (int32_t)(key >> 32);
}

template <class T, int N>
__global__ void __launch_bounds__(RUN_THREADS) sum_runs_kernel(const struct runs r, const T *dy)
{
    __shared__ sort_key keys[CHUNK + 2]; /* with the one before and the one behind, NO_KEY where there is none */
    int64_t real = r.cu[r.B], start = (int64_t)blockIdx.x * CHUNK;
    int64_t h = ((int64_t)blockIdx.y * RUN_THREADS + threadIdx.x) * N;
    if (start >= real)
        return;
    int end = start + CHUNK < real ? CHUNK : (int)(real - start);
    if (threadIdx.x < CHUNK + 2) {
        int64_t at = start + (int)threadIdx.x - 1;
        keys[threadIdx.x] = at >= 0 && at < real ? r.sorted[at] : NO_KEY;
    }
    __syncthreads();
    if (h >= r.H)
        return;
    const bool earlier = id_of(keys[0]) == id_of(keys[1]);
    float sum[N] = {0};
    for (int at = 0; at < end; at += AHEAD) {
        struct words<T, N> rows[AHEAD];
        struct words<float, N> old[AHEAD];
        bool stops[AHEAD], whole[AHEAD]; /* whether a run, or the chunk, stops there, and is all of the run */
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (at + i >= end)
                break;
            int32_t id = id_of(keys[1 + at + i]), next = id_of(keys[2 + at + i]);
            stops[i] = next != id || at + i + 1 == end;
            whole[i] = next != id && !(earlier && id == id_of(keys[1]));
            rows[i] = fetch<T, N>(dy + (int64_t)(uint32_t)keys[1 + at + i] * r.H + h);
            if (whole[i] && r.add)
                old[i] = fetch<float, N>(r.dtable + id * r.H + h);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            float v[N];
            if (at + i >= end)
                break;
            int32_t id = id_of(keys[1 + at + i]);
            unpack<T, N>(v, rows[i]);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] += id == r.still ? 0 : v[k];
            if (!stops[i])
                continue;
            bool first = earlier && id == id_of(keys[1]);
            if (whole[i] && r.add) {
                unpack<float, N>(v, old[i]);
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum[k] += v[k];
            }
            store<float, N>(
                whole[i] ? r.dtable + id * r.H + h : r.partial + (blockIdx.x * (int64_t)2 + !first) * r.H + h, sum);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] = 0;
        }
    }
}

/* The sums of a run that begins in `chunk` and goes on. All threads of the block. */
template <int N>
__device__ static inline void join_run(const struct runs &r, int64_t chunk, int32_t id, int64_t real, int64_t h)
{
    __shared__ float folded[FOLD][N][LANE];
    int64_t last = chunk; /* the last chunk that the run is in */
    for (int more = LANE * FOLD; more == LANE * FOLD; last += more) {
        int64_t at = (last + 1 + threadIdx.y * LANE + threadIdx.x) * CHUNK;
        more = __syncthreads_count(at < real && id_of(r.sorted[at]) == id);
    }
    float sum[N] = {0};
    if (h < r.H)
#pragma unroll 8
        for (int64_t i = chunk + threadIdx.y; i <= last; i += FOLD) {
            float v[N];
            load<float, N>(v, r.partial + (2 * i + (i == chunk)) * r.H + h);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] += v[k];
        }
#pragma unroll
    for (int k = 0; k < N; k++)
        folded[threadIdx.y][k][threadIdx.x] = sum[k];
    __syncthreads();
    if (threadIdx.y || h >= r.H)
        return;
    for (int i = 1; i < FOLD; i++)
#pragma unroll
        for (int k = 0; k < N; k++)
            sum[k] += folded[i][k][threadIdx.x];
    store_or_add<float, N>(r.dtable + id * r.H + h, sum, r.add);
}

/* A block looks at JOIN chunks for runs that begin there and go on. */
template <int N> __global__ void __launch_bounds__(LANE *FOLD) join_runs_kernel(const struct runs r)
{
    int64_t real = r.cu[r.B], first = (int64_t)blockIdx.x * JOIN;
    int64_t start = (first + threadIdx.x % JOIN) * CHUNK, next = start + CHUNK;
    int64_t h = ((int64_t)blockIdx.y * LANE + threadIdx.x) * N;
    int32_t id = -1;
    bool begins = false;
    if (next < real) {
        id = id_of(r.sorted[next]);
        begins = id_of(r.sorted[next - 1]) == id && (start == 0 || id_of(r.sorted[start - 1]) != id);
    }
    unsigned found = __ballot_sync(0xFFFFFFFFu, begins);
    for (int i = 0; i < JOIN; i++)
        if (found >> i & 1)
            join_run<N>(r, first + i, __shfl_sync(0xFFFFFFFFu, id, i), real, h);
}

static int64_t parts(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

/* Keys by tile, keys sorted, partial sums (aligned to 16). */
static int64_t keys_bytes(int64_t N)
{
    return (int64_t)sizeof(sort_key) * parts(N, 2) * 2;
}

extern "C" int64_t cuda_embed_bwd_workspace(const struct args_embed_bwd *a, const struct cuda_call *c)
{
    int64_t N = a->dy.shape[0], H = a->dy.shape[1];
    (void)c;
    return 2 * keys_bytes(N) + (int64_t)sizeof(float) * parts(N, CHUNK) * 2 * H;
}

template <class T, int N, int M>
static void embed_bwd_launch(const struct runs *r, const T *dy, int64_t rows, const struct cuda_call *c)
{
    unsigned chunks = (unsigned)parts(rows, CHUNK);
    sum_runs_kernel<T, N><<<dim3(chunks, (unsigned)parts(r->H, RUN_THREADS * N)), RUN_THREADS, 0, c->stream>>>(*r, dy);
    join_runs_kernel<M>
        <<<dim3((unsigned)parts(chunks, JOIN), (unsigned)parts(r->H, LANE * M)), dim3(LANE, FOLD), 0, c->stream>>>(*r);
}

extern "C" int cuda_embed_bwd(const struct args_embed_bwd *a, const struct cuda_call *c)
{
    int64_t N = a->dy.shape[0];
    char *space = (char *)c->workspace;
    sort_key *tiles = (sort_key *)space, *sorted = (sort_key *)(space + keys_bytes(N));
    struct runs r = {.sorted = sorted,
                     .cu = (const int32_t *)a->cu.data,
                     .partial = (float *)(space + 2 * keys_bytes(N)),
                     .dtable = (float *)a->dtable.data,
                     .add = a->dtable.add,
                     .still = (int32_t)a->still - 1,
                     .B = a->cu.shape[0] - 1,
                     .H = a->dy.shape[1]};
    if (!r.dtable)
        return SNUG_OK;
    if (!r.add)
        TRY(cuda_check(cudaMemsetAsync(r.dtable, 0, sizeof(float) * (size_t)tensor_elements(&a->dtable), c->stream),
                       "embed_bwd", c->err));
    if (N == 0)
        return cuda_launched(c, "embed_bwd");
    sort_tiles_kernel<<<(unsigned)parts(N, TILE), TILE_THREADS, 0, c->stream>>>((const int32_t *)a->ids.data, r.cu, r.B,
                                                                                N, tiles);
    merge_tiles_kernel<<<(unsigned)parts(N, SEARCH_THREADS), SEARCH_THREADS, 0, c->stream>>>(tiles, N, sorted);
    WITH_FLOAT_TYPE(a->dy.dtype, T, {
        if (packs_fit(&a->dy) && packs_fit(&a->dtable))
            embed_bwd_launch<T, pack_width<T>, 4>(&r, (const T *)a->dy.data, N, c);
        else
            embed_bwd_launch<T, 1, 1>(&r, (const T *)a->dy.data, N, c);
    })
    return cuda_launched(c, "embed_bwd");
}
