/* Adafactor (op/optimizer/adafactor.c) in three passes over g: sums of squares by row and column; sum of U^2; the update. Bound by
 * memory: 12 bytes of g and 8 of p a parameter (12 more with a first moment), nothing of the tensor's size besides.
 *
 * A matrix is cut into blocks of whole rows, at most MOST_BLOCKS of them, by its shape alone. Sums by column are made
 * within a block over groups of four rows, then over the blocks; sums of U^2 and p^2 by row, then over the rows of a
 * block, then over the blocks. A tensor that is no matrix is cut into chunks of FLAT elements. */
#include "op/optimizer/adafactor.h"
#include "cpu/kernels.h"
#include "cpu/optimizer/stored.h"

enum { MOST_BLOCKS = 64, LEAST_ROWS = 64, FLAT = 4096 };

/* The work of a tensor: `blocks` for each of its matrices (or for the whole of a flat tensor). */
struct cut {
    struct adafactor_shape s;
    int64_t rows, blocks; /* of a block; a flat tensor's block is FLAT elements */
};

static struct cut cut_tensor(const struct tensor *p)
{
    struct cut k = {.s = adafactor_shape(p)};
    int64_t rows = (k.s.rows + MOST_BLOCKS - 1) / MOST_BLOCKS;
    k.rows = rows < LEAST_ROWS ? LEAST_ROWS : (rows + 3) / 4 * 4;
    k.blocks = k.s.factored ? (k.s.rows + k.rows - 1) / k.rows : (k.s.n + FLAT - 1) / FLAT;
    return k;
}

/* What the passes hand on. */
struct scratch {
    double *weights, *squares; /* (lead, blocks): sums of p^2 and of U^2 */
    double *mean;              /* (lead): of the row means */
    float *partial;            /* (lead, blocks, columns): sums of g^2 over the rows of a block */
    float *col_factor;         /* (lead, columns): 1 / sqrt(C) */
};

static int64_t padded(int64_t elements)
{
    return (elements + 15) / 16 * 16;
}

static int64_t lay_out(const struct cut *k, void *workspace, struct scratch *w)
{
    int64_t sums = padded(k->s.lead * k->blocks), factors = k->s.factored ? k->s.lead * k->s.columns : 0;
    w->weights = workspace;
    w->squares = w->weights + sums;
    w->mean = w->squares + sums;
    w->partial = (float *)(w->mean + padded(k->s.lead));
    w->col_factor = w->partial + padded(k->blocks * factors);
    return (2 * sums + padded(k->s.lead)) * 8 + (padded(k->blocks * factors) + padded(factors)) * 4;
}

int64_t ISA(cpu_adafactor_workspace)(const struct args_adafactor *a, int threads)
{
    (void)threads;
    struct cut k = cut_tensor(&a->p);
    struct scratch w;
    static char nowhere[1]; /* only sizes are wanted */
    return lay_out(&k, nowhere, &w);
}

/* The factors of a step. */
struct rates {
    float coef, beta2, rest2, eps1;
    float beta1, rest1, decay, scale;
};

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

/* Rows [row, row + n), n <= 4, of g: their squares into `column`, and their new means of squares. */
SIMD void count_rows(const struct args_adafactor *a, const struct adafactor_shape *s, const struct rates *f,
                     int64_t row, int n, float *column, bool narrow)
{
    vf coef = vf_set1(f->coef), sum[4] = {{0}};
    float *R = (float *)a->row.data + row;
    for (int64_t j = 0; j < s->columns; j += VF_LANES) {
        int64_t left = s->columns - j;
        vf q[4] = {{0}};
        for (int i = 0; i < n; i++) {
            vf g = vf_get_upto(a->g.data, (row + i) * s->columns + j, left, narrow) * coef;
            q[i] = g * g;
            sum[i] = sum[i] + q[i];
        }
        vf_put_upto(column, j, vf_get_upto(column, j, left, false) + ((q[0] + q[1]) + (q[2] + q[3])), left, false);
    }
    for (int i = 0; i < n; i++)
        R[i] = f->beta2 * R[i] + f->rest2 * (vf_hsum(sum[i]) / (float)s->columns + f->eps1);
}

SIMD void first_pass(const struct args_adafactor *a, const struct cut *k, const struct rates *f, struct scratch *w,
                     int threads, bool narrow, bool pure)
{
    const struct adafactor_shape *s = &k->s;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < s->lead * k->blocks; b++) {
        int64_t from = b % k->blocks * k->rows, to = from + k->rows < s->rows ? from + k->rows : s->rows;
        int64_t row = b / k->blocks * s->rows + from, n = to - from;
        float *column = w->partial + b * s->columns;
        memset(column, 0, sizeof *column * (size_t)s->columns);
        int64_t i = 0;
        for (; i + 4 <= n; i += 4)
            count_rows(a, s, f, row + i, 4, column, narrow);
        for (; i < n; i++)
            count_rows(a, s, f, row + i, 1, column, narrow);
        w->weights[b] = 0;
        for (i = 0; a->scale_parameter && i < n; i++)
            w->weights[b] += square_sum(a->p.data, (row + i) * s->columns, s->columns, pure);
    }
}

/* C and its factor, and the mean of R, of each matrix. */
SIMD void finish_sums(const struct args_adafactor *a, const struct cut *k, const struct rates *f, struct scratch *w)
{
    const struct adafactor_shape *s = &k->s;
    vf beta2 = vf_set1(f->beta2), rest2 = vf_set1(f->rest2), eps1 = vf_set1(f->eps1), rows = vf_set1((float)s->rows);
    for (int64_t l = 0; l < s->lead; l++) {
        const float *partial = w->partial + l * k->blocks * s->columns, *R = (const float *)a->row.data + l * s->rows;
        for (int64_t j = 0; j < s->columns; j += VF_LANES) {
            int64_t left = s->columns - j, at = l * s->columns + j;
            vf sum = {0};
            for (int64_t b = 0; b < k->blocks; b++)
                sum = sum + vf_get_upto(partial, b * s->columns + j, left, false);
            vf C = vf_fma(beta2, vf_get_upto(a->col.data, at, left, false), rest2 * (sum / rows + eps1));
            vf_put_upto(a->col.data, at, C, left, false);
            vf_put_upto(w->col_factor, at, 1 / vf_sqrt(C), left, false);
        }
        w->mean[l] = 0;
        for (int64_t i = 0; i < s->rows; i++)
            w->mean[l] += (double)R[i];
        w->mean[l] /= (double)s->rows;
    }
}

static float row_factor(const struct args_adafactor *a, const struct adafactor_shape *s, const struct scratch *w,
                        int64_t row)
{
    return (float)sqrt(w->mean[row / s->rows] / (double)((const float *)a->row.data)[row]);
}

SIMD void second_pass(const struct args_adafactor *a, const struct cut *k, const struct rates *f, struct scratch *w,
                      int threads, bool narrow)
{
    const struct adafactor_shape *s = &k->s;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < s->lead * k->blocks; b++) {
        int64_t from = b % k->blocks * k->rows, to = from + k->rows < s->rows ? from + k->rows : s->rows;
        int64_t first = b / k->blocks * s->rows;
        const float *factor = w->col_factor + b / k->blocks * s->columns;
        w->squares[b] = 0;
        for (int64_t row = first + from; row < first + to; row++) {
            vf r = vf_set1(row_factor(a, s, w, row) * f->coef), sum = {0}, sum2 = {0};
            for (int64_t j = 0; j < s->columns; j += 2 * VF_LANES) {
                int64_t at = row * s->columns + j, left = s->columns - j;
                vf u = vf_get_upto(a->g.data, at, left, narrow) * (vf_get_upto(factor, j, left, false) * r);
                sum = vf_fma(u, u, sum);
                if (left > VF_LANES) {
                    vf u2 = vf_get_upto(a->g.data, at + VF_LANES, left - VF_LANES, narrow) *
                            (vf_get_upto(factor, j + VF_LANES, left - VF_LANES, false) * r);
                    sum2 = vf_fma(u2, u2, sum2);
                }
            }
            w->squares[b] += (double)vf_hsum(sum + sum2);
        }
    }
}

/* How the tensors of a kernel are stored: g, the copy, and p and m. Constants after inlining. */
struct types {
    bool narrow, narrow_copy, pure;
};

/* What a thread updates. */
struct updated {
    struct stored p, m;
    void *copy;
};

SIMD struct updated updated_of(const struct args_adafactor *a)
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

SIMD void third_pass(const struct args_adafactor *a, const struct cut *k, const struct rates *f,
                     const struct scratch *w, int threads, struct types t)
{
    const struct adafactor_shape *s = &k->s;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < s->lead * s->rows; row++) {
        vf r = vf_set1(row_factor(a, s, w, row) * f->coef);
        const float *factor = w->col_factor + row / s->rows * s->columns;
        struct updated x = updated_of(a);
        for (int64_t j = 0; j < s->columns; j += VF_LANES) {
            int64_t left = s->columns - j, at = row * s->columns + j;
            vf g = vf_get_upto(a->g.data, at, left, t.narrow);
            update(&x, f, at, left, g * (vf_get_upto(factor, j, left, false) * r), t);
        }
    }
}

/* A tensor that is no matrix: V and the sum of U^2, then the update. */
SIMD void flat_sums(const struct args_adafactor *a, const struct cut *k, const struct rates *f, struct scratch *w,
                    int threads, struct types t)
{
    vf coef = vf_set1(f->coef), beta2 = vf_set1(f->beta2), rest2 = vf_set1(f->rest2), eps1 = vf_set1(f->eps1);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < k->blocks; b++) {
        int64_t from = b * FLAT, to = from + FLAT < k->s.n ? from + FLAT : k->s.n;
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
}

SIMD void flat_update(const struct args_adafactor *a, const struct cut *k, const struct rates *f, int threads,
                      struct types t)
{
    vf coef = vf_set1(f->coef);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < k->blocks; b++) {
        struct updated x = updated_of(a);
        for (int64_t i = b * FLAT; i < (b + 1) * FLAT && i < k->s.n; i += VF_LANES) {
            int64_t left = k->s.n - i;
            vf v = vf_get_upto(a->v.data, i, left, false);
            update(&x, f, i, left, vf_get_upto(a->g.data, i, left, t.narrow) * coef / vf_sqrt(v), t);
        }
    }
}

static void choose_rate(const struct args_adafactor *a, const struct cut *k, const struct scratch *w, struct rates *f)
{
    const double *step = a->step.data;
    double weights = 0, squares = 0;
    for (int64_t b = 0; b < k->s.lead * k->blocks; b++) {
        weights += w->weights[b];
        squares += w->squares[b];
    }
    double rms = sqrt(squares / (double)k->s.n);
    double rate = adafactor_rate(step[STEP_LR], step[STEP_UPDATE], sqrt(weights / (double)k->s.n), a->eps2,
                                 a->scale_parameter, a->relative_step, a->warmup_init);
    f->decay = (float)(-a->weight_decay * rate);
    f->scale = (float)(rate / fmax(1, rms / a->clip_threshold));
}

SIMD void adafactor(const struct args_adafactor *a, const struct call *c, struct types t)
{
    struct cut k = cut_tensor(&a->p);
    struct scratch w;
    double beta2 = adafactor_beta2(a->decay_rate, ((const double *)a->step.data)[STEP_UPDATE]);
    struct rates f = {.coef = a->coef.data ? *(const float *)a->coef.data : 1,
                      .beta2 = (float)beta2,
                      .rest2 = (float)(1 - beta2),
                      .eps1 = (float)a->eps1,
                      .beta1 = (float)a->beta1,
                      .rest1 = (float)(1 - a->beta1)};
    int threads = k.s.n < PARALLEL_FROM ? 1 : c->threads;
    if (f.coef < 0 || !k.s.n)
        return;
    lay_out(&k, c->workspace, &w);
    if (!k.s.factored) {
        flat_sums(a, &k, &f, &w, threads, t);
        choose_rate(a, &k, &w, &f);
        flat_update(a, &k, &f, threads, t);
        return;
    }
    first_pass(a, &k, &f, &w, threads, t.narrow, t.pure);
    finish_sums(a, &k, &f, &w);
    second_pass(a, &k, &f, &w, threads, t.narrow);
    choose_rate(a, &k, &w, &f);
    third_pass(a, &k, &f, &w, threads, t);
}

void ISA(cpu_adafactor)(const struct args_adafactor *a, const struct call *c)
{
    bool narrow_copy = a->copy.dtype == DT_BF16, narrow = a->g.dtype == DT_BF16;
    if (a->p.dtype == DT_BF16)
        narrow ? adafactor(a, c, (struct types){true, false, true})
               : adafactor(a, c, (struct types){false, false, true});
    else
        narrow ? adafactor(a, c, (struct types){true, narrow_copy, false})
               : adafactor(a, c, (struct types){false, narrow_copy, false});
}
