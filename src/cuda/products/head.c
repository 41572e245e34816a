#include "cuda/products/head.h"

struct head_chunk cuda_head_chunk(const struct args_linear_cross_entropy *a, int64_t rows)
{
    struct head_chunk h = {.x = head_matrix(NULL, a->x.dtype, rows, a->x.shape[1]),
                           .labels = head_vector(NULL, DT_I32, rows),
                           .logits = head_matrix(NULL, a->x.dtype, rows, a->w.shape[0]),
                           .lse = head_vector(NULL, DT_F32, rows),
                           .first = true};
    h.logits.pitch = a->w.pad_rows ? a->w.shape[0] + a->w.pad_rows : 0;
    return h;
}

int cuda_head_products(enum op op, const union args_any *args, struct cuda_product_node out[HEAD_PRODUCTS])
{
    const struct args_linear_cross_entropy *a = &args->linear_cross_entropy;
    int n = 0;
    if (op_is_product(op)) {
        out[n++] = (struct cuda_product_node){.op = op, .args = *args};
        return n;
    }
    if (op != OP_linear_cross_entropy)
        return 0;
    struct head_chunk h = cuda_head_chunk(a, head_rows(a));
    out[n].op = OP_linear;
    out[n++].args.linear = head_linear(a, &h);
    if (a->dw.ndim) {
        out[n].op = OP_linear_dw;
        out[n++].args.linear_dw = head_dw(a, &h);
    }
    if (a->dx.ndim) {
        out[n].op = OP_linear_dx;
        out[n++].args.linear_dx = head_dx(a, &h, h.x);
    }
    return n;
}
