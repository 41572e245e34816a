/* Adafactor (op/optimizer/adafactor.h) over many tensors in four launches: sums of squares by row and column; the second moments;
 * sum of U^2; the update. Bound by bytes: 12 of g and 8 of p a parameter (12 more with a first moment). The parts of the update of a shard
 * are the same kernels.
 *
 * A matrix is cut into tiles by its shape alone, a block each; a tensor that is no matrix into pieces of FLAT elements. A warp has every eighth row of a tile, a lane 32 columns of it.
 *
 * Order of sums: by column over a warp's rows, over the warps, over the tiles; by row over a lane's columns, over the
 * lanes as a tree, over the tiles. Those of U^2 and p^2 are by row as before, then in double over a warp's rows, over
 * the warps, over the tiles. */
#include "cuda/kernels/optimizer/adafactor.cuh"

/* ---- parts of the kernels ---- */

/* The sum over the block, in all threads. */
__device__ static inline double block_sum(double x)
{
    __shared__ double warp[WARPS];
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < WARPS; i++)
        x += warp[i];
    return x;
}

__device__ static inline double sum_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum += x[i];
    return block_sum(sum);
}

/* Column of element e of group k, within the tile. */
template <bool PACKED> __device__ static inline int column_of(int k, int e)
{
    int lane = threadIdx.x % 32;
    return PACKED ? (k * 32 + lane) * FOUR + e : (k * FOUR + e) * 32 + lane;
}

/* Groups [first, first + N) of a lane's columns of a row; 0 where the tile has none. */
template <bool PACKED, class T, int N>
__device__ static inline void load_row(float (&x)[N][FOUR], const T *row, int columns, int first = 0)
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (PACKED && column_of<PACKED>(first + k, 0) < columns) {
            load_floats(x[k], row + column_of<PACKED>(first + k, 0));
            continue;
        }
#pragma unroll
        for (int e = 0; e < FOUR; e++) {
            int c = column_of<PACKED>(first + k, e);
            x[k][e] = !PACKED && c < columns ? to_float(row[c]) : 0;
        }
    }
}

/* put(column, values) stores some of the row. */
template <bool PACKED, int N, class Put>
__device__ static inline void store_row(const float (&x)[N][FOUR], int columns, int first, Put put)
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (PACKED && column_of<PACKED>(first + k, 0) < columns)
            put(column_of<PACKED>(first + k, 0), x[k]);
#pragma unroll
        for (int e = 0; e < FOUR && !PACKED; e++) {
            int c = column_of<PACKED>(first + k, e);
            if (c < columns) {
                const float one[1] = {x[k][e]};
                put(c, one);
            }
        }
    }
}

__device__ static inline float sum_of_squares(const float (&x)[GROUPS][FOUR])
{
    float sum = 0;
#pragma unroll
    for (int k = 0; k < GROUPS; k++)
        sum += (x[k][0] * x[k][0] + x[k][1] * x[k][1]) + (x[k][2] * x[k][2] + x[k][3] * x[k][3]);
    return sum;
}

struct adafactor_step {
    double lr, t;
    float coef, beta2, rest2;
};

__device__ static inline struct adafactor_step read_step(const struct adafactor_head &h)
{
    struct adafactor_step s;
    s.lr = h.step[STEP_LR], s.t = h.step[STEP_UPDATE];
    double beta2 = adafactor_beta2(h.decay_rate, s.t);
    s.coef = h.coef ? *h.coef : 1;
    s.beta2 = (float)beta2, s.rest2 = (float)(1 - beta2);
    return s;
}

/* ---- sums of squares ---- */

template <class G, class P, bool PACKED>
__device__ static void tile_sums(const struct adafactor_row &r, const struct tile &t, float coef, bool weights,
                                 float (*by_warp)[ADAFACTOR_COLUMNS])
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum[GROUPS][FOUR] = {};
    double squares = 0;
    for (int i = warp; i < t.rows; i += WARPS) {
        float g[GROUPS][FOUR];
        int64_t at = (t.row + i) * r.k.columns + t.column;
        load_row<PACKED>(g, (const G *)r.u.g + at, t.columns);
#pragma unroll
        for (int k = 0; k < GROUPS; k++)
#pragma unroll
            for (int e = 0; e < FOUR; e++) {
                g[k][e] *= coef;
                sum[k][e] = fmaf(g[k][e], g[k][e], sum[k][e]);
            }
        float row = warp_sum(sum_of_squares(g));
        if (lane == 0)
            r.by_row[t.at_column * r.k.lead * r.k.rows + t.row + i] = row;
        if (weights) {
            load_row<PACKED>(g, (const P *)r.u.p + at, t.columns);
            squares += (double)sum_of_squares(g);
        }
    }
#pragma unroll
    for (int k = 0; k < GROUPS; k++)
#pragma unroll
        for (int e = 0; e < FOUR; e++)
            by_warp[warp][column_of<PACKED>(k, e)] = sum[k][e];
    __syncthreads();
    float *to = r.s.by_column + t.row_index * r.k.columns + t.column;
    for (int c = threadIdx.x; c < t.columns; c += THREADS) {
        float all = 0;
        for (int w = 0; w < WARPS; w++)
            all += by_warp[w][c];
        to[c] = all;
    }
    squares = block_sum(squares);
    if (threadIdx.x == 0 && weights)
        r.s.weights[t.index] = squares;
}

/* A piece of a tensor that is no matrix: V, and the sums that follow from it alone. */
template <class G, class P>
__device__ static void flat_sums(const struct adafactor_row &r, const struct tile &t, const struct adafactor_step &s,
                                 float eps1)
{
    double squares = 0, weights = 0;
    for (int64_t i = t.index * FLAT + threadIdx.x; i < r.u.n && i < (t.index + 1) * FLAT; i += THREADS) {
        float g = to_float(((const G *)r.u.g)[i]) * s.coef, v = fmaf(s.beta2, r.v[i], s.rest2 * fmaf(g, g, eps1));
        float u = g / sqrtf(v), p = to_float(((const P *)r.u.p)[i]);
        r.v[i] = v;
        squares += (double)(u * u);
        weights += (double)(p * p);
    }
    squares = block_sum(squares);
    weights = block_sum(weights);
    if (threadIdx.x)
        return;
    r.s.squares[t.index] = squares;
    r.s.weights[t.index] = weights;
}

__global__ static void __launch_bounds__(THREADS, 2) sums_kernel(const __grid_constant__ adafactor_table a)
{
    int row = find_row(a, (int)blockIdx.x);
    const struct adafactor_row &r = a.row[row];
    struct tile t = find_tile(r, (int)blockIdx.x - a.first[row]);
    struct adafactor_step s = read_step(a.head);
    __shared__ float by_warp[WARPS][ADAFACTOR_COLUMNS];
    if (s.coef < 0)
        return;
    WITH_STORED_TYPE(r.u.pure, P, {
        if (r.v)
            WITH_FLOAT_TYPE(r.u.type, G, (flat_sums<G, P>(r, t, s, a.head.eps1)))
        else if (r.u.packed)
            WITH_FLOAT_TYPE(r.u.type, G, (tile_sums<G, P, true>(r, t, s.coef, a.head.scale_parameter, by_warp)))
        else
            WITH_FLOAT_TYPE(r.u.type, G, (tile_sums<G, P, false>(r, t, s.coef, a.head.scale_parameter, by_warp)))
    })
}

/* ---- second moments ---- */

/* R of a row of tiles, and its sum. */
__device__ static void update_rows(const struct adafactor_row &r, const struct tile &t, const struct adafactor_step &s,
                                   float eps1)
{
    double all = 0;
    if (threadIdx.x < t.rows) {
        int64_t at = t.row + threadIdx.x;
        float sum = 0;
        for (int k = 0; k < r.k.column_tiles; k++)
            sum += r.by_row[k * r.k.lead * r.k.rows + at];
        float moment = fmaf(s.beta2, r.row[at], s.rest2 * (sum / (float)r.k.columns + eps1));
        r.row[at] = moment;
        all = moment;
    }
    all = block_sum(all);
    if (threadIdx.x == 0)
        r.s.sum_r[t.row_index] = all;
}

/* C of a column of tiles, from all of these. */
__device__ static void update_columns(const struct adafactor_row &r, int64_t matrix, int column,
                                      const struct adafactor_step &s, float eps1)
{
    const int64_t tiles = adafactor_row_tiles(r.k.whole_rows);
    for (int c = column + threadIdx.x; c < r.k.columns && c < column + ADAFACTOR_COLUMNS; c += THREADS) {
        const float *from = r.s.by_column + matrix * tiles * r.k.columns + c;
        float sum = 0, *moment = r.col + matrix * r.k.columns + c;
        for (int64_t k = 0; k < tiles; k++)
            sum += from[k * r.k.columns];
        *moment = fmaf(s.beta2, *moment, s.rest2 * (sum / (float)r.k.whole_rows + eps1));
    }
}

/* The first tile of each row of tiles does it, and the first of each column of them where all matrices are here. */
__global__ static void __launch_bounds__(THREADS) moments_kernel(const __grid_constant__ adafactor_table a, bool whole)
{
    int row = find_row(a, (int)blockIdx.x);
    const struct adafactor_row &r = a.row[row];
    struct tile t = find_tile(r, (int)blockIdx.x - a.first[row]);
    struct adafactor_step s = read_step(a.head);
    if (s.coef < 0 || r.v)
        return;
    if (whole && t.row_index % r.k.row_tiles == 0)
        update_columns(r, t.matrix, t.column, s, a.head.eps1);
    if (t.at_column == 0)
        update_rows(r, t, s, a.head.eps1);
}

/* A block for each column of tiles of all matrices. */
__global__ static void __launch_bounds__(THREADS) columns_kernel(const __grid_constant__ adafactor_table a)
{
    int row = find_row(a, (int)blockIdx.x), index = (int)blockIdx.x - a.first[row];
    const struct adafactor_row &r = a.row[row];
    struct adafactor_step s = read_step(a.head);
    if (s.coef >= 0)
        update_columns(r, index / r.k.column_tiles, (int)(index % r.k.column_tiles) * ADAFACTOR_COLUMNS, s,
                       a.head.eps1);
}

/* ---- sum of U^2 ---- */

/* 1 / sqrt(R / mean(R)), times coef. */
__device__ static inline float row_factor(const struct adafactor_row &r, int64_t row, double mean, float coef)
{
    return coef * sqrtf((float)(mean / (double)r.row[row]));
}

__device__ static inline double mean_of_rows(const struct adafactor_row &r, const struct tile &t)
{
    const int64_t tiles = adafactor_row_tiles(r.k.whole_rows);
    return sum_of(r.s.sum_r + t.matrix * tiles, tiles) / (double)r.k.whole_rows;
}

/* 1 / sqrt(C) of a lane's columns, 0 where the tile has none: what that multiplies is 0, and stays so. */
template <bool PACKED>
__device__ static inline void load_factors(float (&x)[GROUPS][FOUR], const struct adafactor_row &r,
                                           const struct tile &t)
{
    load_row<PACKED>(x, r.col + t.matrix * r.k.columns + t.column, t.columns);
#pragma unroll
    for (int k = 0; k < GROUPS; k++)
#pragma unroll
        for (int e = 0; e < FOUR; e++)
            x[k][e] = column_of<PACKED>(k, e) < t.columns ? 1 / sqrtf(x[k][e]) : 0;
}

template <class G, bool PACKED>
__device__ static void tile_squares(const struct adafactor_row &r, const struct tile &t, float coef)
{
    double mean = mean_of_rows(r, t), squares = 0;
    float factor[GROUPS][FOUR];
    load_factors<PACKED>(factor, r, t);
    for (int i = threadIdx.x / 32; i < t.rows; i += WARPS) {
        float u[GROUPS][FOUR], by_row = row_factor(r, t.row + i, mean, coef);
        load_row<PACKED>(u, (const G *)r.u.g + (t.row + i) * r.k.columns + t.column, t.columns);
#pragma unroll
        for (int k = 0; k < GROUPS; k++)
#pragma unroll
            for (int e = 0; e < FOUR; e++)
                u[k][e] *= factor[k][e] * by_row;
        squares += (double)sum_of_squares(u);
    }
    squares = block_sum(squares);
    if (threadIdx.x == 0)
        r.s.squares[t.index] = squares;
}

__global__ static void __launch_bounds__(THREADS, 2) squares_kernel(const __grid_constant__ adafactor_table a)
{
    int row = find_row(a, (int)blockIdx.x);
    const struct adafactor_row &r = a.row[row];
    struct tile t = find_tile(r, (int)blockIdx.x - a.first[row]);
    float coef = a.head.coef ? *a.head.coef : 1;
    if (coef < 0 || r.v)
        return;
    if (r.u.packed)
        WITH_FLOAT_TYPE(r.u.type, G, tile_squares<G, true>(r, t, coef))
    else
        WITH_FLOAT_TYPE(r.u.type, G, tile_squares<G, false>(r, t, coef))
}

/* ---- the update ---- */

struct adafactor_rates {
    float coef, scale, decay, beta1, rest1;
};

/* p and m become new; u is U before its clipping. */
__device__ static inline void update_element(const struct adafactor_rates &f, bool has_m, float &p, float u, float &m)
{
    u *= f.scale;
    if (has_m)
        u = m = fmaf(f.beta1, m, f.rest1 * u);
    p = fmaf(f.decay, p, p) - u;
}

template <class G, class P, bool PACKED>
__device__ static void tile_update(const struct adafactor_row &r, const struct tile &t, const struct adafactor_rates &f,
                                   const struct rounding &rounding)
{
    double mean = mean_of_rows(r, t);
    float factor[GROUPS][FOUR];
    load_factors<PACKED>(factor, r, t);
    for (int i = threadIdx.x / 32; i < t.rows; i += WARPS) {
        float by_row = row_factor(r, t.row + i, mean, f.coef);
        int64_t at = (t.row + i) * r.k.columns + t.column;
#pragma unroll
        for (int k = 0; k < GROUPS; k += PART) {
            float p[PART][FOUR], g[PART][FOUR], m[PART][FOUR] = {};
            load_row<PACKED>(g, (const G *)r.u.g + at, t.columns, k);
            load_row<PACKED>(p, (const P *)r.u.p + at, t.columns, k);
            if (r.m)
                load_row<PACKED>(m, (const P *)r.m + at, t.columns, k);
#pragma unroll
            for (int l = 0; l < PART; l++)
#pragma unroll
                for (int e = 0; e < FOUR; e++)
                    update_element(f, r.m != NULL, p[l][e], g[l][e] * (factor[k + l][e] * by_row), m[l][e]);
            store_row<PACKED>(p, t.columns, k, [&](int c, const auto &x) {
                store_stored((P *)r.u.p, at + c, x, rounding, ROUND_WEIGHT);
                store_as(r.u.copy_type, r.u.copy, at + c, x);
            });
            if (r.m)
                store_row<PACKED>(m, t.columns, k, [&](int c, const auto &x) {
                    store_stored((P *)r.m, at + c, x, rounding, ROUND_STATE1);
                });
        }
    }
}

template <class G, class P>
__device__ static void flat_update(const struct adafactor_row &r, const struct tile &t, const struct adafactor_rates &f,
                                   const struct rounding &rounding)
{
    for (int64_t i = t.index * FLAT + threadIdx.x; i < r.u.n && i < (t.index + 1) * FLAT; i += THREADS) {
        float p = to_float(((const P *)r.u.p)[i]), m = r.m ? to_float(((const P *)r.m)[i]) : 0;
        update_element(f, r.m != NULL, p, to_float(((const G *)r.u.g)[i]) * f.coef / sqrtf(r.v[i]), m);
        store_stored<1>((P *)r.u.p, i, {p}, rounding, ROUND_WEIGHT);
        if (r.m)
            store_stored<1>((P *)r.m, i, {m}, rounding, ROUND_STATE1);
        store_as<1>(r.u.copy_type, r.u.copy, i, {p});
    }
}

__global__ static void __launch_bounds__(THREADS, 2) update_kernel(const __grid_constant__ adafactor_table a)
{
    const struct adafactor_head &h = a.head;
    int row = find_row(a, (int)blockIdx.x);
    const struct adafactor_row &r = a.row[row];
    struct tile t = find_tile(r, (int)blockIdx.x - a.first[row]);
    struct adafactor_step s = read_step(h);
    if (s.coef < 0)
        return;
    int64_t tiles = tiles_of_all(r);
    double rms = sqrt(sum_of(r.s.squares, tiles) / (double)r.elements);
    double rms_p = h.scale_parameter ? sqrt(sum_of(r.s.weights, tiles) / (double)r.elements) : 0;
    double rate = adafactor_rate(s.lr, s.t, rms_p, h.eps2, h.scale_parameter, h.relative_step, h.warmup_init);
    struct adafactor_rates f = {s.coef, (float)(rate / fmax(1.0, rms / h.clip_threshold)),
                                (float)(-r.u.weight_decay * rate), h.beta1, h.rest1};
    struct rounding rounding = rounding_of(h.step, r.u.noise, r.u.first);
    WITH_STORED_TYPE(r.u.pure, P, {
        if (r.v)
            WITH_FLOAT_TYPE(r.u.type, G, (flat_update<G, P>(r, t, f, rounding)))
        else if (r.u.packed)
            WITH_FLOAT_TYPE(r.u.type, G, (tile_update<G, P, true>(r, t, f, rounding)))
        else
            WITH_FLOAT_TYPE(r.u.type, G, (tile_update<G, P, false>(r, t, f, rounding)))
    })
}

/* ---- launchers: a shard ---- */

/* What the parts have in common; what one has not is 0. */
template <class Args> static struct adafactor_head head_of(const Args *a)
{
    struct adafactor_head h = {};
    h.step = (const double *)a->step.data;
    h.coef = (const float *)a->coef.data;
    return h;
}

/* Of a part with g: where it lies in its matrices, and what all of these are. */
template <class Args> static struct adafactor_row row_of(const Args *a, int64_t columns, int64_t elements)
{
    struct adafactor_row r = {};
    r.u.g = a->g.data;
    r.u.type = (uint8_t)a->g.dtype;
    r.u.n = tensor_elements(&a->g);
    r.row = (float *)a->row.data;
    r.k = adafactor_part(r.u.n, a->g.first, a->rows, columns);
    r.elements = elements;
    return r;
}

extern "C" int64_t cuda_adafactor_sums_workspace(const struct args_adafactor_sums *a, const struct cuda_call *c)
{
    (void)c;
    return (adafactor_column_tiles(a->columns) * tensor_elements(&a->row) * 4 + 255) / 256 * 256;
}

extern "C" int cuda_adafactor_sums_many(const struct args_adafactor_sums *const *a, int n, const struct cuda_call *c)
{
    adafactor_table all;
    all.head = head_of(a[0]);
    all.head.eps1 = (float)a[0]->eps1;
    all.head.decay_rate = a[0]->decay_rate;
    all.head.scale_parameter = a[0]->weight_sums.data != NULL;
    char *scratch = (char *)c->workspace;
    launch_many(
        &all, a, n,
        [&](struct adafactor_row *r, const struct args_adafactor_sums *x) {
            *r = row_of(x, x->columns, 0);
            r->u.p = x->p.data;
            r->u.pure = x->p.dtype == DT_BF16;
            r->u.packed = x->columns % FOUR == 0 && fits_packs(&x->g, FOUR) && fits_packs(&x->p, FOUR);
            r->s = {NULL, (double *)x->weight_sums.data, (double *)x->row_sums.data, (float *)x->col_sums.data};
            r->by_row = (float *)scratch;
            scratch += cuda_adafactor_sums_workspace(x, c);
            return row_tiles_of(r->k) * r->k.column_tiles;
        },
        [=](const adafactor_table &t) {
            sums_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t);
            moments_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t, false);
        });
    return cuda_launched(c, "adafactor_sums");
}

extern "C" int cuda_adafactor_sums(const struct args_adafactor_sums *a, const struct cuda_call *c)
{
    return cuda_adafactor_sums_many(&a, 1, c);
}

static struct adafactor_row squares_row(const struct args_adafactor_squares *x)
{
    int64_t columns = adafactor_columns(&x->col);
    struct adafactor_row r = row_of(x, columns, tensor_elements(&x->col) * x->rows);
    r.col = (float *)x->col.data;
    r.u.packed = columns % FOUR == 0 && fits_packs(&x->g, FOUR) && fits_packs(&x->col, FOUR);
    r.s = {(double *)x->squares.data, NULL, (double *)x->row_sums.data, (float *)x->col_sums.data};
    return r;
}

extern "C" int cuda_adafactor_squares_many(const struct args_adafactor_squares *const *a, int n,
                                           const struct cuda_call *c)
{
    adafactor_table all;
    all.head = head_of(a[0]);
    all.head.eps1 = (float)a[0]->eps1;
    all.head.decay_rate = a[0]->decay_rate;
    launch_many(
        &all, a, n,
        [](struct adafactor_row *r, const struct args_adafactor_squares *x) {
            *r = squares_row(x);
            return tensor_elements(&x->col) / r->k.columns * r->k.column_tiles;
        },
        [=](const adafactor_table &t) { columns_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t); });
    launch_many(
        &all, a, n,
        [](struct adafactor_row *r, const struct args_adafactor_squares *x) {
            *r = squares_row(x);
            return row_tiles_of(r->k) * r->k.column_tiles;
        },
        [=](const adafactor_table &t) { squares_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t); });
    return cuda_launched(c, "adafactor_squares");
}

extern "C" int cuda_adafactor_squares(const struct args_adafactor_squares *a, const struct cuda_call *c)
{
    return cuda_adafactor_squares_many(&a, 1, c);
}

/* Of what adafactor and adafactor_apply are given. */
template <class Args> static struct adafactor_head update_head(const Args *a)
{
    struct adafactor_head h = head_of(a);
    h.eps2 = a->eps2;
    h.clip_threshold = a->clip_threshold;
    h.beta1 = (float)a->beta1;
    h.rest1 = (float)(1 - a->beta1);
    h.scale_parameter = a->scale_parameter != 0;
    h.relative_step = a->relative_step != 0;
    h.warmup_init = a->warmup_init != 0;
    return h;
}

extern "C" int cuda_adafactor_apply_many(const struct args_adafactor_apply *const *a, int n, const struct cuda_call *c)
{
    adafactor_table all;
    all.head = update_head(a[0]);
    launch_many(
        &all, a, n,
        [](struct adafactor_row *r, const struct args_adafactor_apply *x) {
            int64_t columns = adafactor_columns(&x->col);
            *r = row_of(x, columns, tensor_elements(&x->col) * x->rows);
            r->u = updated_of(x, columns % FOUR == 0 && fits_packs(&x->m, FOUR) && fits_packs(&x->col, FOUR));
            r->col = (float *)x->col.data;
            r->m = x->m.data;
            r->s = {(double *)x->squares.data, (double *)x->weight_sums.data, (double *)x->row_sums.data, NULL};
            return row_tiles_of(r->k) * r->k.column_tiles;
        },
        [=](const adafactor_table &t) { update_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t); });
    return cuda_launched(c, "adafactor_apply");
}

extern "C" int cuda_adafactor_apply(const struct args_adafactor_apply *a, const struct cuda_call *c)
{
    return cuda_adafactor_apply_many(&a, 1, c);
}

/* ---- launchers: whole tensors ---- */

/* Where the sums lie in the workspace behind `base`, which is aligned to 256. Gives its bytes, a multiple of 256; with NULL only these. */
static int64_t lay_out(struct adafactor_row *r, char *base)
{
    const int64_t rows = r->v ? 0 : row_tiles_of(r->k), tiles = r->v ? pieces_of(r->u.n) : rows * r->k.column_tiles;
    int64_t at = 0;
    r->s.squares = (double *)base, at += tiles * 8;
    r->s.weights = (double *)(base + at), at += tiles * 8;
    r->s.sum_r = (double *)(base + at), at += rows * 8;
    r->s.by_column = (float *)(base + at), at += rows * r->k.columns * 4;
    r->by_row = (float *)(base + at), at += rows ? r->k.column_tiles * r->k.lead * r->k.rows * 4 : 0;
    return (at + 255) / 256 * 256;
}

static struct adafactor_row whole_row(const struct args_adafactor *x)
{
    struct adafactor_shape s = adafactor_shape(&x->p);
    struct adafactor_row r = {};
    r.u = updated_of(x, s.columns % FOUR == 0 && fits_packs(&x->m, FOUR) && fits_packs(&x->col, FOUR));
    r.row = (float *)x->row.data;
    r.col = (float *)x->col.data;
    r.v = (float *)x->v.data;
    r.m = x->m.data;
    r.k = adafactor_part(s.n, 0, s.rows, s.columns);
    r.elements = s.n;
    return r;
}

extern "C" int64_t cuda_adafactor_workspace(const struct args_adafactor *a, const struct cuda_call *c)
{
    (void)c;
    struct adafactor_row r = whole_row(a);
    return lay_out(&r, NULL);
}

static void launch(const adafactor_table &t, const struct cuda_call *c)
{
    sums_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t);
    moments_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t, true);
    squares_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t);
    update_kernel<<<t.chunks, THREADS, 0, c->stream>>>(t);
}

extern "C" int cuda_adafactor_many(const struct args_adafactor *const *a, int n, const struct cuda_call *c)
{
    adafactor_table all;
    all.head = update_head(a[0]);
    all.head.eps1 = (float)a[0]->eps1;
    all.head.decay_rate = a[0]->decay_rate;
    char *scratch = (char *)c->workspace;
    launch_many(
        &all, a, n,
        [&](struct adafactor_row *r, const struct args_adafactor *x) {
            *r = whole_row(x);
            scratch += lay_out(r, scratch);
            return !r->u.n ? 0 : r->v ? pieces_of(r->u.n) : row_tiles_of(r->k) * r->k.column_tiles;
        },
        [=](const adafactor_table &t) { launch(t, c); });
    return cuda_launched(c, "adafactor");
}

extern "C" int cuda_adafactor(const struct args_adafactor *a, const struct cuda_call *c)
{
    return cuda_adafactor_many(&a, 1, c);
}
