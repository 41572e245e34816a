/* linear_experts and its gradients (op/experts/linear_experts.c): a matrix product for each expert that has rows. Those of experts with
 * many rows come one after the other, each done by all threads. Those with few come side by side, each done by one thread: they end too
 * soon for threads to share them. A product's bits do not depend on threads. How many rows an expert has is known when it runs, so the
 * workspace has room for both: for all rows of one expert, and for few rows of one a thread. */
#include "cpu/kernels.h"
#include "cpu/product/product.h"

#include <omp.h>

static struct product forward(const struct args_linear_experts *a)
{
    return (struct product){.M = a->x.shape[0],
                            .N = a->y.shape[1],
                            .K = a->x.shape[1],
                            .a = a->x.data,
                            .a_by_k = true,
                            .b = a->w.data,
                            .b_by_k = !a->in_out,
                            .in = a->x.dtype,
                            .c = a->y.data,
                            .out = a->y.dtype};
}

static struct product input_gradient(const struct args_linear_experts_dx *a)
{
    return (struct product){.M = a->dy.shape[0],
                            .N = a->w.shape[a->in_out ? 1 : 2],
                            .K = a->dy.shape[1],
                            .a = a->dy.data,
                            .a_by_k = true,
                            .b = a->w.data,
                            .b_by_k = a->in_out,
                            .in = a->dy.dtype,
                            .c = a->dx.data,
                            .out = a->dx.dtype,
                            .add = a->dx.add};
}

static struct product weight_gradient(const struct args_linear_experts_dw *a)
{
    const struct tensor *rows = a->in_out ? &a->x : &a->dy, *columns = a->in_out ? &a->dy : &a->x; /* of dw[e] */
    return (struct product){.M = rows->shape[1],
                            .N = columns->shape[1],
                            .K = a->dy.shape[0],
                            .a = rows->data,
                            .b = columns->data,
                            .in = a->dy.dtype,
                            .c = a->dw.data,
                            .out = a->dw.dtype,
                            .add = a->dw.add};
}

static void *moved(const void *p, enum dtype type, int64_t elements)
{
    return (char *)(uintptr_t)p + dtype_bytes(type, elements);
}

/* Up to here rows are few. */
enum { FEW = 48 };

/* The product of one expert. */
typedef struct product expert_product(const struct product *all, const int32_t *offsets, int64_t e);

/* Rows of A and C are the experts', each has a B of its own. */
static struct product rows_of_expert(const struct product *all, const int32_t *offsets, int64_t e)
{
    struct product p = *all;
    p.M = offsets[e + 1] - offsets[e];
    p.a = moved(all->a, p.in, offsets[e] * p.K);
    p.b = moved(all->b, p.in, e * p.K * p.N);
    p.c = moved(all->c, p.out, offsets[e] * p.N);
    return p;
}

/* Rows of A and B are the experts', each has a C of its own. */
static struct product sum_of_expert(const struct product *all, const int32_t *offsets, int64_t e)
{
    struct product p = *all;
    p.K = offsets[e + 1] - offsets[e];
    p.a = moved(all->a, p.in, offsets[e] * p.M);
    p.b = moved(all->b, p.in, offsets[e] * p.N);
    p.c = moved(all->c, p.out, e * p.M * p.N);
    return p;
}

static void run_one(const struct product *p, void *workspace, int threads)
{
    if (p->K > 0)
        ISA(product_run)(p, workspace, threads);
    else if (!p->add)
        memset(p->c, 0, (size_t)dtype_bytes(p->out, p->M * p->N));
}

/* Bytes of workspace for a thread that does an expert's product with at most FEW rows. */
static int64_t few_bytes(const struct product *few)
{
    return (ISA(product_workspace)(few, 1) + 63) / 64 * 64;
}

/* few: as `all`, but of FEW rows at most. */
static int64_t workspace_of(const struct product *all, const struct product *few, int threads)
{
    int64_t one = ISA(product_workspace)(all, threads), each = threads * few_bytes(few);
    return one > each ? one : each;
}

static void run_experts(const struct product *all, const struct product *few, expert_product *of,
                        const int32_t *offsets, int64_t E, const struct call *c)
{
    int64_t n_few = 0, each = few_bytes(few);
    for (int64_t e = 0; e < E; e++)
        n_few += offsets[e + 1] - offsets[e] <= FEW;
    bool together = n_few >= c->threads; /* else some threads would have none */
#pragma omp parallel for schedule(dynamic) num_threads(together ? c->threads : 1)
    for (int64_t e = 0; e < (together ? E : 0); e++) {
        struct product p = of(all, offsets, e);
        if (offsets[e + 1] - offsets[e] <= FEW)
            run_one(&p, (char *)c->workspace + omp_get_thread_num() * each, 1);
    }
    for (int64_t e = 0; e < E; e++) {
        struct product p = of(all, offsets, e);
        if (!together || offsets[e + 1] - offsets[e] > FEW)
            run_one(&p, c->workspace, c->threads);
    }
}

static int64_t few_of(int64_t rows)
{
    return rows < FEW ? rows : FEW;
}

void ISA(cpu_linear_experts)(const struct args_linear_experts *a, const struct call *c)
{
    struct product p = forward(a), few = p;
    few.M = few_of(p.M);
    run_experts(&p, &few, rows_of_expert, a->offsets.data, a->w.shape[0], c);
}

void ISA(cpu_linear_experts_dx)(const struct args_linear_experts_dx *a, const struct call *c)
{
    struct product p = input_gradient(a), few = p;
    few.M = few_of(p.M);
    if (a->dx.data)
        run_experts(&p, &few, rows_of_expert, a->offsets.data, a->w.shape[0], c);
}

void ISA(cpu_linear_experts_dw)(const struct args_linear_experts_dw *a, const struct call *c)
{
    struct product p = weight_gradient(a), few = p;
    few.K = few_of(p.K);
    if (a->dw.data)
        run_experts(&p, &few, sum_of_expert, a->offsets.data, a->offsets.shape[0] - 1, c);
}

int64_t ISA(cpu_linear_experts_workspace)(const struct args_linear_experts *a, int threads)
{
    struct product p = forward(a), few = p;
    few.M = few_of(p.M);
    return workspace_of(&p, &few, threads);
}

int64_t ISA(cpu_linear_experts_dx_workspace)(const struct args_linear_experts_dx *a, int threads)
{
    struct product p = input_gradient(a), few = p;
    few.M = few_of(p.M);
    return workspace_of(&p, &few, threads);
}

int64_t ISA(cpu_linear_experts_dw_workspace)(const struct args_linear_experts_dw *a, int threads)
{
    struct product p = weight_gradient(a), few = p;
    few.K = few_of(p.K);
    return workspace_of(&p, &few, threads);
}
