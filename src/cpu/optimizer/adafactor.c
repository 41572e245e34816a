/* Adafactor (op/optimizer/adafactor.c) in three passes over g: sums of squares by row and column; sum of U^2; the update. Bound by
 * memory: 12 bytes of g and 8 of p a parameter (12 more with a first moment), nothing of the tensor's size besides. The three parts of the
 * update of a shard are a pass each.
 *
 * A matrix is cut into tiles by its shape alone (op/optimizer/adafactor.h). Sums by column are made within a tile over groups of four
 * rows, then over the tiles; sums of U^2 and p^2 by row of a tile, then over its rows, then over the tiles. A tensor that is no matrix
 * is cut into chunks of FLAT elements. */
#include "op/optimizer/adafactor.h"
#include "cpu/kernels.h"
#include "cpu/optimizer/stored.h"

enum { FLAT = 4096 };

/* The factors of a step. */
struct rates {
    float coef, beta2, rest2, eps1;
    float beta1, rest1, decay, scale;
};

static struct rates rates_of(const struct tensor *coef, const struct tensor *step, double decay_rate, double eps1)
{
    double beta2 = adafactor_beta2(decay_rate, ((const double *)step->data)[STEP_UPDATE]);
    return (struct rates){.coef = coef->data ? *(const float *)coef->data : 1,
                          .beta2 = (float)beta2,
                          .rest2 = (float)(1 - beta2),
                          .eps1 = (float)eps1};
}

static int64_t padded(int64_t elements)
{
    return (elements + 15) / 16 * 16;
}

static int threads_for(const struct adafactor_part *k, const struct call *c)
{
    return k->lead * k->rows * k->columns < PARALLEL_FROM ? 1 : c->threads;
}

/* ---- sums by row and column ---- */

/* Of the elements [at, at + n) of x. */
SIMD double square_sum(const void *x, int64_t at, int64_t n, bool pure)
{
    vf sum = {0};
    for (int64_t i = 0; i < n; i += VF_LANES) {
        vf v = vf_get_upto(x, at + i, n - i, pure);
        sum = vf_fma(v, v, sum);
    }
    return (double)vf_hsum(sum);
}

/* The columns of tile c, up to `end`. */
static int64_t end_of(const struct adafactor_part *k, int64_t c)
{
    int64_t end = (c + 1) * ADAFACTOR_COLUMNS;
    return end < k->columns ? end : k->columns;
}

/* Of the rows r: the sums of their p^2 by the tile of the column. */
SIMD void sum_weights(const struct tensor *p, const struct adafactor_part *k, struct adafactor_rows r, double *sums)
{
    memset(sums, 0, sizeof *sums * (size_t)k->column_tiles);
    for (int64_t i = r.from; i < r.end; i++)
        for (int64_t c = 0; c < k->column_tiles; c++) {
            int64_t from = c * ADAFACTOR_COLUMNS;
            sums[c] += square_sum(p->data, i * k->columns + from, end_of(k, c) - from, p->dtype == DT_BF16);
        }
}

/* Rows [row, row + n), n <= 4, of g: their squares into `column`, and R. */
SIMD void count_rows(const struct args_adafactor_sums *a, const struct rates *f, int64_t row, int n, float *column,
                     bool narrow)
{
    vf coef = vf_set1(f->coef), sum[4] = {{0}};
    float *R = (float *)a->row.data + row;
    for (int64_t j = 0; j < a->columns; j += VF_LANES) {
        int64_t left = a->columns - j;
        vf q[4] = {{0}};
        for (int i = 0; i < n; i++) {
            vf g = vf_get_upto(a->g.data, (row + i) * a->columns + j, left, narrow) * coef;
            q[i] = g * g;
            sum[i] = sum[i] + q[i];
        }
        vf_put_upto(column, j, vf_get_upto(column, j, left, false) + ((q[0] + q[1]) + (q[2] + q[3])), left, false);
    }
    for (int i = 0; i < n; i++)
        R[i] = f->beta2 * R[i] + f->rest2 * (vf_hsum(sum[i]) / (float)a->columns + f->eps1);
}

SIMD void sums(const struct args_adafactor_sums *a, const struct adafactor_part *k, const struct rates *f, int threads,
               bool narrow)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < k->lead * k->row_tiles; t++) {
        struct adafactor_rows r = adafactor_rows(k, t);
        float *column = (float *)a->col_sums.data + t * a->columns;
        double *row_sum = (double *)a->row_sums.data + t;
        memset(column, 0, sizeof *column * (size_t)a->columns);
        int64_t i = r.from;
        for (; i + 4 <= r.end; i += 4)
            count_rows(a, f, i, 4, column, narrow);
        for (; i < r.end; i++)
            count_rows(a, f, i, 1, column, narrow);
        *row_sum = 0;
        for (i = r.from; i < r.end; i++)
            *row_sum += (double)((const float *)a->row.data)[i];
        if (a->weight_sums.data)
            sum_weights(&a->p, k, r, (double *)a->weight_sums.data + t * k->column_tiles);
    }
}

void ISA(cpu_adafactor_sums)(const struct args_adafactor_sums *a, const struct call *c)
{
    struct adafactor_part k = adafactor_part(tensor_elements(&a->g), a->g.first, a->rows, a->columns);
    struct rates f = rates_of(&a->coef, &a->step, a->decay_rate, a->eps1);
    if (f.coef >= 0)
        a->g.dtype == DT_BF16 ? sums(a, &k, &f, threads_for(&k, c), true) : sums(a, &k, &f, threads_for(&k, c), false);
}

/* ---- C, and the sum of U^2 ---- */

/* Of a part: what each of its rows and columns is divided by, from the moments and the sums of all ranks. */
struct factors {
    double *mean; /* (lead): of R */
    float *col;   /* (lead, columns): 1 / sqrt(C) */
};

static int64_t lay_out(struct factors *w, const struct adafactor_part *k, void *workspace)
{
    w->mean = workspace;
    w->col = (float *)(w->mean + padded(k->lead));
    return padded(k->lead) * 8 + padded(k->lead * k->columns) * 4;
}

SIMD struct factors find_factors(const struct adafactor_part *k, const struct tensor *col,
                                 const struct tensor *row_sums, void *workspace)
{
    struct factors w;
    lay_out(&w, k, workspace);
    for (int64_t l = 0; l < k->lead; l++)
        w.mean[l] = adafactor_mean(row_sums->data, k, l);
    for (int64_t j = 0, n = k->lead * k->columns; j < n; j += VF_LANES)
        vf_put_upto(w.col, j, 1 / vf_sqrt(vf_get_upto(col->data, k->matrix * k->columns + j, n - j, false)), n - j,
                    false);
    return w;
}

static float row_factor(const struct adafactor_part *k, const struct factors *w, const float *R, int64_t row)
{
    return (float)sqrt(w->mean[row / k->rows] / (double)R[row]);
}

SIMD void update_columns(const struct args_adafactor_squares *a, const struct rates *f, int threads)
{
    const int64_t columns = adafactor_columns(&a->col), tiles = adafactor_row_tiles(a->rows),
                  pieces = (columns + VF_LANES - 1) / VF_LANES, matrices = tensor_elements(&a->col) / columns;
    vf beta2 = vf_set1(f->beta2), rest2 = vf_set1(f->rest2), eps1 = vf_set1(f->eps1), rows = vf_set1((float)a->rows);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t k = 0; k < matrices * pieces; k++) {
        int64_t j = k % pieces * VF_LANES, left = columns - j, at = k / pieces * columns + j;
        const float *first = (const float *)a->col_sums.data + k / pieces * tiles * columns;
        vf sum = {0};
        for (int64_t t = 0; t < tiles; t++)
            sum = sum + vf_get_upto(first, t * columns + j, left, false);
        vf C = vf_fma(beta2, vf_get_upto(a->col.data, at, left, false), rest2 * (sum / rows + eps1));
        vf_put_upto(a->col.data, at, C, left, false);
    }
}

/* Of the columns [from, end) of a row, the sum of U^2 but for the row's factor r. */
SIMD double row_squares(const void *g, int64_t row, const float *factor, int64_t from, int64_t end, vf r, bool narrow)
{
    vf sum = {0}, sum2 = {0};
    for (int64_t j = from; j < end; j += 2 * VF_LANES) {
        int64_t at = row + j, left = end - j;
        vf u = vf_get_upto(g, at, left, narrow) * (vf_get_upto(factor, j, left, false) * r);
        sum = vf_fma(u, u, sum);
        if (left > VF_LANES) {
            vf u2 = vf_get_upto(g, at + VF_LANES, left - VF_LANES, narrow) *
                    (vf_get_upto(factor, j + VF_LANES, left - VF_LANES, false) * r);
            sum2 = vf_fma(u2, u2, sum2);
        }
    }
    return (double)vf_hsum(sum + sum2);
}

SIMD void squares(const struct args_adafactor_squares *a, const struct adafactor_part *k, const struct factors *w,
                  float coef, int threads, bool narrow)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < k->lead * k->row_tiles; t++) {
        struct adafactor_rows r = adafactor_rows(k, t);
        const float *factor = w->col + r.from / k->rows * k->columns;
        double *sums = (double *)a->squares.data + t * k->column_tiles;
        memset(sums, 0, sizeof *sums * (size_t)k->column_tiles);
        for (int64_t i = r.from; i < r.end; i++) {
            vf by_row = vf_set1(row_factor(k, w, a->row.data, i) * coef);
            for (int64_t c = 0; c < k->column_tiles; c++)
                sums[c] +=
                    row_squares(a->g.data, i * k->columns, factor, c * ADAFACTOR_COLUMNS, end_of(k, c), by_row, narrow);
        }
    }
}

int64_t ISA(cpu_adafactor_squares_workspace)(const struct args_adafactor_squares *a, int threads)
{
    (void)threads;
    struct adafactor_part k = adafactor_part(tensor_elements(&a->g), a->g.first, a->rows, adafactor_columns(&a->col));
    static char nowhere[1]; /* only sizes are wanted */
    return lay_out(&(struct factors){0}, &k, nowhere);
}

void ISA(cpu_adafactor_squares)(const struct args_adafactor_squares *a, const struct call *c)
{
    struct adafactor_part k = adafactor_part(tensor_elements(&a->g), a->g.first, a->rows, adafactor_columns(&a->col));
    struct rates f = rates_of(&a->coef, &a->step, a->decay_rate, a->eps1);
    int threads = threads_for(&k, c);
    if (f.coef < 0)
        return;
    update_columns(a, &f, threads);
    struct factors w = find_factors(&k, &a->col, &a->row_sums, c->workspace);
    a->g.dtype == DT_BF16 ? squares(a, &k, &w, f.coef, threads, true) : squares(a, &k, &w, f.coef, threads, false);
}

/* ---- the update ---- */

/* How the tensors of a kernel are stored: g, the copy, and p and m. Constants after inlining. */
struct types {
    bool narrow, narrow_copy, pure;
};

/* What a thread updates. */
struct updated {
    struct stored p, m;
    void *copy;
};

SIMD struct updated updated_of(const struct args_adafactor_apply *a)
{
    return (struct updated){stored_of(&a->p, a->step.data, a->noise, ROUND_WEIGHT),
                            stored_of(&a->m, a->step.data, a->noise, ROUND_STATE1), a->copy.data};
}

/* The update of elements [at, at + n), n up to a vector: u is U before its clipping. */
SIMD void update(struct updated *x, const struct rates *f, int64_t at, int64_t n, vf u, struct types t)
{
    vf p = stored_get(&x->p, at, n, t.pure);
    u = u * f->scale;
    if (x->m.data) {
        u = vf_fma(vf_set1(f->beta1), stored_get(&x->m, at, n, t.pure), u * f->rest1);
        stored_put(&x->m, at, u, n, t.pure);
    }
    p = vf_fma(vf_set1(f->decay), p, p) - u;
    stored_put(&x->p, at, p, n, t.pure);
    if (x->copy)
        vf_put_upto(x->copy, at, p, n, t.narrow_copy);
}

/* By the sums of U^2 and p^2 of n elements. */
static void choose_rate(const struct args_adafactor_apply *a, double squares, double weights, int64_t n,
                        struct rates *f)
{
    const double *step = a->step.data;
    double rms = sqrt(squares / (double)n);
    double rate = adafactor_rate(step[STEP_LR], step[STEP_UPDATE], sqrt(weights / (double)n), a->eps2,
                                 a->scale_parameter, a->relative_step, a->warmup_init);
    f->beta1 = (float)a->beta1;
    f->rest1 = (float)(1 - a->beta1);
    f->decay = (float)(-a->weight_decay * rate);
    f->scale = (float)(rate / fmax(1, rms / a->clip_threshold));
}

SIMD void apply(const struct args_adafactor_apply *a, const struct adafactor_part *k, const struct factors *w,
                const struct rates *f, int threads, struct types t)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < k->lead * k->rows; row++) {
        vf r = vf_set1(row_factor(k, w, a->row.data, row) * f->coef);
        const float *factor = w->col + row / k->rows * k->columns;
        struct updated x = updated_of(a);
        for (int64_t j = 0; j < k->columns; j += VF_LANES) {
            int64_t left = k->columns - j, at = row * k->columns + j;
            vf g = vf_get_upto(a->g.data, at, left, t.narrow);
            update(&x, f, at, left, g * (vf_get_upto(factor, j, left, false) * r), t);
        }
    }
}

int64_t ISA(cpu_adafactor_apply_workspace)(const struct args_adafactor_apply *a, int threads)
{
    (void)threads;
    struct adafactor_part k = adafactor_part(tensor_elements(&a->p), a->p.first, a->rows, adafactor_columns(&a->col));
    static char nowhere[1];
    return lay_out(&(struct factors){0}, &k, nowhere);
}

static double sum_of(const struct tensor *sums)
{
    double sum = 0;
    for (int64_t i = 0; sums->data && i < tensor_elements(sums); i++)
        sum += ((const double *)sums->data)[i];
    return sum;
}

/* Calls f with the types of the tensors of `a`, which has p, g and copy. */
#define WITH_TYPES(f, a, ...)                                                                                          \
    do {                                                                                                               \
        bool narrow_copy = (a)->copy.dtype == DT_BF16, narrow = (a)->g.dtype == DT_BF16;                               \
        if ((a)->p.dtype == DT_BF16)                                                                                   \
            narrow ? f(__VA_ARGS__, (struct types){true, false, true})                                                 \
                   : f(__VA_ARGS__, (struct types){false, false, true});                                               \
        else                                                                                                           \
            narrow ? f(__VA_ARGS__, (struct types){true, narrow_copy, false})                                          \
                   : f(__VA_ARGS__, (struct types){false, narrow_copy, false});                                        \
    } while (0)

void ISA(cpu_adafactor_apply)(const struct args_adafactor_apply *a, const struct call *c)
{
    struct adafactor_part k = adafactor_part(tensor_elements(&a->p), a->p.first, a->rows, adafactor_columns(&a->col));
    struct rates f = {.coef = a->coef.data ? *(const float *)a->coef.data : 1};
    if (f.coef < 0 || !k.rows)
        return;
    choose_rate(a, sum_of(&a->squares), sum_of(&a->weight_sums), tensor_elements(&a->col) * a->rows, &f);
    struct factors w = find_factors(&k, &a->col, &a->row_sums, c->workspace);
    WITH_TYPES(apply, a, a, &k, &w, &f, threads_for(&k, c));
}

/* ---- a whole tensor ---- */

/* Its sums, in the order of their places. */
struct sums {
    double *weights, *squares; /* of p^2 and of U^2: (lead, row_tiles, column_tiles), or (chunks) */
    double *rows;              /* (lead, row_tiles): of R */
    float *columns;            /* (lead, row_tiles, columns): of g^2 */
    void *rest;                /* what the parts want */
};

static int64_t lay_out_sums(struct sums *w, const struct adafactor_shape *s, void *workspace)
{
    struct adafactor_part k = adafactor_part(s->n, 0, s->rows, s->columns);
    int64_t tiles = s->factored ? k.lead * k.row_tiles : 0, n = tiles * k.column_tiles;
    n = padded(s->factored ? n : (s->n + FLAT - 1) / FLAT);
    w->weights = workspace;
    w->squares = w->weights + n;
    w->rows = w->squares + n;
    w->columns = (float *)(w->rows + padded(tiles));
    w->rest = w->columns + padded(tiles * s->columns);
    return (char *)w->rest - (char *)workspace + (s->factored ? lay_out(&(struct factors){0}, &k, w->rest) : 0);
}

int64_t ISA(cpu_adafactor_workspace)(const struct args_adafactor *a, int threads)
{
    (void)threads;
    struct adafactor_shape s = adafactor_shape(&a->p);
    struct sums w;
    static char nowhere[1];
    return lay_out_sums(&w, &s, nowhere);
}

static struct tensor vector(void *data, int64_t n, enum dtype type)
{
    return (struct tensor){.data = data, .shape = {n}, .dtype = type, .ndim = 1};
}

static void update_matrices(const struct args_adafactor *a, const struct adafactor_shape *s, const struct sums *w,
                            const struct call *c)
{
    struct adafactor_part k = adafactor_part(s->n, 0, s->rows, s->columns);
    int64_t tiles = k.lead * k.row_tiles;
    struct call with = {.workspace = w->rest, .threads = c->threads};
    struct args_adafactor_apply third = adafactor_last_part(a);
    struct args_adafactor_sums first = {.row = a->row,
                                        .g = a->g,
                                        .step = a->step,
                                        .coef = a->coef,
                                        .eps1 = a->eps1,
                                        .decay_rate = a->decay_rate,
                                        .rows = s->rows,
                                        .columns = s->columns};
    first.col_sums = vector(w->columns, tiles * s->columns, DT_F32);
    first.row_sums = third.row_sums = vector(w->rows, tiles, DT_F64);
    if (a->scale_parameter) {
        first.p = a->p;
        first.weight_sums = third.weight_sums = vector(w->weights, tiles * k.column_tiles, DT_F64);
    }
    struct args_adafactor_squares second = {.col = a->col,
                                            .g = a->g,
                                            .row = a->row,
                                            .col_sums = first.col_sums,
                                            .row_sums = first.row_sums,
                                            .step = a->step,
                                            .coef = a->coef,
                                            .eps1 = a->eps1,
                                            .decay_rate = a->decay_rate,
                                            .rows = s->rows};
    second.squares = third.squares = vector(w->squares, tiles * k.column_tiles, DT_F64);
    ISA(cpu_adafactor_sums)(&first, &with);
    ISA(cpu_adafactor_squares)(&second, &with);
    ISA(cpu_adafactor_apply)(&third, &with);
}

SIMD void update_vector(const struct args_adafactor *a, int64_t n, const struct sums *w, struct rates *f, int threads,
                        struct types t)
{
    const struct args_adafactor_apply last = adafactor_last_part(a);
    vf coef = vf_set1(f->coef), beta2 = vf_set1(f->beta2), rest2 = vf_set1(f->rest2), eps1 = vf_set1(f->eps1);
    int64_t blocks = (n + FLAT - 1) / FLAT;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < blocks; b++) {
        int64_t from = b * FLAT, to = from + FLAT < n ? from + FLAT : n;
        vf sum = {0};
        for (int64_t i = from; i < to; i += VF_LANES) {
            vf g = vf_get_upto(a->g.data, i, to - i, t.narrow) * coef;
            vf v = vf_fma(beta2, vf_get_upto(a->v.data, i, to - i, false), rest2 * (g * g + eps1));
            vf_put_upto(a->v.data, i, v, to - i, false);
            vf u = g / vf_sqrt(v);
            u = vf_where(vi_iota() < vi_set1((int32_t)(to - i < VF_LANES ? to - i : VF_LANES)), u);
            sum = vf_fma(u, u, sum);
        }
        w->squares[b] = (double)vf_hsum(sum);
        w->weights[b] = a->scale_parameter ? square_sum(a->p.data, from, to - from, t.pure) : 0;
    }
    struct tensor squares = vector(w->squares, blocks, DT_F64), weights = vector(w->weights, blocks, DT_F64);
    choose_rate(&last, sum_of(&squares), sum_of(&weights), n, f);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < blocks; b++) {
        struct updated x = updated_of(&last);
        for (int64_t i = b * FLAT; i < (b + 1) * FLAT && i < n; i += VF_LANES) {
            vf v = vf_get_upto(a->v.data, i, n - i, false);
            update(&x, f, i, n - i, vf_get_upto(a->g.data, i, n - i, t.narrow) * coef / vf_sqrt(v), t);
        }
    }
}

void ISA(cpu_adafactor)(const struct args_adafactor *a, const struct call *c)
{
    struct adafactor_shape s = adafactor_shape(&a->p);
    struct rates f = rates_of(&a->coef, &a->step, a->decay_rate, a->eps1);
    struct sums w;
    if (f.coef < 0 || !s.n)
        return;
    lay_out_sums(&w, &s, c->workspace);
    if (s.factored)
        update_matrices(a, &s, &w, c);
    else
        WITH_TYPES(update_vector, a, a, s.n, &w, &f, s.n < PARALLEL_FROM ? 1 : c->threads);
}
