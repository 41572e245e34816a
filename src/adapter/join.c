/* PEFT with transformers 4 had a matrix A (r,I) and a B (O,r) for each layer of each expert. Of the L layers that lie in one parameter
 * the matrices are blocks of the adapter's own, as PEFT with transformers 5 converts them when it loads them:
 *     A (E L r,I):   that of layer l of expert e begins at row (e L + l) r
 *     B (L O,L r E): row l O, column l r E + e, and its columns stand E apart; else it is 0
 * Mixtral's router has another name. */
#include "adapter/join.h"

#include "format/st_header.h"

#include <string.h>

/* A matrix of the file, as a part of one that the adapter has. */
struct block {
    const struct st_tensor *of;
    int64_t row, column, step; /* its element (i,k) stands at (row + i, column + k step) */
};

/* What a tensor of the adapter is read from. */
struct origin {
    struct block *blocks; /* NULL: it is a tensor of the file, `same` */
    size_t n;
    const struct st_tensor *same;
};

struct joined {
    struct st_file file;
    struct st_tensor *tensors; /* (n) */
    struct origin *origins;    /* (n) */
    size_t n;
    bool *used; /* by tensor of the file: a block of another */
    struct arena arena;
};

/* ---- reading ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What lies in the block of elements [first, first + n) of t. */
static int read_block(const struct st_file *f, const struct st_tensor *t, const struct block *b, int64_t first,
                      int64_t n, char *to, struct snug_err *err)
{
    int64_t width = t->shape[1], columns = b->of->shape[1];
    int64_t from = most(first / width - b->row, 0), end = least((first + n - 1) / width + 1 - b->row, b->of->shape[0]);
    size_t size = (size_t)dtype_bytes(t->dtype, 1), row_bytes = (size_t)columns * size;
    if (from >= end)
        return SNUG_OK;
    char *rows = mem_alloc((size_t)(end - from) * row_bytes);
    int code = rows ? st_read_part(f, b->of, from * (int64_t)row_bytes, rows, (size_t)(end - from) * row_bytes, err)
                    : err_no_memory(err, (unsigned long long)(end - from) * row_bytes);
    for (int64_t i = from; !code && i < end; i++)
        for (int64_t k = 0; k < columns; k++) {
            int64_t at = (b->row + i) * width + b->column + k * b->step - first;
            if (at >= 0 && at < n)
                memcpy(to + (size_t)at * size, rows + (size_t)(i - from) * row_bytes + (size_t)k * size, size);
        }
    mem_free(rows);
    return code;
}

static int read_part(void *state, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                     struct snug_err *err)
{
    const struct joined *j = state;
    const struct origin *o = &j->origins[t - j->tensors];
    int64_t size = dtype_bytes(t->dtype, 1);
    if (!o->blocks)
        return st_read_part(&j->file, o->same, offset, to, bytes, err);
    memset(to, 0, bytes);
    for (size_t i = 0; bytes && i < o->n; i++)
        TRY(read_block(&j->file, t, &o->blocks[i], offset / size, (int64_t)bytes / size, to, err));
    return SNUG_OK;
}

static void close_state(void *state)
{
    struct joined *j = state;
    st_close(&j->file);
    mem_free(j->origins);
    mem_free(j->used);
    arena_free(&j->arena);
    mem_free(j);
}

static const struct st_source source = {read_part, close_state};

/* ---- what is put together ---- */

struct joining {
    const struct adapter_set *set;
    const struct graph *g;
    const struct model_dir *d; /* as the file is */
    struct joined *to;
};

static const struct st_tensor *find(const struct model_dir *d, const char *path, size_t n, const char *which,
                                    char name[MODEL_NAME_MAX])
{
    snprintf(name, MODEL_NAME_MAX, ADAPTER_PREFIX "%.*s.%s.weight", (int)n, path, which);
    const struct model_tensor *t = model_dir_find(d, name);
    return t ? t->tensor : NULL;
}

/* The file's matrix for the layer whose weight has this name, of `rows` and `columns`. */
static int take(struct joining *x, const char *weight, const char *which, int64_t rows, int64_t columns,
                const struct st_tensor **out, struct snug_err *err)
{
    char name[MODEL_NAME_MAX], have[200], want[200];
    const struct st_tensor *t = find(x->d, weight, adapter_module_length(weight), which, name);
    struct st_tensor wanted = {.ndim = 2, .shape = {rows, columns}};
    if (!t)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no %s, which adapter_config.json asks for; get the adapter again",
                       x->d->path, name);
    if (strcmp(st_shape_text(t, have), st_shape_text(&wanted, want)) != 0)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %s has shape %s where adapter_config.json and the model ask for %s; take both from one "
                       "adapter",
                       x->d->path, name, have, want);
    x->to->used[t - x->to->file.tensors] = true;
    *out = t;
    return SNUG_OK;
}

/* The next tensor of the adapter, in the type of its blocks. */
static int add_tensor(struct joining *x, const struct adapter *a, const char *which, int64_t rows, int64_t columns,
                      struct origin o, struct snug_err *err)
{
    struct st_tensor *t = &x->to->tensors[x->to->n];
    *t = (struct st_tensor){.name = arena_printf(&x->to->arena, ADAPTER_PREFIX "%s.%s.weight", a->path, which),
                            .dtype = o.blocks->of->dtype,
                            .ndim = 2,
                            .shape = {rows, columns},
                            .at = o.blocks->of->at};
    if (!t->name)
        return err_no_memory(err, strlen(a->path));
    if (__builtin_mul_overflow(rows, columns, &t->bytes) ||
        __builtin_mul_overflow(t->bytes, dtype_bytes(t->dtype, 1), &t->bytes))
        return err_set(err, SNUG_ERR_INPUT, "%s: the size of %s overflows; get the adapter again", x->d->path, t->name);
    for (size_t i = 1; i < o.n; i++)
        if (o.blocks[i].of->dtype != t->dtype)
            return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s, and that of another expert is %s; get the adapter again",
                           x->d->path, o.blocks[i].of->name, dtype_name(o.blocks[i].of->dtype), dtype_name(t->dtype));
    x->to->origins[x->to->n++] = o;
    return SNUG_OK;
}

/* A and B of a parameter with the weights of E experts, of which each has L layers of O outputs. */
static int join_experts(struct joining *x, const struct adapter *a, struct snug_err *err)
{
    const struct value *whole = graph_value(x->g, graph_find(x->g, a->module));
    int64_t E = a->experts, out = whole->shape[1].c, in = whole->shape[2].c, L = 0, n = 0;
    struct origin of_a = {0}, of_b = {0};
    for (size_t i = 0; i < x->set->n_parts; i++)
        n += !strcmp(x->set->parts[i].module, a->module);
    L = n / E;
    of_a.blocks = arena_alloc(&x->to->arena, (size_t)n * sizeof *of_a.blocks);
    of_b.blocks = arena_alloc(&x->to->arena, (size_t)n * sizeof *of_b.blocks);
    if (!of_a.blocks || !of_b.blocks)
        return err_no_memory(err, 2 * (unsigned long long)n * sizeof *of_a.blocks);
    for (size_t i = 0; i < x->set->n_parts; i++) {
        const struct adapter_part *p = &x->set->parts[i];
        int64_t O = out / L, l = p->row / O, r = a->r / L;
        struct block *pa = &of_a.blocks[of_a.n], *pb = &of_b.blocks[of_b.n];
        if (strcmp(p->module, a->module) != 0)
            continue;
        *pa = (struct block){.row = (p->expert * L + l) * r, .step = 1};
        *pb = (struct block){.row = p->row, .column = l * r * E + p->expert, .step = E};
        TRY(take(x, p->weight, "lora_A", r, in, &pa->of, err));
        TRY(take(x, p->weight, "lora_B", O, r, &pb->of, err));
        of_a.n++;
        of_b.n++;
    }
    TRY(add_tensor(x, a, "lora_A", E * a->r, in, of_a, err));
    return add_tensor(x, a, "lora_B", out, a->r * E, of_b, err);
}

/* A tensor of a router under the name that it has now. */
static int rename_router(struct joining *x, const struct adapter *a, const char *which, struct snug_err *err)
{
    char name[MODEL_NAME_MAX];
    const struct st_tensor *t = find(x->d, a->module, strlen(a->module), which, name);
    if (!t)
        return SNUG_OK;
    struct st_tensor *renamed = &x->to->tensors[x->to->n];
    *renamed = *t;
    if (!(renamed->name = arena_printf(&x->to->arena, ADAPTER_PREFIX "%s.%s.weight", a->path, which)))
        return err_no_memory(err, strlen(a->path));
    x->to->used[t - x->to->file.tensors] = true;
    x->to->origins[x->to->n++] = (struct origin){.same = t};
    return SNUG_OK;
}

/* Whether the file lacks what the adapter has, under its name. */
static bool lacks(const struct model_dir *d, const struct adapter *a)
{
    char name[MODEL_NAME_MAX];
    return !find(d, a->path, strlen(a->path), "lora_A", name) && !find(d, a->path, strlen(a->path), "lora_B", name);
}

/* What has to be put together or renamed. */
static bool is_older(const struct model_dir *d, const struct adapter_set *set, const struct adapter *a)
{
    return (a->experts ? set->of_layers : strcmp(a->path, a->module) != 0) && lacks(d, a);
}

static int join_all(struct joining *x, struct snug_err *err)
{
    const struct adapters *all = &x->set->adapters;
    struct joined *to = x->to;
    for (size_t i = 0; i < all->n; i++) {
        const struct adapter *a = &all->list[i];
        if (!is_older(x->d, x->set, a))
            continue;
        if (a->experts) {
            TRY(join_experts(x, a, err));
        } else {
            TRY(rename_router(x, a, "lora_A", err));
            TRY(rename_router(x, a, "lora_B", err));
        }
    }
    for (size_t i = 0; i < to->file.n_tensors; i++) {
        if (to->used[i])
            continue;
        to->tensors[to->n] = to->file.tensors[i];
        to->origins[to->n++] = (struct origin){.same = &to->file.tensors[i]};
    }
    return SNUG_OK;
}

/* ---- the folder ---- */

/* The folder's file becomes one that is read through the other. */
static int replace_file(struct model_dir *d, struct joined *j, struct snug_err *err)
{
    struct st_file out = {.io = d->io,
                          .path = mem_strdup(j->file.path),
                          .fd = -1,
                          .file_bytes = j->file.file_bytes,
                          .header_bytes = j->file.header_bytes,
                          .tensors = j->tensors,
                          .n_tensors = j->n,
                          .source = &source,
                          .source_state = j};
    d->files[0] = out;
    mem_free(d->tensors);
    d->tensors = NULL;
    d->n_tensors = 0;
    if (!out.path)
        return err_no_memory(err, strlen(j->file.path));
    TRY(st_sort_names(&d->files[0], err));
    return model_dir_merge(d, err);
}

int adapter_join(struct model_dir *d, const struct adapter_set *set, const struct graph *g, struct snug_err *err)
{
    bool any = false;
    for (size_t i = 0; i < set->adapters.n; i++)
        any |= is_older(d, set, &set->adapters.list[i]);
    if (!any)
        return SNUG_OK;
    struct joined *j = mem_alloc(sizeof *j);
    if (!j)
        return err_no_memory(err, sizeof *j);
    j->file = d->files[0];
    size_t room = j->file.n_tensors + 2 * set->adapters.n;
    j->tensors = mem_alloc(room * sizeof *j->tensors);
    j->origins = mem_alloc(room * sizeof *j->origins);
    j->used = mem_alloc(j->file.n_tensors + 1);
    struct joining x = {set, g, d, j};
    int code = j->tensors && j->origins && j->used ? join_all(&x, err) : err_no_memory(err, room * sizeof *j->tensors);
    if (!code)
        return replace_file(d, j, err);
    mem_free(j->tensors);
    j->file = (struct st_file){.fd = -1}; /* stays the folder's */
    close_state(j);
    return code;
}
