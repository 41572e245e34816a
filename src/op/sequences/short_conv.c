/* A gated short convolution (LFM2, Liquid AI, 2025): each column is convolved by itself with the rows before it in the same sequence.
 * bcx (T,3H) has in its thirds B, C and x; w (H,1,W), torch's weight of a Conv1d with groups = H; b (H) may be absent:
 *     z[n] = B[n] x[n]
 *     u[n,h] = b[h] + sum_k w[h,k] z[n - (W - 1) + k, h]           z is 0 before the first row of the sequence
 *     y[n] = C[n] u[n]                                             (T,H)
 * Backward, with g = dy C, which is 0 behind the last row of the sequence:
 *     dz[n,h] = sum_k w[h,k] g[n + (W - 1) - k, h] ;  dB = dz x ;  dC = dy u ;  dx = dz B
 *     dw[h,k] = sum_n g[n,h] z[n - (W - 1) + k, h] ;  db[h] = sum_n g[n,h]
 * u and z are made again there, from bcx. Rows behind all sequences have y = 0 and no gradient.
 *
 * short_conv_cached is the same for sequences that come piece by piece. Of sequence b past[b] rows have come before, and z of its row j
 * is kept in row j mod W of rows[b] (B,W,H): it is there until row j + W comes, and nothing before row j - (W - 1) is wanted for row j.
 * A row that comes once more puts there what is there. With `at` (B,L) row j of sequence b is kept where the sequence at[b,j] / L keeps its
 * own row j: sequences that begin alike share rows. Requires that those who share go on at the same row, one at a time. */
#include "graph/graph.h"

static bool weight_fits(struct graph *g, int weight, int bias, struct dim width, const char *op)
{
    const struct value *w = graph_value(g, weight), *b = graph_value(g, bias);
    return shape_require(g, w->ndim == 3 && dim_equal(w->shape[1], DIM(1)) && w->shape[2].c > 0, op,
                         "w must be (H,1,W)") &&
           shape_require(g, dim_is_constant(width) && dim_equal(width, DIM(3 * w->shape[0].c)), op,
                         "bcx must be (T,3H)") &&
           shape_require(g, !bias || (b->ndim == 1 && dim_equal(b->shape[0], w->shape[0])), op, "b must be (H)");
}

void shape_short_conv(struct graph *g, struct op_short_conv *n)
{
    const struct value *v = graph_value(g, n->bcx);
    if (shape_require(g, v->ndim == 2, "short_conv", "bcx must be (T,3H)") &&
        weight_fits(g, n->w, n->b, v->shape[1], "short_conv"))
        n->y = shape_out(g, SHAPE(v->shape[0], graph_value(g, n->w)->shape[0]));
}

void shape_short_conv_bwd(struct graph *g, struct op_short_conv_bwd *n)
{
    const struct value *v = graph_value(g, n->bcx), *dy = graph_value(g, n->dy), *w = graph_value(g, n->w);
    const char *op = "short_conv_bwd";
    if (shape_require(g, v->ndim == 2, op, "bcx must be (T,3H)") && weight_fits(g, n->w, n->b, v->shape[1], op) &&
        shape_require(g, dy->ndim == 2 && dim_equal(dy->shape[0], v->shape[0]) && dim_equal(dy->shape[1], w->shape[0]),
                      op, "dy must be (T,H)") &&
        (!n->dbcx || shape_same(g, n->bcx, n->dbcx, op)) && (!n->dw || shape_same(g, n->w, n->dw, op)) && n->db)
        shape_require(g, graph_value(g, n->db)->ndim == 1 && dim_equal(graph_value(g, n->db)->shape[0], w->shape[0]),
                      op, "db must be (H)");
}

void shape_short_conv_cached(struct graph *g, struct op_short_conv_cached *n)
{
    const struct value *v = graph_value(g, n->bcx), *w = graph_value(g, n->w), *rows = graph_value(g, n->rows);
    const char *op = "short_conv_cached";
    if (shape_require(g, v->ndim == 2, op, "bcx must be (T,3H)") && weight_fits(g, n->w, n->b, v->shape[1], op) &&
        shape_require(g, !n->at || graph_value(g, n->at)->ndim == 2, op, "at must be (B,L)") &&
        shape_require(
            g, rows->ndim == 3 && dim_equal(rows->shape[1], w->shape[2]) && dim_equal(rows->shape[2], w->shape[0]), op,
            "rows must be (B,W,H)"))
        n->y = shape_out(g, SHAPE(v->shape[0], w->shape[0]));
}

void grad_short_conv(struct grads *d, const struct op_short_conv *n)
{
    struct op_short_conv_bwd b = {.dy = grad_of(d, n->y),
                                  .bcx = n->bcx,
                                  .w = n->w,
                                  .b = n->b,
                                  .cu = n->cu,
                                  .dbcx = grad_target(d, n->bcx),
                                  .dw = grad_target(d, n->w),
                                  .db = grad_target(d, n->b)};
    if (b.dbcx || b.dw || b.db)
        emit_short_conv_bwd(d->g, &b);
}

/* Of all its elements, a product with each of the W rows. */
static double products(const struct tensor *bcx, const struct tensor *w)
{
    return (double)bcx->shape[0] * (double)w->shape[0] * (double)w->shape[2];
}

double flops_short_conv(const struct args_short_conv *a)
{
    return 3 * products(&a->bcx, &a->w);
}

double flops_short_conv_bwd(const struct args_short_conv_bwd *a)
{
    return 8 * products(&a->bcx, &a->w);
}

double flops_short_conv_cached(const struct args_short_conv_cached *a)
{
    return 3 * products(&a->bcx, &a->w);
}

/* B x of a row. */
static double gated(const double *bcx, int64_t row, int64_t H, int64_t h)
{
    return bcx[row * 3 * H + h] * bcx[row * 3 * H + 2 * H + h];
}

/* u of row n of a sequence that begins with row `from`. */
static double convolved(const double *bcx, const struct tensor *w, const struct tensor *b, int64_t from, int64_t n,
                        int64_t h)
{
    int64_t H = w->shape[0], W = w->shape[2];
    double u = b->data ? ((const double *)b->data)[h] : 0;
    for (int64_t k = 0; k < W; k++)
        if (n - (W - 1) + k >= from)
            u += ((const double *)w->data)[h * W + k] * gated(bcx, n - (W - 1) + k, H, h);
    return u;
}

void ref_short_conv(const struct args_short_conv *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    const double *bcx = a->bcx.data;
    double *y = a->y.data;
    int64_t B = a->cu.shape[0] - 1, T = a->bcx.shape[0], H = a->w.shape[0];
    for (int64_t b = 0; b < B; b++)
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            for (int64_t h = 0; h < H; h++)
                y[n * H + h] = bcx[n * 3 * H + H + h] * convolved(bcx, &a->w, &a->b, cu[b], n, h);
    for (int64_t i = cu[B] * H; i < T * H; i++)
        y[i] = 0;
}

/* Adds to the sums of dw and db what row n of the sequence [from, to) has, and writes that row of dbcx. */
static void row_bwd(const struct args_short_conv_bwd *a, int64_t from, int64_t to, int64_t n)
{
    const double *bcx = a->bcx.data, *dy = a->dy.data, *w = a->w.data;
    double *dbcx = a->dbcx.data, *dw = a->dw.data, *db = a->db.data;
    int64_t H = a->w.shape[0], W = a->w.shape[2];
    for (int64_t h = 0; h < H; h++) {
        double g = dy[n * H + h] * bcx[n * 3 * H + H + h], dz = 0;
        if (db)
            db[h] += g;
        for (int64_t k = 0; k < W; k++) {
            int64_t before = n - (W - 1) + k, behind = n + (W - 1) - k;
            if (dw && before >= from)
                dw[h * W + k] += g * gated(bcx, before, H, h);
            if (behind < to)
                dz += w[h * W + k] * dy[behind * H + h] * bcx[behind * 3 * H + H + h];
        }
        if (!dbcx)
            continue;
        dbcx[n * 3 * H + h] += dz * bcx[n * 3 * H + 2 * H + h];
        dbcx[n * 3 * H + H + h] += dy[n * H + h] * convolved(bcx, &a->w, &a->b, from, n, h);
        dbcx[n * 3 * H + 2 * H + h] += dz * bcx[n * 3 * H + h];
    }
}

static void begin(const struct tensor *sums)
{
    for (int64_t i = 0; sums->data && !sums->add && i < tensor_elements(sums); i++)
        ((double *)sums->data)[i] = 0;
}

void ref_short_conv_bwd(const struct args_short_conv_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data;
    begin(&a->dbcx);
    begin(&a->dw);
    begin(&a->db);
    for (int64_t b = 0; b + 1 < a->cu.shape[0]; b++)
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            row_bwd(a, cu[b], cu[b + 1], n);
}

/* Row j of sequence b, which came before, in `rows`. */
static double *kept(const struct args_short_conv_cached *a, int64_t b, int64_t j)
{
    int64_t H = a->w.shape[0], W = a->w.shape[2], L = a->at.data ? a->at.shape[1] : 1;
    int64_t owner = a->at.data ? ((const int32_t *)a->at.data)[b * L + j] / L : b;
    return (double *)a->rows.data + (owner * W + j % W) * H;
}

void ref_short_conv_cached(const struct args_short_conv_cached *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data, *past = a->past.data;
    const double *bcx = a->bcx.data, *w = a->w.data;
    double *y = a->y.data;
    int64_t B = a->cu.shape[0] - 1, T = a->bcx.shape[0], H = a->w.shape[0], W = a->w.shape[2];
    for (int64_t b = 0; b < B; b++)
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            for (int64_t h = 0; h < H; h++) {
                double u = convolved(bcx, &a->w, &a->b, cu[b], n, h);
                for (int64_t k = 0; k < W; k++) {
                    int64_t row = n - (W - 1) + k, j = past[b] + row - cu[b];
                    if (row < cu[b] && j >= 0)
                        u += w[h * W + k] * kept(a, b, j)[h];
                }
                y[n * H + h] = bcx[n * 3 * H + H + h] * u;
            }
    for (int64_t b = 0; b < B; b++) /* when all have read */
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            for (int64_t h = 0; h < H; h++)
                kept(a, b, past[b] + n - cu[b])[h] = gated(bcx, n, H, h);
    for (int64_t i = cu[B] * H; i < T * H; i++)
        y[i] = 0;
}
