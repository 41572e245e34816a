/* linear_cross_entropy: the rows with a label, gathered a chunk at a time; of each chunk three products and what lies between
 * them, in place. Bound by the products.
 *
 * Order of sums: those of a row are those of linear, cross_entropy and linear_dx. dw is one sum over all rows with a label,
 * in their order, on top of what it holds; db is cut into runs of SUM_ROWS rows. So the bits depend on the number of
 * rows of a chunk only where that is no multiple of 64, for db of SUM_ROWS. In fp32 they are those of the single ops
 * where dw and db are not added to, and all rows have labels or there is no db. */
#include "op/linear_cross_entropy.h"
#include "cpu/kernels.h"

#include <string.h>

enum {
    SUM_ROWS = 512, /* of a bias gradient, summed in a register: as linear.c sums columns */
    CAP_ROWS = 16   /* whose gradient goes back through the softcap at a time */
};

/* Where what lies in the workspace begins, in bytes. */
struct layout {
    int64_t losses, real, labels, best, lse, x, logits, slopes, products, bytes;
};

static int64_t take(struct layout *l, int64_t bytes)
{
    int64_t at = l->bytes;
    l->bytes += (bytes + 63) / 64 * 64;
    return at;
}

static struct layout layout_of(const struct args_linear_cross_entropy *a)
{
    struct layout l = {0};
    int64_t N = a->x.shape[0], H = a->x.shape[1], V = a->w.shape[0], M = head_rows(a);
    bool goes_back = a->softcap > 0 && head_has_gradient(a);
    l.losses = take(&l, 8 * N);
    l.real = take(&l, 4 * N);
    l.labels = take(&l, 4 * M);
    l.best = take(&l, 4 * M);
    l.lse = take(&l, 4 * M);
    l.x = take(&l, dtype_bytes(a->x.dtype, M * H));
    l.logits = take(&l, dtype_bytes(a->x.dtype, M * V));
    l.slopes = take(&l, goes_back ? dtype_bytes(a->x.dtype, CAP_ROWS * V) : 0);
    l.products = l.bytes;
    return l;
}

/* One node's work. */
struct head {
    const struct args_linear_cross_entropy *a;
    struct layout at;
    char *base;
    struct call products; /* with their part of the workspace */
    int64_t n_real;       /* rows with a label, whose numbers are `real` */
    int32_t *real;
};

static struct head_chunk chunk_of(const struct head *h, int64_t from, int64_t rows)
{
    const struct args_linear_cross_entropy *a = h->a;
    return (struct head_chunk){.x = head_matrix(h->base + h->at.x, a->x.dtype, rows, a->x.shape[1]),
                               .labels = head_vector(h->base + h->at.labels, DT_I32, rows),
                               .logits = head_matrix(h->base + h->at.logits, a->x.dtype, rows, a->w.shape[0]),
                               .lse = head_vector(h->base + h->at.lse, DT_F32, rows),
                               .first = from == 0};
}

static int threads_for(const struct head *h, int64_t elements)
{
    return elements < PARALLEL_FROM ? 1 : h->products.threads;
}

/* Copies the rows `real` of `all` to those of `chunk` one after the other, or back. */
static void copy_rows(const struct head *h, const int32_t *real, const struct tensor *all, const struct tensor *chunk,
                      bool back)
{
    int64_t M = chunk->shape[0], bytes = dtype_bytes(chunk->dtype, chunk->shape[1]);
#pragma omp parallel for schedule(static) num_threads(threads_for(h, M * chunk->shape[1]))
    for (int64_t i = 0; i < M; i++) {
        char *there = (char *)all->data + real[i] * bytes, *here = (char *)chunk->data + i * bytes;
        memcpy(back ? there : here, back ? here : there, (size_t)bytes);
    }
}

static void gather(const struct head *h, const int32_t *real, const struct head_chunk *chunk)
{
    const int32_t *all = h->a->labels.data;
    int32_t *labels = chunk->labels.data;
    copy_rows(h, real, &h->a->x, &chunk->x, false);
    for (int64_t i = 0; i < chunk->labels.shape[0]; i++)
        labels[i] = all[real[i]];
}

static void find_best(const struct head *h, const int32_t *real, const struct head_chunk *chunk)
{
    int64_t M = chunk->x.shape[0];
    struct args_argmax best = {
        .logits = chunk->logits, .labels = chunk->labels, .best = head_vector(h->base + h->at.best, DT_I32, M)};
    ISA(cpu_argmax)(&best, &h->products);
    for (int64_t i = 0; i < M; i++)
        ((int32_t *)h->a->best.data)[real[i]] = ((const int32_t *)best.best.data)[i];
}

/* The chunk's logits become their gradient. */
static void loss_gradient(const struct head *h, const struct head_chunk *chunk)
{
    struct args_cross_entropy_bwd loss = head_loss_bwd(h->a, chunk);
    int64_t M = chunk->x.shape[0], V = chunk->logits.shape[1];
    if (h->a->softcap <= 0) {
        ISA(cpu_cross_entropy_bwd)(&loss, &h->products);
        return;
    }
    for (int64_t from = 0; from < M; from += CAP_ROWS) {
        int64_t rows = M - from < CAP_ROWS ? M - from : CAP_ROWS;
        struct tensor capped = head_matrix((char *)chunk->logits.data + dtype_bytes(chunk->logits.dtype, from * V),
                                           chunk->logits.dtype, rows, V);
        struct tensor slopes = head_matrix(h->base + h->at.slopes, chunk->logits.dtype, rows, V);
        loss.logits = capped;
        loss.dlogits = slopes;
        loss.labels = head_vector((int32_t *)chunk->labels.data + from, DT_I32, rows);
        loss.lse = head_vector((float *)chunk->lse.data + from, DT_F32, rows);
        ISA(cpu_cross_entropy_bwd)(&loss, &h->products);
        struct args_softcap_bwd cap = {.y = capped, .dy = slopes, .dx = capped, .cap = h->a->softcap};
        ISA(cpu_softcap_bwd)(&cap, &h->products);
    }
}

static void add_bias_gradient(const struct head *h, const struct args_linear_dw *dw)
{
    int64_t M = dw->dy.shape[0], V = dw->dy.shape[1];
    struct tensor db = dw->db;
    for (int64_t from = 0; from < M; from += SUM_ROWS) {
        int64_t rows = M - from < SUM_ROWS ? M - from : SUM_ROWS;
        struct tensor dy =
            head_matrix((char *)dw->dy.data + dtype_bytes(dw->dy.dtype, from * V), dw->dy.dtype, rows, V);
        ISA(cpu_sum_columns)(&dy, &db, h->products.threads);
        db.add = true;
    }
}

/* The gradients from that of the chunk's logits; dw before dx, which takes the place of the chunk's x. */
static void go_back(const struct head *h, const int32_t *real, const struct head_chunk *chunk)
{
    const struct args_linear_cross_entropy *a = h->a;
    struct args_linear_dw dw = head_dw(a, chunk);
    if (a->dw.data)
        ISA(cpu_linear_dw_goes_on)(&dw, &h->products);
    if (a->db.data)
        add_bias_gradient(h, &dw);
    if (!a->dx.data)
        return;
    struct args_linear_dx dx = head_dx(a, chunk, chunk->x);
    dx.dx.add = a->dx.add;
    if (a->dx.add)
        copy_rows(h, real, &a->dx, &chunk->x, false);
    ISA(cpu_linear_dx)(&dx, &h->products);
    copy_rows(h, real, &a->dx, &chunk->x, true);
}

static void run_chunk(const struct head *h, int64_t from, int64_t rows)
{
    const struct args_linear_cross_entropy *a = h->a;
    const int32_t *real = h->real + from;
    struct head_chunk chunk = chunk_of(h, from, rows);
    struct args_linear linear = head_linear(a, &chunk);
    struct args_softcap cap = head_softcap(a, &chunk);
    struct args_cross_entropy loss = head_loss(a, &chunk);
    gather(h, real, &chunk);
    ISA(cpu_linear)(&linear, &h->products);
    if (a->softcap > 0)
        ISA(cpu_softcap)(&cap, &h->products);
    if (a->best.data)
        find_best(h, real, &chunk);
    ISA(cpu_cross_entropy_rows)(&loss, (double *)(void *)(h->base + h->at.losses) + from, h->products.threads);
    if (!head_has_gradient(a))
        return;
    loss_gradient(h, &chunk);
    go_back(h, real, &chunk);
}

static void clear(const struct tensor *t)
{
    if (t->data && !t->add)
        memset(t->data, 0, (size_t)dtype_bytes(t->dtype, tensor_elements(t)));
}

/* Finds the rows with a label, and writes what the others get. */
static void find_real(struct head *h)
{
    const struct args_linear_cross_entropy *a = h->a;
    int64_t row = dtype_bytes(a->x.dtype, a->x.shape[1]);
    for (int64_t n = 0; n < a->x.shape[0]; n++) {
        if (((const int32_t *)a->labels.data)[n] >= 0) {
            h->real[h->n_real++] = (int32_t)n;
            continue;
        }
        if (a->best.data)
            ((int32_t *)a->best.data)[n] = -1;
        if (a->dx.data && !a->dx.add)
            memset((char *)a->dx.data + n * row, 0, (size_t)row);
    }
    if (h->n_real == 0) {
        clear(&a->dw);
        clear(&a->db);
    }
}

int64_t ISA(cpu_linear_cross_entropy_workspace)(const struct args_linear_cross_entropy *a, int threads)
{
    struct layout l = layout_of(a);
    struct head_chunk chunk = {.x = head_matrix(NULL, a->x.dtype, head_rows(a), a->x.shape[1]),
                               .logits = head_matrix(NULL, a->x.dtype, head_rows(a), a->w.shape[0])};
    struct args_linear linear = head_linear(a, &chunk);
    struct args_linear_dw dw = head_dw(a, &chunk);
    struct args_linear_dx dx = head_dx(a, &chunk, chunk.x);
    int64_t bytes = ISA(cpu_linear_workspace)(&linear, threads);
    bytes = head_larger(bytes, ISA(cpu_linear_dw_workspace)(&dw, threads));
    bytes = head_larger(bytes, a->dx.ndim ? ISA(cpu_linear_dx_workspace)(&dx, threads) : 0);
    return l.products + bytes;
}

void ISA(cpu_linear_cross_entropy)(const struct args_linear_cross_entropy *a, const struct call *c)
{
    struct head h = {.a = a, .at = layout_of(a), .base = c->workspace, .products = *c};
    h.products.workspace = h.base + h.at.products;
    h.real = (int32_t *)(void *)(h.base + h.at.real);
    find_real(&h);
    for (int64_t from = 0; from < h.n_real; from += a->chunk)
        run_chunk(&h, from, h.n_real - from < a->chunk ? h.n_real - from : a->chunk);
    ISA(cpu_mean_loss)((const double *)(void *)(h.base + h.at.losses), h.n_real, &a->step, &a->more, &a->loss);
}
