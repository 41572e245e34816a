/* linear_cross_entropy.h: the parts of linear_cross_entropy for a chunk of its rows, as the ops that it is made of. A backend
 * gives the chunk's tensors: matrices with M rows of x and of logits, vectors of M labels and lse. */
#ifndef OP_LINEAR_CROSS_ENTROPY_H
#define OP_LINEAR_CROSS_ENTROPY_H

#include "graph/op.h"

struct head_chunk {
    struct tensor x, labels;
    struct tensor logits; /* as the linear layer gives them, then capped, then their gradient: all in one place */
    struct tensor lse;
    bool first; /* of the node: what it writes does not hold anything of it yet */
};

static inline struct tensor head_matrix(void *data, enum dtype type, int64_t rows, int64_t columns)
{
    return (struct tensor){.data = data, .shape = {rows, columns}, .dtype = type, .ndim = 2};
}

static inline struct tensor head_vector(void *data, enum dtype type, int64_t n)
{
    return (struct tensor){.data = data, .shape = {n}, .dtype = type, .ndim = 1};
}

static inline int64_t head_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Most rows of a chunk. */
static inline int64_t head_rows(const struct args_linear_cross_entropy *a)
{
    int64_t N = a->x.shape[0];
    return N < a->chunk ? N : a->chunk;
}

/* Shapes have ndim also where there are no data yet, while a workspace is reckoned. */
static inline bool head_has_gradient(const struct args_linear_cross_entropy *a)
{
    return a->dx.ndim || a->dw.ndim || a->db.ndim;
}

static inline struct args_linear head_linear(const struct args_linear_cross_entropy *a, const struct head_chunk *h)
{
    return (struct args_linear){.x = h->x, .w = a->w, .b = a->b, .y = h->logits};
}

static inline struct args_softcap head_softcap(const struct args_linear_cross_entropy *a, const struct head_chunk *h)
{
    return (struct args_softcap){.x = h->logits, .y = h->logits, .cap = a->softcap};
}

static inline struct args_cross_entropy head_loss(const struct args_linear_cross_entropy *a, const struct head_chunk *h)
{
    return (struct args_cross_entropy){.logits = h->logits,
                                       .labels = h->labels,
                                       .step = a->step,
                                       .loss = a->loss,
                                       .lse = h->lse,
                                       .smoothing = a->smoothing};
}

static inline struct args_cross_entropy_bwd head_loss_bwd(const struct args_linear_cross_entropy *a,
                                                          const struct head_chunk *h)
{
    return (struct args_cross_entropy_bwd){.logits = h->logits,
                                           .labels = h->labels,
                                           .lse = h->lse,
                                           .step = a->step,
                                           .scaler = a->scaler,
                                           .dlogits = h->logits,
                                           .smoothing = a->smoothing};
}

static inline struct args_linear_dw head_dw(const struct args_linear_cross_entropy *a, const struct head_chunk *h)
{
    struct args_linear_dw dw = {.dy = h->logits, .x = h->x, .dw = a->dw, .db = a->db};
    dw.dw.add |= !h->first;
    dw.db.add |= !h->first;
    return dw;
}

/* dx: of the chunk's rows. */
static inline struct args_linear_dx head_dx(const struct args_linear_cross_entropy *a, const struct head_chunk *h,
                                            struct tensor dx)
{
    return (struct args_linear_dx){.dy = h->logits, .w = a->w, .dx = dx};
}

#endif
