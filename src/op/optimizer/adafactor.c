/* Adafactor (Shazeer and Stern, arXiv 1804.04235) as transformers.optimization.Adafactor: the second moment of a matrix
 * is kept as means over its rows and columns only. t = step[STEP_UPDATE], g scaled by coef (negative: change nothing),
 * a the step size (op/optimizer/adafactor.h), beta1 < 0: no first moment.
 *
 *     b2 = 1 - t^decay_rate ;  u = g^2 + eps1
 *     (…,r,c): R = b2 R + (1-b2) mean(u, last dim) ;  C = b2 C + (1-b2) mean(u, dim -2)
 *              U = g / sqrt(R / mean(R)) / sqrt(C)
 *     (n):     V = b2 V + (1-b2) u ;  U = g / sqrt(V)
 *     U = a U / max(1, rms(U) / clip_threshold)                    rms over the whole tensor
 *     m = beta1 m + (1-beta1) U ;  U = m                           where there is an m
 *     p -= weight_decay a p ;  p -= U
 *
 * Of a weight in shards, adafactor_sums makes R, adafactor_squares C and adafactor_apply the rest. Between them ranks get each other's
 * sums, which are of tiles (op/optimizer/adafactor.h), in adafactor as well: both have the same bits.
 * U is never stored: each pass makes it again from g. With `noise`, p and m are rounded as they are stored
 * (op/optimizer/rounding.h). R, C and V stay F32: they are a row and a column of a matrix, or belong to a vector. */
#include "op/optimizer/adafactor.h"

#include "graph/graph.h"
#include "op/optimizer/update.h"

/* ---- shapes ---- */

static bool same_dims(const struct value *x, const struct value *p, int skip)
{
    bool same = x->ndim == p->ndim - 1;
    for (int i = 0, k = 0; same && k < p->ndim; k++)
        if (k != skip)
            same = dim_equal(x->shape[i++], p->shape[k]);
    return same;
}

void shape_adafactor(struct graph *g, struct op_adafactor *n)
{
    const struct value *p = graph_value(g, n->p);
    if (!shape_same(g, n->p, n->g, "adafactor") || (n->m && !shape_same(g, n->p, n->m, "adafactor")) ||
        (n->v && !shape_same(g, n->p, n->v, "adafactor")) || (n->copy && !shape_same(g, n->p, n->copy, "adafactor")))
        return;
    bool factored = p->ndim >= 2, fits = !factored == (n->v > 0) && factored == (n->row > 0 && n->col > 0);
    if (fits && factored)
        fits = same_dims(graph_value(g, n->row), p, p->ndim - 1) && same_dims(graph_value(g, n->col), p, p->ndim - 2);
    shape_require(g, fits, "adafactor", "a matrix (r,c) needs row (r) and col (c), anything else v");
    shape_require(g, (n->m > 0) == (n->beta1 >= 0), "adafactor", "m goes with beta1");
}

double flops_adafactor(const struct args_adafactor *a)
{
    return 12.0 * (double)adafactor_shape(&a->p).n;
}

double flops_adafactor_sums(const struct args_adafactor_sums *a)
{
    return 4.0 * (double)tensor_elements(&a->g);
}

double flops_adafactor_squares(const struct args_adafactor_squares *a)
{
    return 4.0 * (double)tensor_elements(&a->g);
}

double flops_adafactor_apply(const struct args_adafactor_apply *a)
{
    return 4.0 * (double)tensor_elements(&a->g);
}

static int64_t elements_of(const struct graph *g, int id)
{
    return value_elements(graph_value(g, id), (struct dims){0});
}

/* Rows of tiles of all matrices that a value is. */
static int64_t tiles_of(const struct graph *g, int id, int64_t rows, int64_t columns)
{
    return rows > 0 && columns > 0 ? elements_of(g, id) / (rows * columns) * adafactor_row_tiles(rows) : 0;
}

static int64_t last_dim(const struct graph *g, int id)
{
    const struct value *v = graph_value(g, id);
    return v->ndim ? v->shape[v->ndim - 1].c : 0;
}

void shape_adafactor_sums(struct graph *g, struct op_adafactor_sums *n)
{
    int64_t tiles = tiles_of(g, n->g, n->rows, n->columns), wide = adafactor_column_tiles(n->columns);
    bool fits = tiles && elements_of(g, n->row) * n->columns == elements_of(g, n->g) &&
                elements_of(g, n->col_sums) == tiles * n->columns && elements_of(g, n->row_sums) == tiles &&
                (!n->weight_sums || elements_of(g, n->weight_sums) == tiles * wide);
    shape_require(g, fits, "adafactor_sums", "row and the sums must be those of matrices (rows,columns)");
    shape_require(g, !n->p == !n->weight_sums, "adafactor_sums", "weight_sums go with p");
}

void shape_adafactor_squares(struct graph *g, struct op_adafactor_squares *n)
{
    int64_t columns = last_dim(g, n->col), tiles = tiles_of(g, n->g, n->rows, columns);
    bool fits = tiles && elements_of(g, n->row) * columns == elements_of(g, n->g) &&
                elements_of(g, n->col) * n->rows == elements_of(g, n->g) &&
                elements_of(g, n->col_sums) == tiles * columns && elements_of(g, n->row_sums) == tiles &&
                elements_of(g, n->squares) == tiles * adafactor_column_tiles(columns);
    shape_require(g, fits, "adafactor_squares", "row, col and the sums must be those of matrices (rows,columns)");
}

void shape_adafactor_apply(struct graph *g, struct op_adafactor_apply *n)
{
    int64_t columns = last_dim(g, n->col), tiles = tiles_of(g, n->p, n->rows, columns),
            wide = adafactor_column_tiles(columns);
    if (!shape_same(g, n->p, n->g, "adafactor_apply") || (n->m && !shape_same(g, n->p, n->m, "adafactor_apply")) ||
        (n->copy && !shape_same(g, n->p, n->copy, "adafactor_apply")))
        return;
    bool fits = tiles && elements_of(g, n->row) * columns == elements_of(g, n->p) &&
                elements_of(g, n->col) * n->rows == elements_of(g, n->p) && elements_of(g, n->row_sums) == tiles &&
                elements_of(g, n->squares) == tiles * wide &&
                (!n->weight_sums || elements_of(g, n->weight_sums) == tiles * wide);
    shape_require(g, fits, "adafactor_apply", "row, col and the sums must be those of matrices (rows,columns)");
    shape_require(g, (n->m > 0) == (n->beta1 >= 0), "adafactor_apply", "m goes with beta1");
    shape_require(g, (n->weight_sums > 0) == (n->scale_parameter != 0), "adafactor_apply",
                  "weight_sums go with scale_parameter");
}

/* ---- sums of a tile ---- */

/* Matrices, or what a shard has of them. */
struct stack {
    struct adafactor_part k;
    double coef;
    const double *g;
    double *row;
    double *col; /* of all matrices */
};

static double square_of(const struct stack *s, int64_t i, int64_t j)
{
    return pow(s->coef * s->g[i * s->k.columns + j], 2);
}

/* R, and its sum over the tile. */
static double update_rows(const struct stack *s, int64_t t, double beta2, double eps1)
{
    struct adafactor_rows r = adafactor_rows(&s->k, t);
    double all = 0;
    for (int64_t i = r.from; i < r.end; i++) {
        double sum = 0;
        for (int64_t j = 0; j < s->k.columns; j++)
            sum += square_of(s, i, j);
        s->row[i] = beta2 * s->row[i] + (1 - beta2) * (sum / (double)s->k.columns + eps1);
        all += s->row[i];
    }
    return all;
}

static double column_sum(const struct stack *s, int64_t t, int64_t j)
{
    struct adafactor_rows r = adafactor_rows(&s->k, t);
    double sum = 0;
    for (int64_t i = r.from; i < r.end; i++)
        sum += square_of(s, i, j);
    return sum;
}

/* U before its clipping; `mean` is that of its matrix's R. */
static double unscaled(const struct stack *s, double mean, int64_t i, int64_t j)
{
    double col = s->col[(s->k.matrix + i / s->k.rows) * s->k.columns + j];
    return s->coef * s->g[i * s->k.columns + j] / sqrt(s->row[i] / mean) / sqrt(col);
}

/* Over the columns of tile c, the sum of p^2 where there is a p, else of U^2. */
static double sum_in_tile(const struct stack *s, const double *p, double mean, int64_t t, int64_t c)
{
    struct adafactor_rows r = adafactor_rows(&s->k, t);
    int64_t from = c * ADAFACTOR_COLUMNS, end = from + ADAFACTOR_COLUMNS;
    double sum = 0;
    for (int64_t i = r.from; i < r.end; i++)
        for (int64_t j = from; j < end && j < s->k.columns; j++)
            sum += pow(p ? p[i * s->k.columns + j] : unscaled(s, mean, i, j), 2);
    return sum;
}

static double sum_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

/* ---- the update of an element ---- */

struct change {
    const double *step;
    double *p, *m;
    double rate, scale, beta1, weight_decay;
    int64_t noise, first; /* first: the number of p[0] in the weight */
};

/* u: U before its clipping. */
static void change(const struct change *c, int64_t k, double u)
{
    u *= c->scale;
    if (c->m) {
        u = c->beta1 * c->m[k] + (1 - c->beta1) * u;
        c->m[k] = rounding_store(c->step, c->noise, ROUND_STATE1, c->first + k, u);
    }
    c->p[k] = rounding_store(c->step, c->noise, ROUND_WEIGHT, c->first + k,
                             c->p[k] - c->weight_decay * c->rate * c->p[k] - u);
}

/* Of a tensor of n elements, the sums of whose U^2 and p^2 these are. */
static struct change change_of(const struct args_adafactor_apply *a, int64_t n, double squares, double weights)
{
    const double *step = a->step.data;
    double rate = adafactor_rate(step[STEP_LR], step[STEP_UPDATE], sqrt(weights / (double)n), a->eps2,
                                 a->scale_parameter, a->relative_step, a->warmup_init);
    return (struct change){.step = step,
                           .p = a->p.data,
                           .m = a->m.data,
                           .rate = rate,
                           .scale = rate / fmax(1, sqrt(squares / (double)n) / a->clip_threshold),
                           .beta1 = a->beta1,
                           .weight_decay = a->weight_decay,
                           .noise = a->noise,
                           .first = a->p.first};
}

static void update_vector(const struct args_adafactor *a, int64_t n, double coef, double beta2)
{
    const double *g = a->g.data, *p = a->p.data;
    double *v = a->v.data, squares = 0, weights = 0;
    for (int64_t k = 0; k < n; k++) {
        v[k] = beta2 * v[k] + (1 - beta2) * (pow(coef * g[k], 2) + a->eps1);
        squares += pow(coef * g[k] / sqrt(v[k]), 2);
        weights += p[k] * p[k];
    }
    struct args_adafactor_apply last = adafactor_last_part(a);
    struct change by = change_of(&last, n, squares, weights);
    for (int64_t k = 0; k < n; k++)
        change(&by, k, coef * g[k] / sqrt(v[k]));
}

/* The mean of a matrix's R. */
static double row_mean(const struct stack *s, int64_t matrix)
{
    double all = 0;
    for (int64_t t = matrix * s->k.row_tiles; t < (matrix + 1) * s->k.row_tiles; t++) {
        struct adafactor_rows r = adafactor_rows(&s->k, t);
        all += sum_of(s->row + r.from, r.end - r.from);
    }
    return all / (double)s->k.rows;
}

static void update_columns(const struct stack *s, int64_t matrix, double beta2, double eps1)
{
    for (int64_t j = 0; j < s->k.columns; j++) {
        double sum = 0, *col = s->col + matrix * s->k.columns + j;
        for (int64_t t = matrix * s->k.row_tiles; t < (matrix + 1) * s->k.row_tiles; t++)
            sum += column_sum(s, t, j);
        *col = beta2 * *col + (1 - beta2) * (sum / (double)s->k.rows + eps1);
    }
}

static void update_matrices(const struct args_adafactor *a, const struct stack *s, double beta2)
{
    double squares = 0, weights = 0;
    const struct adafactor_part *k = &s->k;
    for (int64_t t = 0; t < k->lead * k->row_tiles; t++)
        update_rows(s, t, beta2, a->eps1);
    for (int64_t l = 0; l < k->lead; l++)
        update_columns(s, l, beta2, a->eps1);
    for (int64_t t = 0; t < k->lead * k->row_tiles; t++)
        for (int64_t c = 0; c < k->column_tiles; c++) {
            squares += sum_in_tile(s, NULL, row_mean(s, t / k->row_tiles), t, c);
            weights += a->scale_parameter ? sum_in_tile(s, a->p.data, 0, t, c) : 0;
        }
    struct args_adafactor_apply last = adafactor_last_part(a);
    struct change by = change_of(&last, tensor_elements(&a->p), squares, weights);
    for (int64_t i = 0; i < k->lead * k->rows; i++) {
        double mean = row_mean(s, i / k->rows);
        for (int64_t j = 0; j < k->columns; j++)
            change(&by, i * k->columns + j, unscaled(s, mean, i, j));
    }
}

void ref_adafactor(const struct args_adafactor *a, const struct call *c)
{
    (void)c;
    struct adafactor_shape s = adafactor_shape(&a->p);
    double coef = update_coefficient(&a->coef);
    double beta2 = adafactor_beta2(a->decay_rate, ((const double *)a->step.data)[STEP_UPDATE]);
    struct stack matrices = {adafactor_part(s.n, 0, s.rows, s.columns), coef, a->g.data, a->row.data, a->col.data};
    if (coef < 0 || !s.n)
        return;
    if (s.factored)
        update_matrices(a, &matrices, beta2);
    else
        update_vector(a, s.n, coef, beta2);
    update_write_copy(&a->copy, &a->p);
}

/* ---- in parts ---- */

void ref_adafactor_sums(const struct args_adafactor_sums *a, const struct call *c)
{
    (void)c;
    double coef = update_coefficient(&a->coef), *sums = a->col_sums.data, *weights = a->weight_sums.data;
    double beta2 = adafactor_beta2(a->decay_rate, ((const double *)a->step.data)[STEP_UPDATE]);
    struct stack s = {adafactor_part(tensor_elements(&a->g), a->g.first, a->rows, a->columns), coef, a->g.data,
                      a->row.data, NULL};
    for (int64_t t = 0; coef >= 0 && t < s.k.lead * s.k.row_tiles; t++) {
        ((double *)a->row_sums.data)[t] = update_rows(&s, t, beta2, a->eps1);
        for (int64_t j = 0; j < a->columns; j++)
            sums[t * a->columns + j] = column_sum(&s, t, j);
        for (int64_t w = 0; weights && w < s.k.column_tiles; w++)
            weights[t * s.k.column_tiles + w] = sum_in_tile(&s, a->p.data, 0, t, w);
    }
}

void ref_adafactor_squares(const struct args_adafactor_squares *a, const struct call *c)
{
    (void)c;
    double coef = update_coefficient(&a->coef), *col = a->col.data, *squares = a->squares.data;
    double beta2 = adafactor_beta2(a->decay_rate, ((const double *)a->step.data)[STEP_UPDATE]);
    const double *sums = a->col_sums.data, *row_sums = a->row_sums.data;
    int64_t columns = adafactor_columns(&a->col), all = tensor_elements(&a->col), tiles = adafactor_row_tiles(a->rows);
    struct stack s = {adafactor_part(tensor_elements(&a->g), a->g.first, a->rows, columns), coef, a->g.data,
                      a->row.data, col};
    for (int64_t k = 0; coef >= 0 && k < all; k++) {
        double sum = 0;
        for (int64_t t = 0; t < tiles; t++)
            sum += sums[(k / columns * tiles + t) * columns + k % columns];
        col[k] = beta2 * col[k] + (1 - beta2) * (sum / (double)a->rows + a->eps1);
    }
    for (int64_t t = 0; coef >= 0 && t < s.k.lead * s.k.row_tiles; t++) {
        double mean = adafactor_mean(row_sums, &s.k, t / s.k.row_tiles);
        for (int64_t w = 0; w < s.k.column_tiles; w++)
            squares[t * s.k.column_tiles + w] = sum_in_tile(&s, NULL, mean, t, w);
    }
}

void ref_adafactor_apply(const struct args_adafactor_apply *a, const struct call *c)
{
    (void)c;
    double coef = update_coefficient(&a->coef);
    int64_t columns = adafactor_columns(&a->col), tiles = tensor_elements(&a->squares);
    struct stack s = {adafactor_part(tensor_elements(&a->g), a->g.first, a->rows, columns), coef, a->g.data,
                      a->row.data, a->col.data};
    if (coef < 0)
        return;
    double weights = a->weight_sums.data ? sum_of(a->weight_sums.data, tiles) : 0;
    struct change by = change_of(a, tensor_elements(&a->col) * a->rows, sum_of(a->squares.data, tiles), weights);
    for (int64_t i = 0; i < s.k.lead * s.k.rows; i++) {
        double mean = adafactor_mean(a->row_sums.data, &s.k, i / s.k.rows);
        for (int64_t j = 0; j < columns; j++)
            change(&by, i * columns + j, unscaled(&s, mean, i, j));
    }
    update_write_copy(&a->copy, &a->p);
}
