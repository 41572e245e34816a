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
 * U is never stored: each pass makes it again from g. With `noise`, p and m are rounded as they are stored
 * (op/optimizer/rounding.h). R, C and V stay F32: they are a row and a column of a matrix, or belong to a vector. */
#include "op/optimizer/adafactor.h"

#include "graph/graph.h"
#include "op/optimizer/update.h"

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

struct factors {
    double coef, beta2;
};

static void update_second_moments(const struct args_adafactor *a, struct adafactor_shape s, struct factors f)
{
    const double *g = a->g.data;
    double *row = a->row.data, *col = a->col.data, *v = a->v.data, rest = 1 - f.beta2;
    for (int64_t i = 0; !s.factored && i < s.n; i++)
        v[i] = f.beta2 * v[i] + rest * (pow(f.coef * g[i], 2) + a->eps1);
    for (int64_t i = 0; s.factored && i < s.lead * s.rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < s.columns; j++)
            sum += pow(f.coef * g[i * s.columns + j], 2) + a->eps1;
        row[i] = f.beta2 * row[i] + rest * sum / (double)s.columns;
    }
    for (int64_t k = 0; s.factored && k < s.lead * s.columns; k++) {
        double sum = 0;
        const double *first = g + k / s.columns * s.rows * s.columns + k % s.columns;
        for (int64_t i = 0; i < s.rows; i++)
            sum += pow(f.coef * first[i * s.columns], 2) + a->eps1;
        col[k] = f.beta2 * col[k] + rest * sum / (double)s.rows;
    }
}

static double row_mean(const struct args_adafactor *a, struct adafactor_shape s, int64_t matrix)
{
    double sum = 0;
    for (int64_t i = 0; s.factored && i < s.rows; i++)
        sum += ((const double *)a->row.data)[matrix * s.rows + i];
    return sum / (double)s.rows;
}

/* U[k] before its clipping; `mean` is its matrix's row_mean. */
static double unscaled(const struct args_adafactor *a, struct adafactor_shape s, double coef, double mean, int64_t k)
{
    double g = coef * ((const double *)a->g.data)[k];
    if (!s.factored)
        return g / sqrt(((const double *)a->v.data)[k]);
    double row = ((const double *)a->row.data)[k / s.columns];
    double col = ((const double *)a->col.data)[k / (s.rows * s.columns) * s.columns + k % s.columns];
    return g / sqrt(row / mean) / sqrt(col);
}

void ref_adafactor(const struct args_adafactor *a, const struct call *c)
{
    (void)c;
    struct adafactor_shape s = adafactor_shape(&a->p);
    const double *step = a->step.data;
    double *p = a->p.data, *m = a->m.data, t = step[STEP_UPDATE];
    struct factors f = {.coef = update_coefficient(&a->coef), .beta2 = adafactor_beta2(a->decay_rate, t)};
    if (f.coef < 0 || !s.n)
        return;
    update_second_moments(a, s, f);
    int64_t matrix = s.rows * s.columns;
    double squares = 0, weights = 0;
    for (int64_t l = 0; l < s.lead; l++) {
        double mean = row_mean(a, s, l);
        for (int64_t k = l * matrix; k < (l + 1) * matrix; k++) {
            squares += pow(unscaled(a, s, f.coef, mean, k), 2);
            weights += p[k] * p[k];
        }
    }
    double rms = sqrt(squares / (double)s.n);
    double rate = adafactor_rate(step[STEP_LR], t, sqrt(weights / (double)s.n), a->eps2, a->scale_parameter,
                                 a->relative_step, a->warmup_init);
    double scale = rate / fmax(1, rms / a->clip_threshold);
    for (int64_t l = 0; l < s.lead; l++) {
        double mean = row_mean(a, s, l);
        for (int64_t k = l * matrix; k < (l + 1) * matrix; k++) {
            double u = scale * unscaled(a, s, f.coef, mean, k);
            if (m) {
                u = a->beta1 * m[k] + (1 - a->beta1) * u;
                m[k] = rounding_store(step, a->noise, ROUND_STATE1, k, u);
            }
            p[k] = rounding_store(step, a->noise, ROUND_WEIGHT, k, p[k] - a->weight_decay * rate * p[k] - u);
        }
    }
    update_write_copy(&a->copy, &a->p);
}
