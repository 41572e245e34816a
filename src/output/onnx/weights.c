#include "output/onnx/write.h"

#include "run/weights.h"

static const struct model_tensor *tensor_of(const struct onnx *x, const struct model_dir *d,
                                            const struct onnx_tensor *t)
{
    return weights_find(d, x->c, graph_value(x->g, t->weight)->name);
}

static int check_weight(const struct onnx *x, const struct model_dir *d, const struct onnx_tensor *t,
                        struct snug_err *err)
{
    const struct value *v = graph_value(x->g, t->weight);
    const struct model_tensor *from = tensor_of(x, d, t);
    int64_t shape[MAX_DIMS];
    for (int i = 0; i < v->ndim; i++)
        shape[i] = v->shape[i].c;
    if (!from)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no weight %s, which config.json asks for; give a trained model",
                       d->path, v->name);
    return weights_check_tensor(from, v->ndim, shape, err);
}

int onnx_check_weights(const struct onnx *x, const struct model_dir *d, struct snug_err *err)
{
    for (size_t i = 0; i < x->n_tensors; i++)
        if (!x->tensors[i].data)
            TRY(check_weight(x, d, &x->tensors[i], err));
    return SNUG_OK;
}

/* ---- their numbers ---- */

enum { PIECE = 16 * MODEL_DIR_PIECE }; /* elements */

static int copy(const struct onnx_reader *r, const struct onnx_tensor *t, struct snug_err *err)
{
    const struct model_tensor *from = tensor_of(r->x, r->d, t);
    int64_t all = t->bytes / 4, most = all < PIECE ? all : PIECE;
    float *room = mem_realloc(NULL, (size_t)most * sizeof *room);
    int code = room ? SNUG_OK : err_no_memory(err, (unsigned long long)most * sizeof *room);
    for (int64_t at = 0; !code && at < all; at += PIECE) {
        int64_t n = all - at < PIECE ? all - at : PIECE;
        code = model_dir_read_part(r->d, from, DT_F32, at, n, room, err);
        if (!code)
            code = r->put(r->ctx, room, (size_t)n * sizeof *room, err);
    }
    mem_free(room);
    return code;
}

/* Some rows of what `whole` (O,I) is when it is turned. */
static void turn(float *to, const float *whole, int64_t O, int64_t I, int64_t first, int64_t rows)
{
    enum { BLOCK = 32 }; /* so that lines of the cache are used whole */
    for (int64_t o = 0; o < O; o += BLOCK)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = o; k < O && k < o + BLOCK; k++)
                to[i * O + k] = whole[k * I + first + i];
}

static int copy_turned(const struct onnx_reader *r, const struct onnx_tensor *t, struct snug_err *err)
{
    const int64_t I = t->shape[0], O = t->shape[1], most = PIECE / O ? PIECE / O : 1, step = most < I ? most : I;
    float *whole = mem_realloc(NULL, (size_t)t->bytes), *room = mem_realloc(NULL, (size_t)(step * O) * sizeof *room);
    int code = whole && room ? SNUG_OK : err_no_memory(err, (unsigned long long)t->bytes);
    if (!code)
        code = model_dir_read(r->d, tensor_of(r->x, r->d, t), DT_F32, whole, err);
    for (int64_t at = 0; !code && at < I; at += step) {
        int64_t rows = I - at < step ? I - at : step;
        turn(room, whole, O, I, at, rows);
        code = r->put(r->ctx, room, (size_t)(rows * O) * sizeof *room, err);
    }
    mem_free(whole);
    mem_free(room);
    return code;
}

int onnx_read_weight(const struct onnx_reader *r, const struct onnx_tensor *t, struct snug_err *err)
{
    return t->turned ? copy_turned(r, t, err) : copy(r, t, err);
}
