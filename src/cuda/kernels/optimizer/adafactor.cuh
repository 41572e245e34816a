/* adafactor.cuh: how adafactor.cu cuts tensors into tiles, a block each, and what its launches hand on. */
#ifndef CUDA_KERNELS_ADAFACTOR_CUH
#define CUDA_KERNELS_ADAFACTOR_CUH

#include "cuda/kernels/optimizer/update.cuh"

extern "C" {
#include "op/optimizer/adafactor.h"
}

enum { THREADS = 256, WARPS = THREADS / 32, ROWS = 128, COLUMNS = 1024, FLAT = 16384 };
enum { FOUR = 4, GROUPS = COLUMNS / (32 * FOUR), PART = 4 /* of the groups, updated at a time */ };

/* What is the same for all tensors of a launch. */
struct adafactor_head {
    const double *step; /* enum step_scalar */
    const float *coef;  /* (1): what gradients are multiplied with; NULL: 1. Below 0: the step is skipped */
    double eps2, clip_threshold, decay_rate;
    float eps1, beta1, rest1;
    bool scale_parameter, relative_step, warmup_init;
};

/* A tensor: `lead` matrices (rows,columns), whose second moment is factored, or u.n elements. */
struct adafactor_row {
    struct updated u;
    float *row, *col; /* (lead,rows), (lead,columns): means of the second moment; NULL where it is not factored */
    float *v;         /* else the second moment, of the weight's shape; NULL where it is factored */
    void *m;          /* first moment, of the weight's type; NULL: none */
    char *scratch;    /* the tensor's part of the call's workspace (lay_out) */
    int lead, rows, columns;
};
typedef many<struct adafactor_head, struct adafactor_row> adafactor_table;

/* ---- how a tensor is cut ---- */

/* A matrix in tiles of ROWS by COLUMNS; what is not factored, in pieces of FLAT elements. */
struct cut {
    int row_tiles, column_tiles; /* of a matrix */
    int64_t tiles;               /* of the tensor */
};

__host__ __device__ static inline struct cut cut_tensor(int64_t n, int lead, int rows, int columns, bool factored)
{
    struct cut c = {(rows + ROWS - 1) / ROWS, (columns + COLUMNS - 1) / COLUMNS, (n + FLAT - 1) / FLAT};
    if (factored)
        c.tiles = (int64_t)lead * c.row_tiles * c.column_tiles;
    return c;
}

/* What the launches hand on. */
struct scratch {
    double *squares, *weights; /* (tiles): sums of U^2 and of p^2 */
    double *sum_r;             /* (lead, row_tiles): of R */
    float *by_column;          /* (lead, row_tiles, columns): sums of g^2 */
    float *by_row;             /* (column_tiles, lead, rows): likewise */
    float *col_factor;         /* (lead, columns): 1 / sqrt(C) */
};

/* Where all of it lies behind `base`, which is aligned to 256. Gives its bytes, a multiple of 256; with NULL only these. */
__host__ __device__ static inline int64_t lay_out(struct scratch *s, char *base, const struct cut &c, int lead,
                                                  int rows, int columns, bool factored)
{
    int64_t at = 0, l = factored ? lead : 0;
    s->squares = (double *)base, at += c.tiles * 8;
    s->weights = (double *)(base + at), at += c.tiles * 8;
    s->sum_r = (double *)(base + at), at += l * c.row_tiles * 8;
    at = (at + 15) / 16 * 16;
    s->by_column = (float *)(base + at), at += l * c.row_tiles * columns * 4;
    at = (at + 15) / 16 * 16;
    s->by_row = (float *)(base + at), at += l * c.column_tiles * rows * 4;
    at = (at + 15) / 16 * 16;
    s->col_factor = (float *)(base + at), at += l * columns * 4;
    return (at + 255) / 256 * 256;
}

/* The tile of a block. */
struct tile {
    struct scratch s;
    struct cut c;
    int64_t index;      /* within the tensor */
    int matrix, at_row; /* number of the matrix, and of the tile among its rows */
    int at_column;
    int rows, columns; /* that it has */
    int64_t row;       /* its first, counted through all matrices */
    int column;
};

/* Tile number `index` of a tensor. */
__device__ static inline struct tile find_tile(const struct adafactor_row &r, int64_t index)
{
    struct tile t;
    bool factored = r.v == NULL;
    t.c = cut_tensor(r.u.n, r.lead, r.rows, r.columns, factored);
    lay_out(&t.s, r.scratch, t.c, r.lead, r.rows, r.columns, factored);
    t.index = index;
    int in_matrix = (int)(t.index % ((int64_t)t.c.row_tiles * t.c.column_tiles));
    t.matrix = (int)(t.index / ((int64_t)t.c.row_tiles * t.c.column_tiles));
    t.at_row = in_matrix / t.c.column_tiles;
    t.at_column = in_matrix % t.c.column_tiles;
    t.row = (int64_t)t.matrix * r.rows + t.at_row * ROWS;
    t.column = t.at_column * COLUMNS;
    t.rows = min(ROWS, r.rows - t.at_row * ROWS);
    t.columns = min(COLUMNS, r.columns - t.column);
    return t;
}

#endif
