#include "cuda/products/nodes.h"

#include "cuda/kernels/linear/linear_sm90.h"
#include "cuda/products/products.h"
#include "op/dx_act.h"

static int alignment(const void *p, int align)
{
    while ((uintptr_t)p % (unsigned)align)
        align /= 2;
    return align;
}

/* Of a product over all columns of a matrix. */
static int64_t pitch_of(const struct tensor *t)
{
    return t->columns ? t->pitch : 0;
}

static struct cuda_product product_of(enum op op, const struct tensor *rows, const struct tensor *factor,
                                      const struct tensor *result)
{
    struct cuda_product p = {.op = op,
                             .N = rows->shape[0],
                             .in = rows->dtype,
                             .out = result->dtype,
                             .bias = DT_U8,
                             .add = result->add,
                             .align = 16,
                             .rows_pitch = pitch_of(rows),
                             .factor_pitch = pitch_of(factor),
                             .result_pitch = pitch_of(result)};
    p.align = alignment(rows->data, p.align);
    p.align = alignment(factor->data, p.align);
    p.align = alignment(result->data, p.align);
    return p;
}

static struct cuda_product forward(struct cuda_products *p, const struct args_linear *a, bool tf32)
{
    struct cuda_product f = product_of(OP_linear, &a->x, &a->w, &a->y);
    f.I = a->x.shape[1];
    f.O = tensor_columns(&a->y);
    f.in_out = a->in_out;
    f.tf32 = tf32;
    f.add = a->add.ndim > 0;
    f.align = alignment(a->add.data, f.align);
    if (!a->b.data && !a->b.ndim)
        return f;
    f.bias = a->b.dtype;
    if (f.bias != f.out && !cuda_products_supported(p, &f))
        f.bias = f.out;
    return f;
}

/* Where rows are not scaled, the sums alone, in the result, or one row behind the other where that is added to. */
static struct cuda_product of_fp8(struct cuda_products *p, const struct args_linear_fp8 *a)
{
    bool scales = cuda_products_scale_rows(p);
    struct args_linear like = {.x = a->x, .w = a->w, .y = a->y};
    if (scales) {
        like.b = a->b;
        like.add = a->add;
    }
    struct cuda_product f = forward(p, &like, false);
    f.add |= scales && a->y.add;
    f.result_pitch = scales || !a->y.add ? f.result_pitch : 0;
    return f;
}

struct cuda_product cuda_product_of(struct cuda_products *p, enum op op, const union args_any *args, bool tf32)
{
    if (op == OP_linear)
        return forward(p, &args->linear, tf32 && args->linear.x.dtype == DT_F32);
    if (op == OP_linear_fp8)
        return of_fp8(p, &args->linear_fp8);
    struct cuda_product f;
    if (op == OP_linear_dx || op == OP_linear_dx_act) {
        const struct args_linear_dx a = op == OP_linear_dx ? args->linear_dx : dx_act_product(&args->linear_dx_act);
        f = product_of(OP_linear_dx, &a.dy, &a.w, &a.dx);
        f.I = a.dx.shape[1];
        f.O = tensor_columns(&a.dy);
        f.in_out = a.in_out;
    } else {
        const struct args_linear_dw *a = &args->linear_dw;
        f = product_of(op, &a->dy, &a->x, &a->dw);
        f.I = a->x.shape[1];
        f.O = tensor_columns(&a->dy);
        f.in_out = a->in_out;
    }
    f.tf32 = tf32 && f.in == DT_F32;
    return f;
}

bool cuda_product_own(enum op op, const union args_any *args, const struct cuda_product *product,
                      const struct cuda_call *c, struct cuda_product *own)
{
    *own = *product;
    own->own = true;
    if (op == OP_linear) {
        own->bias = args->linear.b.ndim ? args->linear.b.dtype : DT_U8;
        own->act = (enum act)args->linear.act;
        return cuda_linear_sm90_fits(&args->linear, c);
    }
    return op == OP_linear_dx_act && cuda_linear_dx_act_sm90_fits(&args->linear_dx_act, c);
}
