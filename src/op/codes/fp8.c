/* Products of 8-bit floats (Micikevicius et al., arXiv 2209.05433), with a scale for each row of either factor:
 *     quantize_fp8: y[n,i] = e4m3(x[n,i] / scale[n]) ;  transposed: y[i,n] = e4m3(x[n,i] / scale[i]); x[n,i] x_scale[n] for x[n,i]
 *                   where x is such numbers itself
 *     linear_fp8:   y[n,o] = x_scale[n] w_scale[o] sum_i x[n,i] w[o,i] + b[o] + add[n,o]
 * x (N,I), w (O,I) in F8_E4M3; their scales are F32. A scale is a power of 2 (op/codes/fp8.h), so that the only rounding is that to the three
 * bits of a fraction. A row's codes depend on that row alone: whatever else is in its batch, it has the same products. */
#include "op/codes/fp8.h"

#include "graph/graph.h"

void shape_quantize_fp8(struct graph *g, struct op_quantize_fp8 *n)
{
    const struct value *x = graph_value(g, n->x), *s = graph_value(g, n->x_scale);
    bool codes = x->dtype == DT_F8_E4M3 && n->x_scale && s->ndim == 1 && dim_equal(s->shape[0], x->shape[0]);
    if (!shape_require(g, x->ndim == 2 && (codes || (!n->x_scale && x->dtype != DT_F8_E4M3)), "quantize_fp8",
                       "x must be (N,I), and in codes where there is x_scale (N)"))
        return;
    struct dim rows = x->shape[n->transposed ? 1 : 0], columns = x->shape[n->transposed ? 0 : 1];
    n->y = shape_out(g, SHAPE(rows, columns));
    n->scale = shape_stat(g, SHAPE(rows));
}

void shape_linear_fp8(struct graph *g, struct op_linear_fp8 *n)
{
    const struct value *x = graph_value(g, n->x), *w = graph_value(g, n->w), *y = graph_value(g, n->y);
    const struct value *xs = graph_value(g, n->x_scale), *ws = graph_value(g, n->w_scale);
    const struct value *b = graph_value(g, n->b), *add = graph_value(g, n->add);
    bool product = x->ndim == 2 && w->ndim == 2 && y->ndim == 2 && dim_equal(x->shape[1], w->shape[1]) &&
                   dim_equal(y->shape[0], x->shape[0]) && dim_equal(y->shape[1], w->shape[0]);
    bool scales = product && xs->ndim == 1 && ws->ndim == 1 && dim_equal(xs->shape[0], x->shape[0]) &&
                  dim_equal(ws->shape[0], w->shape[0]);
    shape_require(g,
                  scales && (!n->b || (b->ndim == 1 && dim_equal(b->shape[0], w->shape[0]))) &&
                      (!n->add || (add->ndim == 2 && dim_equal(add->shape[0], y->shape[0]) &&
                                   dim_equal(add->shape[1], y->shape[1]))),
                  "linear_fp8", "x must be (N,I), w (O,I), their scales (N) and (O), b (O), add and y (N,O)");
}

double flops_quantize_fp8(const struct args_quantize_fp8 *a)
{
    return 2.0 * (double)tensor_elements(&a->x);
}

double flops_linear_fp8(const struct args_linear_fp8 *a)
{
    return 2.0 * (double)a->x.shape[0] * (double)a->w.shape[0] * (double)a->w.shape[1];
}

/* What y[r,i] is made of. */
static double number_at(const struct args_quantize_fp8 *a, int64_t r, int64_t i)
{
    int64_t n = a->transposed ? i : r, at = n * tensor_pitch(&a->x) + (a->transposed ? r : i);
    return a->x_scale.data ? (double)e4m3_to_float(((const uint8_t *)a->x.data)[at]) * ((double *)a->x_scale.data)[n]
                           : ((double *)a->x.data)[at];
}

void ref_quantize_fp8(const struct args_quantize_fp8 *a, const struct call *c)
{
    (void)c;
    double *scale = a->scale.data;
    uint8_t *y = a->y.data;
    int64_t rows = a->y.shape[0], columns = a->y.shape[1];
    for (int64_t r = 0; r < rows; r++) {
        double largest = 0;
        for (int64_t i = 0; i < columns; i++)
            largest = fmax(largest, fabs(number_at(a, r, i)));
        scale[r] = (double)fp8_scale((float)largest);
        for (int64_t i = 0; i < columns; i++)
            y[r * columns + i] = e4m3_from_float((float)(number_at(a, r, i) / scale[r]));
    }
}

/* ---- weights that are kept so ---- */

void fp8_codes(const float *x, int64_t rows, int64_t width, int threads, uint8_t *codes, float *scale)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        float largest = 0;
        for (int64_t i = r * width; i < (r + 1) * width; i++)
            largest = fmaxf(largest, fabsf(x[i]));
        scale[r] = fp8_scale(largest);
        for (int64_t i = r * width; i < (r + 1) * width; i++)
            codes[i] = e4m3_from_float(x[i] / scale[r]);
    }
}

void fp8_numbers(const uint8_t *codes, const float *scale, int64_t rows, int64_t width, float *x)
{
    for (int64_t i = 0; i < rows * width; i++)
        x[i] = e4m3_to_float(codes[i]) * scale[i / width];
}

void ref_linear_fp8(const struct args_linear_fp8 *a, const struct call *c)
{
    (void)c;
    const uint8_t *x = a->x.data, *w = a->w.data;
    const double *xs = a->x_scale.data, *ws = a->w_scale.data, *b = a->b.data, *add = a->add.data;
    double *y = a->y.data;
    int64_t N = a->x.shape[0], I = a->x.shape[1], O = a->w.shape[0];
    int64_t y_pitch = tensor_pitch(&a->y), add_pitch = add ? tensor_pitch(&a->add) : 0;
    for (int64_t n = 0; n < N; n++)
        for (int64_t o = 0; o < O; o++) {
            double sum = 0;
            for (int64_t i = 0; i < I; i++)
                sum += (double)e4m3_to_float(x[n * I + i]) * (double)e4m3_to_float(w[o * I + i]);
            sum = sum * xs[n] * ws[o] + (b ? b[o] : 0) + (add ? add[n * add_pitch + o] : 0);
            y[n * y_pitch + o] = sum + (a->y.add ? y[n * y_pitch + o] : 0);
        }
}
