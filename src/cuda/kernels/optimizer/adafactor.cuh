/* adafactor.cuh: how adafactor.cu cuts tensors into tiles, a block each, and what its launches hand on. */
#ifndef CUDA_KERNELS_ADAFACTOR_CUH
#define CUDA_KERNELS_ADAFACTOR_CUH

#include "cuda/kernels/optimizer/update.cuh"

extern "C" {
#include "op/optimizer/adafactor.h"
}

enum { THREADS = 256, WARPS = THREADS / 32, FLAT = 16384 };
enum { FOUR = 4, GROUPS = ADAFACTOR_COLUMNS / (32 * FOUR), PART = 4 /* of the groups, updated at a time */ };

/* What is the same for all tensors of a launch. */
struct adafactor_head {
    const double *step; /* enum step_scalar */
    const float *coef;  /* (1): what gradients are multiplied with; NULL: 1. Below 0: the step is skipped */
    double eps2, clip_threshold, decay_rate;
    float eps1, beta1, rest1;
    bool scale_parameter, relative_step, warmup_init;
};

/* What the launches hand on, of each row of tiles of all matrices; those that write begin with the part's own. */
struct sums {
    double *squares,
        *weights;     /* (column_tiles): sums of U^2 and of p^2 of a tile; of a tensor that is no matrix, of a piece */
    double *sum_r;    /* (1): of R */
    float *by_column; /* (columns): of g^2 */
};

/* A tensor, or the shard of one: matrices, whose second moment is factored, or u.n elements. */
struct adafactor_row {
    struct updated u;
    float *row; /* R of the part; NULL where it is not factored */
    float *col; /* C of all matrices; likewise */
    float *v;   /* else the second moment, of the weight's shape; NULL where it is factored */
    void *m;    /* first moment, of the weight's type; NULL: none */
    struct sums s;
    float *by_row; /* (column_tiles, rows of the part): sums of g^2 */
    struct adafactor_part k;
    int64_t elements; /* of all shards */
};
typedef many<struct adafactor_head, struct adafactor_row> adafactor_table;

/* A tensor that is no matrix is cut into pieces of FLAT elements, each of which has sums as a tile has. */
static inline int64_t pieces_of(int64_t n)
{
    return (n + FLAT - 1) / FLAT;
}

__host__ __device__ static inline int64_t row_tiles_of(const struct adafactor_part &k)
{
    return k.lead * k.row_tiles;
}

/* How many tiles, or pieces, all ranks have: those of all matrices. */
__device__ static inline int64_t tiles_of_all(const struct adafactor_row &r)
{
    if (r.v)
        return (r.elements + FLAT - 1) / FLAT;
    return r.elements / (r.k.whole_rows * r.k.columns) * adafactor_row_tiles(r.k.whole_rows) * r.k.column_tiles;
}

/* The tile of a block. */
struct tile {
    int64_t index;     /* within the part */
    int64_t row_index; /* of the row of tiles that it is in */
    int64_t matrix;    /* counted through all of them */
    int at_column;
    int rows, columns; /* that it has */
    int64_t row;       /* its first, counted through those of the part */
    int column;
};

/* Tile number `index` of a part. */
__device__ static inline struct tile find_tile(const struct adafactor_row &r, int64_t index)
{
    const struct adafactor_part &k = r.k;
    struct tile t = {};
    t.index = index;
    if (r.v)
        return t;
    t.row_index = index / k.column_tiles;
    t.at_column = (int)(index % k.column_tiles);
    int64_t matrix = t.row_index / k.row_tiles, in_matrix = t.row_index % k.row_tiles * ADAFACTOR_ROWS;
    t.matrix = k.matrix + matrix;
    t.row = matrix * k.rows + in_matrix;
    t.column = t.at_column * ADAFACTOR_COLUMNS;
    t.rows = (int)min((int64_t)ADAFACTOR_ROWS, k.rows - in_matrix);
    t.columns = (int)min((int64_t)ADAFACTOR_COLUMNS, k.columns - t.column);
    return t;
}

#endif
