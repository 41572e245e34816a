/* adafactor.h: what the kernels of adafactor share: how a tensor is cut into matrices, and the factors of a step. */
#ifndef OP_ADAFACTOR_H
#define OP_ADAFACTOR_H

#include "base/philox.h"
#include "graph/op.h"

#include <math.h>

/* A tensor of two or more dimensions is `lead` matrices (rows, columns); one of fewer is not factored. */
struct adafactor_shape {
    int64_t lead, rows, columns, n;
    bool factored;
};

static inline struct adafactor_shape adafactor_shape(const struct tensor *p)
{
    struct adafactor_shape s = {.lead = 1, .rows = 1, .columns = 1, .factored = p->ndim >= 2};
    for (int i = 0; i < p->ndim - 2; i++)
        s.lead *= p->shape[i];
    if (s.factored)
        s.rows = p->shape[p->ndim - 2];
    if (p->ndim >= 1)
        s.columns = p->shape[p->ndim - 1];
    s.n = s.lead * s.rows * s.columns;
    return s;
}

/* A matrix is cut into tiles of so many rows and columns, by its shape alone. Sums that all of a tensor goes into are made of those of
 * tiles, so shards that begin with a tile (pass/owners.c) bring the bits of the whole. */
enum { ADAFACTOR_ROWS = 128, ADAFACTOR_COLUMNS = 1024 };

/* What a rank has of a stack of matrices (whole_rows, columns): rows of one matrix, or whole matrices. */
struct adafactor_part {
    int64_t lead, rows, columns, whole_rows;
    int64_t row_tiles, column_tiles; /* of a matrix here */
    int64_t matrix;                  /* the number of the first one */
    int64_t tile;                    /* of the first row of tiles, counted through all matrices */
};

ON_DEVICE static inline int64_t adafactor_row_tiles(int64_t rows)
{
    return (rows + ADAFACTOR_ROWS - 1) / ADAFACTOR_ROWS;
}

ON_DEVICE static inline int64_t adafactor_column_tiles(int64_t columns)
{
    return (columns + ADAFACTOR_COLUMNS - 1) / ADAFACTOR_COLUMNS;
}

/* Of n elements from `first` on. */
ON_DEVICE static inline struct adafactor_part adafactor_part(int64_t n, int64_t first, int64_t whole_rows,
                                                             int64_t columns)
{
    struct adafactor_part p = {1, 0, columns, whole_rows, 0, adafactor_column_tiles(columns), 0, 0};
    int64_t matrix = whole_rows * columns;
    if (!n)
        return p;
    p.lead = n > matrix ? n / matrix : 1;
    p.rows = n / p.lead / columns;
    p.row_tiles = adafactor_row_tiles(p.rows);
    p.matrix = first / matrix;
    p.tile = p.matrix * adafactor_row_tiles(whole_rows) + first % matrix / columns / ADAFACTOR_ROWS;
    return p;
}

/* The rows [from, end) of a row of tiles, counted through those of the part. */
struct adafactor_rows {
    int64_t from, end;
};

static inline struct adafactor_rows adafactor_rows(const struct adafactor_part *k, int64_t t)
{
    int64_t first = t / k->row_tiles * k->rows, from = first + t % k->row_tiles * ADAFACTOR_ROWS,
            end = from + ADAFACTOR_ROWS, last = first + k->rows;
    struct adafactor_rows r = {from, end < last ? end : last};
    return r;
}

/* adafactor_apply of a whole tensor, but for the sums. */
static inline struct args_adafactor_apply adafactor_last_part(const struct args_adafactor *a)
{
    struct args_adafactor_apply last = {0};
    last.p = a->p, last.g = a->g, last.row = a->row, last.col = a->col, last.m = a->m;
    last.step = a->step, last.coef = a->coef, last.copy = a->copy;
    last.eps2 = a->eps2, last.clip_threshold = a->clip_threshold, last.beta1 = a->beta1;
    last.weight_decay = a->weight_decay, last.noise = a->noise, last.rows = adafactor_shape(&a->p).rows;
    last.scale_parameter = a->scale_parameter, last.relative_step = a->relative_step;
    last.warmup_init = a->warmup_init;
    return last;
}

/* Of C, which each rank has whole: (…,columns). */
static inline int64_t adafactor_columns(const struct tensor *col)
{
    return col->shape[col->ndim - 1];
}

/* The mean of R of a matrix of the part, by the sums of all its tiles. */
static inline double adafactor_mean(const double *row_sums, const struct adafactor_part *p, int64_t matrix)
{
    int64_t tiles = adafactor_row_tiles(p->whole_rows), first = (p->matrix + matrix) * tiles;
    double sum = 0;
    for (int64_t t = first; t < first + tiles; t++)
        sum += row_sums[t];
    return sum / (double)p->whole_rows;
}

/* beta2_t = 1 - t^decay_rate, and the step size but for max(1, rms(U) / clip_threshold). rms_p: of the parameter, before
 * the update; not looked at without scale_parameter. */
ON_DEVICE static inline double adafactor_beta2(double decay_rate, double t)
{
    return 1 - pow(t, decay_rate);
}

ON_DEVICE static inline double adafactor_rate(double lr, double t, double rms_p, double eps2, bool scale_parameter,
                                              bool relative_step, bool warmup_init)
{
    double most = warmup_init ? 1e-6 * t : 1e-2, a = relative_step ? fmin(most, 1 / sqrt(t)) : lr;
    return scale_parameter ? a * fmax(eps2, rms_p) : a;
}

#endif
