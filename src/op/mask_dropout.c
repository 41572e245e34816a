/* ESM's dropout of masked tokens (Lin et al., Science 379, 2023, as transformers' modeling_esm): of sequence b, of whose n rows m have the
 * id of the mask token, these become 0 and the others are multiplied by kept n / (n - m), where `kept` is the share that training left. x
 * (T,H), ids (T). Its gradient is itself: the same rows of dy are 0, the others scaled. Rows that belong to no sequence are 0. */
#include "graph/graph.h"

void shape_mask_dropout(struct graph *g, struct op_mask_dropout *n)
{
    const struct value *x = graph_value(g, n->x), *ids = graph_value(g, n->ids);
    if (shape_require(g, x->ndim == 2 && ids->ndim == 1 && dim_equal(x->shape[0], ids->shape[0]), "mask_dropout",
                      "x must be (T,H), ids (T)"))
        n->y = shape_out(g, SHAPE(x->shape[0], x->shape[1]));
}

void grad_mask_dropout(struct grads *d, const struct op_mask_dropout *n)
{
    struct op_mask_dropout dx = {.x = grad_of(d, n->y), .ids = n->ids, .cu = n->cu, .token = n->token, .kept = n->kept};
    emit_mask_dropout(d->g, &dx);
    grad_set(d, n->x, dx.y);
}

double flops_mask_dropout(const struct args_mask_dropout *a)
{
    return (double)a->x.shape[0] * (double)a->x.shape[1];
}

void ref_mask_dropout(const struct args_mask_dropout *a, const struct call *c)
{
    (void)c;
    const int32_t *cu = a->cu.data, *ids = a->ids.data;
    const double *x = a->x.data;
    double *y = a->y.data;
    int64_t H = a->x.shape[1], B = a->cu.shape[0] - 1;
    for (int64_t b = 0; b < B; b++) {
        double rows = cu[b + 1] - cu[b], left = 0;
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            left += ids[n] != a->token;
        for (int64_t n = cu[b]; n < cu[b + 1]; n++)
            for (int64_t h = 0; h < H; h++)
                y[n * H + h] = ids[n] == a->token ? 0 : x[n * H + h] * a->kept * rows / left;
    }
    for (int64_t i = cu[B] * H; i < a->x.shape[0] * H; i++)
        y[i] = 0;
}
