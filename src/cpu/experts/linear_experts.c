/* linear_experts and its gradients (op/experts/linear_experts.c): a matrix product for each expert that has rows, one after the other.
 * How many rows is known when it runs, so the workspace is that of all rows for one expert. */
#include "cpu/kernels.h"
#include "cpu/product/product.h"

static struct product forward(const struct args_linear_experts *a)
{
    return (struct product){.M = a->x.shape[0],
                            .N = a->y.shape[1],
                            .K = a->x.shape[1],
                            .a = a->x.data,
                            .a_by_k = true,
                            .b = a->w.data,
                            .b_by_k = true,
                            .in = a->x.dtype,
                            .c = a->y.data,
                            .out = a->y.dtype};
}

static struct product input_gradient(const struct args_linear_experts_dx *a)
{
    return (struct product){.M = a->dy.shape[0],
                            .N = a->w.shape[2],
                            .K = a->dy.shape[1],
                            .a = a->dy.data,
                            .a_by_k = true,
                            .b = a->w.data,
                            .in = a->dy.dtype,
                            .c = a->dx.data,
                            .out = a->dx.dtype,
                            .add = a->dx.add};
}

static struct product weight_gradient(const struct args_linear_experts_dw *a)
{
    return (struct product){.M = a->dy.shape[1],
                            .N = a->x.shape[1],
                            .K = a->dy.shape[0],
                            .a = a->dy.data,
                            .b = a->x.data,
                            .in = a->dy.dtype,
                            .c = a->dw.data,
                            .out = a->dw.dtype,
                            .add = a->dw.add};
}

static void *moved(const void *p, enum dtype type, int64_t elements)
{
    return (char *)(uintptr_t)p + dtype_bytes(type, elements);
}

/* Rows of A and C are the experts', each has a B of its own. */
static void rows_of_experts(const struct product *all, const int32_t *offsets, int64_t E, const struct call *c)
{
    for (int64_t e = 0; e < E; e++) {
        struct product p = *all;
        p.M = offsets[e + 1] - offsets[e];
        p.a = moved(all->a, p.in, offsets[e] * p.K);
        p.b = moved(all->b, p.in, e * p.K * p.N);
        p.c = moved(all->c, p.out, offsets[e] * p.N);
        if (p.M > 0)
            ISA(product_run)(&p, c->workspace, c->threads);
    }
}

void ISA(cpu_linear_experts)(const struct args_linear_experts *a, const struct call *c)
{
    struct product p = forward(a);
    rows_of_experts(&p, a->offsets.data, a->w.shape[0], c);
}

void ISA(cpu_linear_experts_dx)(const struct args_linear_experts_dx *a, const struct call *c)
{
    struct product p = input_gradient(a);
    if (a->dx.data)
        rows_of_experts(&p, a->offsets.data, a->w.shape[0], c);
}

void ISA(cpu_linear_experts_dw)(const struct args_linear_experts_dw *a, const struct call *c)
{
    const int32_t *offsets = a->offsets.data;
    const struct product all = weight_gradient(a);
    for (int64_t e = 0; a->dw.data && e < a->offsets.shape[0] - 1; e++) {
        struct product p = all;
        p.K = offsets[e + 1] - offsets[e];
        p.a = moved(all.a, p.in, offsets[e] * p.M);
        p.b = moved(all.b, p.in, offsets[e] * p.N);
        p.c = moved(all.c, p.out, e * p.M * p.N);
        if (p.K > 0)
            ISA(product_run)(&p, c->workspace, c->threads);
        else if (!p.add)
            memset(p.c, 0, (size_t)dtype_bytes(p.out, p.M * p.N));
    }
}

int64_t ISA(cpu_linear_experts_workspace)(const struct args_linear_experts *a, int threads)
{
    struct product p = forward(a);
    return ISA(product_workspace)(&p, threads);
}

int64_t ISA(cpu_linear_experts_dx_workspace)(const struct args_linear_experts_dx *a, int threads)
{
    struct product p = input_gradient(a);
    return ISA(product_workspace)(&p, threads);
}

int64_t ISA(cpu_linear_experts_dw_workspace)(const struct args_linear_experts_dw *a, int threads)
{
    struct product p = weight_gradient(a);
    return ISA(product_workspace)(&p, threads);
}
