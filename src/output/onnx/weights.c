#include "output/onnx/write.h"

#include "run/weights.h"

/* ---- which tensors of the folder ---- */

/* The weight itself, or the i-th of those that it is made of; 0 behind the last. */
static int part_of(const struct graph *g, int weight, int i)
{
    if (!graph_value(g, weight)->group)
        return i ? 0 : weight;
    for (int id = weight + 1; id < g->n_values; id++)
        if (graph_value(g, id)->base == weight && i-- == 0)
            return id;
    return 0;
}

static int check_part(const struct onnx *x, const struct model_dir *d, int id, struct snug_err *err)
{
    const struct value *v = graph_value(x->g, id);
    const struct model_tensor *t = weights_find(d, x->c, v->name);
    int64_t shape[MAX_DIMS];
    for (int i = 0; i < v->ndim; i++)
        shape[i] = v->shape[i].c;
    if (!t)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no weight %s, which config.json asks for; give a trained model",
                       d->path, v->name);
    return weights_check_tensor(t, v->ndim, shape, err);
}

int onnx_check_weights(const struct onnx *x, const struct model_dir *d, struct snug_err *err)
{
    for (size_t i = 0; i < x->n_tensors; i++)
        for (int k = 0, id; !x->tensors[i].data && (id = part_of(x->g, x->tensors[i].weight, k)); k++)
            TRY(check_part(x, d, id, err));
    return SNUG_OK;
}

/* ---- their numbers ---- */

enum { PIECE = 16 * MODEL_DIR_PIECE }; /* elements */

static int copy_part(const struct onnx_reader *r, int id, float *room, struct snug_err *err)
{
    const struct model_tensor *t = weights_find(r->d, r->x->c, graph_value(r->x->g, id)->name);
    int64_t all = st_elements(t->tensor);
    for (int64_t at = 0; at < all; at += PIECE) {
        int64_t n = all - at < PIECE ? all - at : PIECE;
        TRY(model_dir_read_part(r->d, t, DT_F32, at, n, room, err));
        TRY(r->put(r->ctx, room, (size_t)n * sizeof *room, err));
    }
    return SNUG_OK;
}

static int copy(const struct onnx_reader *r, const struct onnx_tensor *t, struct snug_err *err)
{
    size_t bytes = (size_t)(t->bytes < PIECE * 4 ? t->bytes : PIECE * 4);
    float *room = mem_realloc(NULL, bytes);
    int code = room ? SNUG_OK : err_no_memory(err, bytes);
    for (int k = 0, id; !code && (id = part_of(r->x->g, t->weight, k)); k++)
        code = copy_part(r, id, room, err);
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
    const int64_t I = t->shape[0], O = t->shape[1], step = PIECE / O ? PIECE / O : 1;
    float *whole = mem_realloc(NULL, (size_t)t->bytes), *room = mem_realloc(NULL, (size_t)(step * O) * sizeof *room);
    int code = whole && room ? SNUG_OK : err_no_memory(err, (unsigned long long)t->bytes);
    float *to = whole;
    for (int k = 0, id; !code && (id = part_of(r->x->g, t->weight, k)); k++) {
        const struct model_tensor *part = weights_find(r->d, r->x->c, graph_value(r->x->g, id)->name);
        code = model_dir_read(r->d, part, DT_F32, to, err);
        to += st_elements(part->tensor);
    }
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
