/* linear_cross_entropy (op/linear_cross_entropy.c): of each chunk of rows the kernels of the ops that it is made of, one after
 * the other, the logits and their gradient in one place. Bound by the products. Rows without a label go along, with a
 * gradient of 0: how many there are, the host does not know.
 *
 * Order of sums: that of each op; dw and db are added up chunk by chunk, so their bits depend on the rows of a chunk. */
#include "cuda/kernels/columns.cuh"

extern "C" {
#include "cuda/products/head.h"
#include "op/linear_cross_entropy.h"
}

enum { CAP_ROWS = 128 }; /* whose gradient goes back through the softcap at a time */

/* Where what lies in the workspace begins, in bytes. */
struct layout {
    int64_t losses, lse, logits, slopes, products, bytes;
};

static int64_t take(struct layout *l, int64_t bytes)
{
    int64_t at = l->bytes;
    l->bytes += (bytes + 255) / 256 * 256;
    return at;
}

static struct layout layout_of(const struct args_linear_cross_entropy *a)
{
    struct layout l = {};
    int64_t columns = a->w.shape[0] + a->w.pad_rows, rows = head_rows(a);
    bool goes_back = a->softcap > 0 && head_has_gradient(a);
    l.losses = take(&l, 8 * a->x.shape[0]);
    l.lse = take(&l, 4 * rows);
    l.logits = take(&l, dtype_bytes(a->x.dtype, rows * columns));
    l.slopes = take(&l, goes_back ? dtype_bytes(a->x.dtype, CAP_ROWS * columns) : 0);
    l.products = l.bytes;
    return l;
}

static void *plus(const void *p, enum dtype type, int64_t elements)
{
    return (char *)p + dtype_bytes(type, elements);
}

static struct head_chunk chunk_of(const struct args_linear_cross_entropy *a, char *base, int64_t from, int64_t rows)
{
    struct layout l = layout_of(a);
    struct head_chunk h = cuda_head_chunk(a, rows);
    h.x.data = plus(a->x.data, a->x.dtype, from * a->x.shape[1]);
    h.labels.data = plus(a->labels.data, DT_I32, from);
    h.logits.data = base + l.logits;
    h.lse.data = base + l.lse;
    h.first = from == 0;
    return h;
}

/* Logits with the zeros behind each row, which are 0 capped, too. */
static struct tensor with_padding(const struct tensor *logits)
{
    return head_matrix(logits->data, logits->dtype, logits->shape[0], tensor_pitch(logits));
}

static struct tensor rows_of(const struct tensor *t, int64_t from, int64_t rows)
{
    struct tensor part = *t;
    part.data = plus(t->data, t->dtype, from * (t->ndim == 2 ? tensor_pitch(t) : 1));
    part.shape[0] = rows;
    return part;
}

/* The chunk's logits become their gradient. */
static int loss_gradient(const struct args_linear_cross_entropy *a, const struct head_chunk *h,
                         const struct cuda_call *c, char *base)
{
    struct args_cross_entropy_bwd loss = head_loss_bwd(a, h);
    if (a->softcap <= 0)
        return cuda_cross_entropy_bwd(&loss, c);
    int64_t all = h->logits.shape[0];
    for (int64_t from = 0; from < all; from += CAP_ROWS) {
        int64_t rows = all - from < CAP_ROWS ? all - from : CAP_ROWS;
        loss.logits = loss.dlogits = rows_of(&h->logits, from, rows);
        loss.dlogits.data = base + layout_of(a).slopes;
        loss.labels = rows_of(&h->labels, from, rows);
        loss.lse = rows_of(&h->lse, from, rows);
        TRY(cuda_cross_entropy_bwd(&loss, c));
        struct args_softcap_bwd cap = {};
        cap.y = cap.dx = with_padding(&loss.logits);
        cap.dy = with_padding(&loss.dlogits);
        cap.cap = a->softcap;
        TRY(cuda_softcap_bwd(&cap, c));
    }
    return SNUG_OK;
}

static int run_chunk(const struct args_linear_cross_entropy *a, const struct cuda_call *c, char *base, int64_t from,
                     int64_t rows)
{
    struct head_chunk h = chunk_of(a, base, from, rows);
    struct args_linear linear = head_linear(a, &h);
    struct args_softcap cap = head_softcap(a, &h);
    struct args_cross_entropy loss = head_loss(a, &h);
    TRY(cuda_linear(&linear, c));
    cap.x = cap.y = with_padding(&h.logits);
    if (a->softcap > 0)
        TRY(cuda_softcap(&cap, c));
    if (a->best.data) {
        struct args_argmax best = {};
        best.logits = h.logits;
        best.labels = h.labels;
        best.best = rows_of(&a->best, from, rows);
        TRY(cuda_argmax(&best, c));
    }
    cuda_cross_entropy_rows(&loss, (double *)(base + layout_of(a).losses) + from, c);
    if (!head_has_gradient(a))
        return SNUG_OK;
    TRY(loss_gradient(a, &h, c, base));
    struct args_linear_dw dw = head_dw(a, &h);
    if (a->dw.data || a->db.data)
        TRY(cuda_linear_dw(&dw, c));
    if (!a->dx.data)
        return SNUG_OK;
    struct args_linear_dx dx = head_dx(a, &h, rows_of(&a->dx, from, rows));
    return cuda_linear_dx(&dx, c);
}

static void clear(const struct tensor *t, cudaStream_t s)
{
    if (t->data && !t->add)
        cudaMemsetAsync(t->data, 0, (size_t)dtype_bytes(t->dtype, tensor_elements(t)), s);
}

extern "C" int64_t cuda_linear_cross_entropy_workspace(const struct args_linear_cross_entropy *a,
                                                       const struct cuda_call *c)
{
    struct layout l = layout_of(a);
    struct head_chunk h = cuda_head_chunk(a, head_rows(a));
    struct args_linear linear = head_linear(a, &h);
    struct args_linear_dw dw = head_dw(a, &h);
    struct args_linear_dx dx = head_dx(a, &h, h.x);
    int64_t bytes = cuda_linear_workspace(&linear, c);
    bytes = head_larger(bytes, cuda_linear_dw_workspace(&dw, c));
    return l.products + head_larger(bytes, a->dx.ndim ? cuda_linear_dx_workspace(&dx, c) : 0);
}

extern "C" int cuda_linear_cross_entropy(const struct args_linear_cross_entropy *a, const struct cuda_call *c)
{
    char *base = (char *)c->workspace;
    struct cuda_call parts = *c;
    int64_t N = a->x.shape[0];
    parts.workspace = base + layout_of(a).products;
    if (N == 0) {
        clear(&a->dw, c->stream);
        clear(&a->db, c->stream);
    }
    for (int64_t from = 0; from < N; from += a->chunk)
        TRY(run_chunk(a, &parts, base, from, N - from < a->chunk ? N - from : a->chunk));
    cuda_mean_loss((const double *)(base + layout_of(a).losses), N, &a->step, &a->more, &a->loss, c);
    return cuda_launched(c, "linear_cross_entropy");
}
