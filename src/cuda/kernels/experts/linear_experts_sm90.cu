/* linear_experts and linear_experts_dx on Hopper: the kernel of linear_sm90.cu, whose tiles begin where an expert's rows do. Tiles at the
 * end of an expert's rows make those of the next one too, but do not write them. */
#include "cuda/kernels/experts/linear_experts_sm90.h"
#include "cuda/kernels/linear/linear_sm90_kernel.cuh"

/* W of all experts, one below the other. */
static struct tensor stacked(const struct tensor *w)
{
    struct tensor all = *w;
    all.ndim = 2;
    all.shape[0] = w->shape[0] * w->shape[1];
    all.shape[1] = w->shape[2];
    return all;
}

static bool fits(const struct tensor *x, const struct tensor *w, const struct tensor *y, const struct cuda_call *c)
{
    struct tensor all = stacked(w);
    return has_kernel(x->dtype, c) && mapped(x, x->dtype) && mapped(&all, x->dtype) && mapped(y, x->dtype) && !y->add &&
           all.shape[0] < INT32_MAX && x->shape[0] < INT32_MAX - ROWS;
}

template <bool TURNED>
static int run(const struct tensor *x, const struct tensor *w, const struct tensor *offsets, const struct tensor *y,
               const struct cuda_call *c)
{
    struct params p = {};
    struct tensor all = stacked(w);
    TRY(map_all(&p, x, &all, TURNED, y, NULL, c));
    p.offsets = (const int32_t *)offsets->data;
    p.experts = (int)w->shape[0], p.w_rows = (int)w->shape[1], p.out = y->data;
    p.row_tiles = (int)(x->shape[0] / ROWS) + p.experts;
    if (x->dtype == DT_BF16)
        launch_linear<__nv_bfloat16, ACT_none, false, TURNED, true>(&p, c);
    else
        launch_linear<__half, ACT_none, false, TURNED, true>(&p, c);
    return cuda_launched(c, "linear_experts");
}

bool cuda_linear_experts_sm90_fits(const struct args_linear_experts *a, const struct cuda_call *c)
{
    return fits(&a->x, &a->w, &a->y, c);
}

int cuda_linear_experts_sm90(const struct args_linear_experts *a, const struct cuda_call *c)
{
    return a->in_out ? run<true>(&a->x, &a->w, &a->offsets, &a->y, c) : run<false>(&a->x, &a->w, &a->offsets, &a->y, c);
}

bool cuda_linear_experts_dx_sm90_fits(const struct args_linear_experts_dx *a, const struct cuda_call *c)
{
    return fits(&a->dy, &a->w, &a->dx, c);
}

int cuda_linear_experts_dx_sm90(const struct args_linear_experts_dx *a, const struct cuda_call *c)
{
    return a->in_out ? run<false>(&a->dy, &a->w, &a->offsets, &a->dx, c)
                     : run<true>(&a->dy, &a->w, &a->offsets, &a->dx, c);
}
