/* linear, linear_dx, linear_dw (op/linear.c) as matrix products, and the bias gradient as sums of columns. linear_dx_act is
 * the product and then act_bwd (activation.c), as two nodes would be: the same bits, without memory between them. */
#include "cpu/kernels.h"
#include "cpu/product/product.h"
#include "op/dx_act.h"

static struct product forward(const struct args_linear *a)
{
    return (struct product){.M = a->x.shape[0],
                            .N = a->y.shape[1],
                            .K = a->x.shape[1],
                            .a = a->x.data,
                            .a_pitch = a->x.pitch,
                            .a_by_k = true,
                            .b = a->w.data,
                            .b_by_k = !a->in_out,
                            .in = a->x.dtype,
                            .c = a->y.data,
                            .c_pitch = a->y.pitch,
                            .slope = a->slope.data,
                            .out = a->y.dtype,
                            .bias = a->b.data,
                            .addend = a->add.data,
                            .addend_pitch = a->add.pitch,
                            .act = (enum act)a->act};
}

static struct product input_gradient(const struct args_linear_dx *a)
{
    return (struct product){.M = a->dx.shape[0],
                            .N = a->dx.shape[1],
                            .K = a->dy.shape[1],
                            .a = a->dy.data,
                            .a_pitch = a->dy.pitch,
                            .a_by_k = true,
                            .b = a->w.data,
                            .b_by_k = a->in_out,
                            .in = a->dy.dtype,
                            .c = a->dx.data,
                            .c_pitch = a->dx.pitch,
                            .out = a->dx.dtype,
                            .add = a->dx.add};
}

static struct product weight_gradient(const struct args_linear_dw *a)
{
    const struct tensor *rows = a->in_out ? &a->x : &a->dy, *columns = a->in_out ? &a->dy : &a->x;
    return (struct product){.M = rows->shape[1],
                            .N = columns->shape[1],
                            .K = a->dy.shape[0],
                            .a = rows->data,
                            .a_pitch = rows->pitch,
                            .b = columns->data,
                            .b_pitch = columns->pitch,
                            .in = a->dy.dtype,
                            .c = a->dw.data,
                            .out = a->dw.dtype,
                            .add = a->dw.add};
}

enum {
    SUM_COLUMNS = 4 * VF_LANES, /* summed by one thread */
    SUM_ROWS = 512,             /* summed in a register before they are added to the rest */
};

/* sums[o] = sum of x[n,o], in runs of SUM_ROWS rows, each in ascending order. Bound by reading x. */
SIMD void sum_columns(const struct tensor *x, const struct tensor *sums, int threads, bool narrow)
{
    int64_t N = x->shape[0], O = x->shape[1], pitch = tensor_pitch(x);
    float *to = sums->data;
#pragma omp parallel for schedule(static) num_threads(N *O < 65536 ? 1 : threads)
    for (int64_t o = 0; o < O; o += SUM_COLUMNS) {
        vf total[4] = {{0}};
        for (int64_t start = 0; start < N; start += SUM_ROWS) {
            vf sum[4] = {{0}};
            int64_t end = start + SUM_ROWS < N ? start + SUM_ROWS : N;
            if (o + SUM_COLUMNS <= O)
                for (int64_t n = start; n < end; n++)
                    for (int j = 0; j < 4; j++)
                        sum[j] = sum[j] + vf_get(x->data, n * pitch + o + j * VF_LANES, narrow);
            else
                for (int64_t n = start; n < end; n++)
                    for (int j = 0; j < 4 && o + j * VF_LANES < O; j++)
                        sum[j] =
                            sum[j] + vf_get_upto(x->data, n * pitch + o + j * VF_LANES, O - o - j * VF_LANES, narrow);
            for (int j = 0; j < 4; j++)
                total[j] = total[j] + sum[j];
        }
        for (int j = 0; j < 4 && o + j * VF_LANES < O; j++) {
            int64_t at = o + j * VF_LANES;
            if (sums->add)
                total[j] = total[j] + vf_get_upto(to, at, O - at, false);
            vf_put_upto(to, at, total[j], O - at, false);
        }
    }
}

void ISA(cpu_sum_columns)(const struct tensor *x, const struct tensor *sums, int threads)
{
    if (x->dtype == DT_BF16)
        sum_columns(x, sums, threads, true);
    else
        sum_columns(x, sums, threads, false);
}

void ISA(cpu_linear)(const struct args_linear *a, const struct call *c)
{
    struct product p = forward(a);
    ISA(product_run)(&p, c->workspace, c->threads);
}

void ISA(cpu_linear_dx)(const struct args_linear_dx *a, const struct call *c)
{
    struct product p = input_gradient(a);
    ISA(product_run)(&p, c->workspace, c->threads);
}

void ISA(cpu_linear_dx_act)(const struct args_linear_dx_act *a, const struct call *c)
{
    struct args_linear_dx dx = dx_act_product(a);
    struct args_act_bwd act = dx_act_slope(a);
    ISA(cpu_linear_dx)(&dx, c);
    ISA(cpu_act_bwd)(&act, c);
}

void ISA(cpu_linear_dw)(const struct args_linear_dw *a, const struct call *c)
{
    if (a->dw.data) {
        struct product p = weight_gradient(a);
        ISA(product_run)(&p, c->workspace, c->threads);
    }
    if (a->db.data)
        ISA(cpu_sum_columns)(&a->dy, &a->db, c->threads);
}

void ISA(cpu_linear_dw_goes_on)(const struct args_linear_dw *a, const struct call *c)
{
    struct product p = weight_gradient(a);
    p.goes_on = p.add;
    ISA(product_run)(&p, c->workspace, c->threads);
}

int64_t ISA(cpu_linear_workspace)(const struct args_linear *a, int threads)
{
    struct product p = forward(a);
    return ISA(product_workspace)(&p, threads);
}

int64_t ISA(cpu_linear_dx_workspace)(const struct args_linear_dx *a, int threads)
{
    struct product p = input_gradient(a);
    return ISA(product_workspace)(&p, threads);
}

int64_t ISA(cpu_linear_dx_act_workspace)(const struct args_linear_dx_act *a, int threads)
{
    struct args_linear_dx dx = dx_act_product(a);
    struct args_act_bwd act = dx_act_slope(a);
    int64_t product = ISA(cpu_linear_dx_workspace)(&dx, threads), sums = ISA(cpu_act_bwd_workspace)(&act, threads);
    return product > sums ? product : sums;
}

int64_t ISA(cpu_linear_dw_workspace)(const struct args_linear_dw *a, int threads)
{
    struct product p = weight_gradient(a);
    return a->dw.ndim ? ISA(product_workspace)(&p, threads) : 0;
}
