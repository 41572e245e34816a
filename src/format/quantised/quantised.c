#include "format/quantised/quantised.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "quantization_config"

static const struct quant_method methods[] = {
    {"bitsandbytes", "bitsandbytes", bitsandbytes_find, bitsandbytes_bits},
    {"fp8", "FP8", fp8_find, NULL},
    {"fbgemm_fp8", "FBGEMM", fp8_find, NULL},
    {"compressed-tensors", "compressed-tensors", compressed_tensors_find, NULL},
    {"gptq", "GPTQ", gptq_find, NULL},
    {"awq", "AWQ", awq_find, NULL},
    {"mxfp4", "MXFP4", mxfp4_find, NULL},
};
enum { METHODS = sizeof methods / sizeof *methods };

struct origin {
    quant_read *read;
    const void *of;
};

struct quantised {
    struct st_file *out;    /* whose tensors are the weights */
    struct origin *origins; /* as these stand there */
    struct quant_cache cache;
    struct arena arena;
};

/* ---- as a source of tensors ---- */

static int read_part(void *state, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                     struct snug_err *err)
{
    struct quantised *s = state;
    const struct origin *o = &s->origins[t - s->out->tensors];
    int64_t size = sizeof(float), n = (int64_t)bytes / size;
    return n ? o->read(&s->cache, o->of, offset / size, n, to, err) : SNUG_OK;
}

static void close_state(void *state)
{
    struct quantised *s = state;
    quant_cache_clear(&s->cache);
    mem_free(s->origins);
    arena_free(&s->arena);
    mem_free(s);
}

static const struct st_source source = {read_part, close_state};

const void *quant_found(const struct model_dir *d, const struct model_tensor *t, quant_read *read)
{
    if (!model_dir_has_quantized(d, t))
        return NULL;
    const struct quantised *s = d->numbers->source_state;
    const struct origin *o = &s->origins[t->tensor - s->out->tensors];
    return o->read == read ? o->of : NULL;
}

/* ---- for methods ---- */

const char *quant_end(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end) ? name + n - m : NULL;
}

const char *quant_name(struct quant_finding *f, const char *name, const char *end, const char *with)
{
    return arena_printf(f->arena, "%.*s%s", (int)(end - name), name, with);
}

int quant_take_any(struct quant_finding *f, const char *path, const char *suffix, struct model_tensor *out,
                   struct snug_err *err)
{
    *out = (struct model_tensor){0};
    const char *whole = arena_printf(f->arena, "%s%s", path, suffix);
    if (!whole)
        return err_no_memory(err, strlen(path) + strlen(suffix) + 1);
    const struct model_tensor *t = model_dir_find(f->d, whole);
    if (t) {
        f->gone[t - f->d->tensors] = true;
        *out = *t;
    }
    return SNUG_OK;
}

int quant_take(struct quant_finding *f, const char *path, const char *suffix, struct model_tensor *out,
               struct snug_err *err)
{
    TRY(quant_take_any(f, path, suffix, out, err));
    if (out->tensor)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: has no %.120s%.40s, which %s keeps beside the weight; get the model again",
                   f->d->path, path, suffix, f->method->maker);
}

void quant_drop(struct quant_finding *f, const char *end)
{
    for (size_t i = 0; i < f->d->n_tensors; i++)
        f->gone[i] |= quant_end(f->d->tensors[i].tensor->name, end) != NULL;
}

int quant_bad_part(const struct quant_finding *f, const struct model_tensor *t, struct snug_err *err)
{
    char shape[200];
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: %.120s, %s %s, does not fit the weight that %s has quantised; get the model again",
                   t->file->path, t->tensor->name, dtype_name(t->tensor->dtype), st_shape_text(t->tensor, shape),
                   f->method->maker);
}

int quant_read_elements(const struct model_tensor *t, int64_t first, int64_t n, void **out, struct snug_err *err)
{
    int64_t size = dtype_bytes(t->tensor->dtype, 1);
    size_t bytes = (size_t)(n * size);
    if (!(*out = mem_realloc(NULL, bytes))) /* not zeroed: it is filled at once */
        return err_no_memory(err, bytes);
    int code = st_read_part(t->file, t->tensor, first * size, *out, bytes, err);
    if (code) {
        mem_free(*out);
        *out = NULL;
    }
    return code;
}

int quant_add(struct quant_finding *f, struct st_tensor weight, quant_read *read, const void *of, struct snug_err *err)
{
    struct st_file *out = f->state->out;
    weight.dtype = DT_F32;
    weight.bytes = sizeof(float);
    for (int i = 0; i < weight.ndim; i++)
        if (__builtin_mul_overflow(weight.bytes, weight.shape[i], &weight.bytes))
            return err_set(err, SNUG_ERR_INPUT, "%s: %.120s is too large; get the model again", f->d->path,
                           weight.name);
    f->state->origins[out->n_tensors] = (struct origin){read, of};
    out->tensors[out->n_tensors++] = weight;
    return SNUG_OK;
}

/* ---- opening ---- */

/* The folder's tensors without what is gone, and with the numbers. */
static int replace_tensors(const struct quant_finding *f, struct snug_err *err)
{
    struct model_dir *d = f->d;
    const struct st_file *out = f->state->out;
    size_t n = 0, most = d->n_tensors + out->n_tensors;
    struct model_tensor *all = mem_alloc(most * sizeof *all);
    if (!all)
        return err_no_memory(err, most * sizeof *all);
    for (size_t i = 0; i < d->n_tensors; i++)
        if (!f->gone[i])
            all[n++] = d->tensors[i];
    for (size_t i = 0; i < out->n_tensors; i++)
        all[n++] = (struct model_tensor){&out->tensors[i], out};
    mem_free(d->tensors);
    d->tensors = all;
    d->n_tensors = n;
    return model_dir_sort(d, err);
}

/* An empty file whose source is `s`; no more weights than tensors are found. */
static int open_file(const struct model_dir *d, struct quantised *s, struct st_file *out, struct snug_err *err)
{
    *out = (struct st_file){.io = d->io, .fd = -1, .source = &source, .source_state = s};
    s->out = out;
    out->path = mem_strdup(d->path);
    out->tensors = mem_alloc(d->n_tensors * sizeof *out->tensors);
    s->origins = mem_alloc(d->n_tensors * sizeof *s->origins);
    bool there = out->path && out->tensors && s->origins;
    return there ? SNUG_OK : err_no_memory(err, d->n_tensors * (sizeof *out->tensors + sizeof *s->origins));
}

static int open_numbers(struct model_dir *d, const struct quant_method *method, json_t *config, struct snug_err *err)
{
    struct quantised *s = mem_alloc(sizeof *s);
    bool *gone = mem_alloc(d->n_tensors);
    struct st_file *out = mem_alloc(sizeof *out);
    if (!s || !gone || !out) {
        mem_free(s);
        mem_free(gone);
        mem_free(out);
        return err_no_memory(err, d->n_tensors);
    }
    d->numbers = out;
    struct quant_finding f = {d, method, config, s, &s->arena, gone};
    int code = open_file(d, s, out, err);
    if (!code)
        code = method->find(&f, err);
    if (!code && out->n_tensors)
        code = replace_tensors(&f, err);
    else if (!code)
        code =
            err_set(err, SNUG_ERR_INPUT,
                    "%s: " KEY " says that weights are quantised (%s), but none is; remove it, or get the model again",
                    d->config_path, method->name);
    mem_free(gone);
    return code;
}

/* The row of the method that quantization_config names, or that the tensors show; NULL: there is none. */
static int find_method(const struct model_dir *d, json_t *config, const struct quant_method **out, struct snug_err *err)
{
    const char *name = NULL;
    char list[200] = "";
    size_t used = 0;
    *out = NULL;
    if (config)
        TRY(json_get_string(config, d->config_path, "quant_method", false, &name, err));
    if (bitsandbytes_is(d) && (!name || !strcmp(name, methods[0].name)))
        name = methods[0].name;
    for (int i = 0; name && i < METHODS; i++) {
        if (!strcmp(name, methods[i].name)) {
            *out = &methods[i];
            return SNUG_OK;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", methods[i].name);
    }
    if (!name)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: " KEY ": quant_method is \"%.40s\"; those that are read are %s; take the model that this one "
                   "was made of",
                   d->config_path, name, list);
}

int quantised_open(struct model_dir *d, struct snug_err *err)
{
    const struct quant_method *method;
    json_t *config = json_object_get(d->config, KEY);
    config = json_is_object(config) ? config : NULL;
    TRY(find_method(d, config, &method, err));
    if (!method)
        return SNUG_OK; /* what else the key holds is refused with the configuration */
    if (d->n_tensors) {
        TRY(open_numbers(d, method, config, err));
        model_dir_note(d, "%s: %s has quantised %zu tensors", d->path, method->maker, d->numbers->n_tensors);
    }
    if (config && method->bits)
        TRY(method->bits(d, config, &d->bits, err));
    if (config && (d->bits.bits || !method->bits))
        json_object_del(d->config, KEY);
    return SNUG_OK;
}
