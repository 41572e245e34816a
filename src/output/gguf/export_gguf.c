#include "output/gguf/export_gguf.h"

#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 }; /* elements that are read at a time, or a row */

/* One tensor of the file. */
struct part {
    const struct model_tensor *from; /* NULL: `values` */
    const float *values;
    char name[GGUF_NAME_MAX];
    enum gguf_change change;
    int64_t columns, width; /* of a row; rows of a head, where the order of rows differs */
    int64_t experts;        /* so many tensors of the model, `from` being the first expert's; 0: it is one */
};

struct job {
    const struct gguf_export *e;
    const struct gguf_family *family;
    struct model_dir *d;
    struct gguf_writer w;
    struct out_file file;
    struct part *parts;
    size_t n;
    struct gguf_rotary rotary;
    int64_t experts; /* of a layer; 0: none */
    struct arena names;
    void *raw;
    float *wide;
};

/* ---- the text model of a folder that has other parts ---- */

static const struct model_arch *arch_with_parts(const struct model_dir *d)
{
    const char *type = json_string_value(json_object_get(d->config, "model_type"));
    for (int i = 0; type && model_archs[i]; i++)
        if (model_archs[i]->part && !strcmp(model_archs[i]->model_type, type))
            return model_archs[i];
    return NULL;
}

/* What a file would call a tensor that it calls `name`, if it had the text model alone. */
static const char *alone(struct job *j, const struct model_arch *a, const char *name)
{
    const char *base = NULL;
    for (const struct spelled_name *s = a->spelled; s->name && !base; s++)
        if (!strncmp(name, s->in_files, strlen(s->in_files)))
            base = strcmp(s->name, a->base_prefix)
                       ? arena_printf(&j->names, "%s%s", s->name, name + strlen(s->in_files))
                       : arena_printf(&j->names, "model.%s", name + strlen(s->in_files));
    if (!base && !strncmp(name, a->base_prefix, strlen(a->base_prefix)))
        return arena_printf(&j->names, "model.%s", name + strlen(a->base_prefix));
    return base ? base : name;
}

static int by_name(const void *a, const void *b)
{
    const struct model_tensor *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

/* The folder becomes the text model's: its settings, its tensors with the names that they would have. */
static int take_text_model(struct job *j, struct snug_err *err)
{
    const struct model_arch *a = arch_with_parts(j->d);
    struct model_config c = {.arch = a};
    size_t n = 0;
    if (!a)
        return SNUG_OK;
    TRY(model_config_read(j->d->config, j->d->config_path, &c, err));
    for (size_t i = 0; i < j->d->n_tensors; i++) {
        struct st_tensor *t = arena_alloc(&j->names, sizeof *t);
        if (model_carries(&c, j->d->tensors[i].tensor->name))
            continue;
        if (!t)
            return err_no_memory(err, sizeof *t);
        *t = *j->d->tensors[i].tensor;
        if (!(t->name = alone(j, a, t->name)))
            return err_no_memory(err, MODEL_NAME_MAX);
        j->d->tensors[n++] = (struct model_tensor){t, j->d->tensors[i].file};
    }
    j->d->n_tensors = n;
    qsort(j->d->tensors, n, sizeof *j->d->tensors, by_name);
    json_t *own = json_deep_copy(model_settings(a, j->d->config));
    int failed = !own || json_object_set_new(own, "model_type", json_string(a->alone)) ||
                 json_object_set_new(own, "tie_word_embeddings", json_boolean(!c.untied));
    if (failed) {
        json_decref(own);
        return err_no_memory(err, 1 << 12);
    }
    json_decref(j->d->config);
    j->d->config = own;
    return SNUG_OK;
}

/* ---- which tensors ---- */

/* What transformers' files may have besides: buffers, and the second name of tied embeddings. */
static bool left_out(const struct job *j, const char *name)
{
    const char *end = strstr(name, ".rotary_emb.inv_freq");
    bool tied = !json_is_false(json_object_get(j->d->config, "tie_word_embeddings")) &&
                json_object_get(j->d->config, "tie_word_embeddings");
    return end || (tied && !strcmp(name, "lm_head.weight"));
}

static int head_width(const struct job *j, struct part *p, struct snug_err *err)
{
    const struct st_tensor *t = p->from->tensor;
    int64_t heads = 1;
    TRY(json_get_int(j->d->config, j->d->config_path, "num_attention_heads", true, 1, 4095, &heads, err));
    if (p->change == GGUF_KEY_ROWS)
        TRY(json_get_int(j->d->config, j->d->config_path, "num_key_value_heads", false, 1, 4095, &heads, err));
    p->width = t->shape[0] / heads;
    if (!p->width || t->shape[0] % heads || p->width % 2)
        return err_set(err, SNUG_ERR_INPUT, "%s: %.80s has %lld rows, which %lld heads of an even width do not make",
                       j->d->path, t->name, (long long)t->shape[0], (long long)heads);
    return SNUG_OK;
}

static const struct gguf_type *type_of(const struct job *j, const struct st_tensor *t, const char *own)
{
    if (t->ndim == 1 || gguf_stays_wide(own))
        return gguf_type_named("F32");
    return t->shape[t->ndim - 1] % j->e->type->block ? gguf_type_named("F16") : j->e->type;
}

/* The tensor of expert e of a part; NULL: it is not there. */
static const struct model_tensor *of_expert(const struct job *j, const struct part *p, int64_t e)
{
    char name[GGUF_NAME_MAX];
    return gguf_expert_to_hf(j->family, p->name, e, name) ? model_dir_find(j->d, name) : NULL;
}

/* With the first expert's tensor those of all become one part. */
static int add_expert(struct job *j, struct part *p, int64_t e, struct snug_err *err)
{
    const struct st_tensor *t = p->from->tensor;
    const struct model_tensor *first = of_expert(j, p, 0);
    if (!first || e >= j->experts || t->ndim != 2 || memcmp(t->shape, first->tensor->shape, sizeof t->shape) != 0)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: tensor %.100s is not one of %lld experts of one shape; give a whole model", j->d->path,
                       t->name, (long long)j->experts);
    if (e)
        return SNUG_OK;
    for (p->experts = 1; p->experts < j->experts; p->experts++)
        if (!of_expert(j, p, p->experts))
            return err_set(err, SNUG_ERR_INPUT, "%s: %.100s is there, and no tensor of expert %lld; give a whole model",
                           j->d->path, t->name, (long long)p->experts);
    const int64_t shape[] = {j->experts, t->shape[0], t->shape[1]};
    gguf_put_tensor(&j->w, p->name, type_of(j, t, p->name), 3, shape);
    j->n++;
    return SNUG_OK;
}

static int add_tensor(struct job *j, const struct model_tensor *from, struct snug_err *err)
{
    int64_t e;
    const struct st_tensor *t = from->tensor;
    struct part *p = &j->parts[j->n];
    *p = (struct part){.from = from, .columns = t->ndim > 1 ? t->shape[t->ndim - 1] : 1};
    if (left_out(j, t->name))
        return SNUG_OK;
    if (gguf_expert_from_hf(j->family, t->name, p->name, &e))
        return add_expert(j, p, e, err);
    bool number = t->dtype == DT_F32 || t->dtype == DT_F16 || t->dtype == DT_BF16 || t->dtype == DT_F64;
    if (!gguf_name_from_hf(j->family, t->name, p->name) || t->ndim < 1 || t->ndim > 2 || !number)
        return err_set(err, SNUG_ERR_INPUT, "%s: tensor %.100s has no place in a GGUF file of the architecture %s",
                       j->d->path, t->name, j->family->architecture);
    p->change = gguf_change(j->family, p->name);
    if (p->change == GGUF_QUERY_ROWS || p->change == GGUF_KEY_ROWS)
        TRY(head_width(j, p, err));
    gguf_put_tensor(&j->w, p->name, type_of(j, t, p->name), t->ndim, t->shape);
    j->n++;
    return SNUG_OK;
}

static int add_tensors(struct job *j, struct snug_err *err)
{
    j->parts = mem_alloc((j->d->n_tensors + (size_t)j->rotary.n) * sizeof *j->parts);
    if (!j->parts)
        return err_no_memory(err, j->d->n_tensors * sizeof *j->parts);
    for (int i = 0; i < j->rotary.n; i++) {
        const struct gguf_divisors *d = &j->rotary.of[i];
        struct part *p = &j->parts[j->n++];
        *p = (struct part){.values = d->x, .columns = d->n};
        snprintf(p->name, sizeof p->name, "%s", d->tensor);
        gguf_put_tensor(&j->w, d->tensor, gguf_type_named("F32"), 1, &d->n);
    }
    for (size_t i = 0; i < j->d->n_tensors; i++)
        TRY(add_tensor(j, &j->d->tensors[i], err));
    return SNUG_OK;
}

/* ---- their numbers ---- */

/* Elements [at, at + n) of the file's tensor into j->wide; n is a row where rows are in another order. */
static int read_piece(struct job *j, const struct part *p, const struct model_tensor *from, int64_t at, int64_t n,
                      struct snug_err *err)
{
    const struct st_tensor *t = from->tensor;
    if (p->width)
        at = gguf_model_row(at / p->columns, p->width) * p->columns;
    TRY(st_read_part(from->file, t, dtype_bytes(t->dtype, at), j->raw, (size_t)dtype_bytes(t->dtype, n), err));
    dtype_convert(j->wide, DT_F32, j->raw, t->dtype, n);
    for (int64_t i = 0; p->change == GGUF_PLUS_ONE && i < n; i++)
        j->wide[i] += 1;
    return SNUG_OK;
}

/* One tensor of the model, which is the part or one expert's. */
static int write_tensor(struct job *j, const struct part *p, const struct model_tensor *from, struct snug_err *err)
{
    int64_t all = st_elements(from->tensor), rows = p->width ? 1 : PIECE / p->columns,
            step = p->columns * (rows ? rows : 1);
    for (int64_t at = 0; at < all; at += step) {
        int64_t n = all - at < step ? all - at : step;
        TRY(read_piece(j, p, from, at, n, err));
        TRY(gguf_write_elements(&j->w, from->tensor->name, j->wide, n, err));
    }
    return SNUG_OK;
}

static int write_part(struct job *j, const struct part *p, struct snug_err *err)
{
    if (!p->from)
        return gguf_write_elements(&j->w, p->name, p->values, p->columns, err);
    TRY(write_tensor(j, p, p->from, err));
    for (int64_t e = 1; e < p->experts; e++)
        TRY(write_tensor(j, p, of_expert(j, p, e), err));
    return SNUG_OK;
}

static int write_file(struct job *j, struct snug_err *err)
{
    int64_t widest = PIECE;
    for (size_t i = 0; i < j->n; i++)
        widest = j->parts[i].columns > widest ? j->parts[i].columns : widest;
    j->raw = mem_realloc(NULL, (size_t)widest * sizeof(double));
    j->wide = mem_realloc(NULL, (size_t)widest * sizeof *j->wide);
    if (!j->raw || !j->wide)
        return err_no_memory(err, (size_t)widest * 12);
    TRY(gguf_write_start(&j->w, &j->file, err));
    for (size_t i = 0; i < j->n; i++)
        TRY(write_part(j, &j->parts[i], err));
    return out_file_publish(&j->file, err);
}

/* ---- all together ---- */

static int put_general(struct job *j, struct snug_err *err)
{
    static const struct {
        const char *type;
        uint32_t id;
    } file_types[] = {{"F32", 0}, {"F16", 1}, {"Q8_0", 7}, {"BF16", 32}}; /* llama_ftype */
    const char *model_type = NULL, *name = strrchr(j->d->path, '/');
    char list[256];
    TRY(json_get_string(j->d->config, j->d->config_path, "model_type", true, &model_type, err));
    if (!(j->family = gguf_family_of_type(model_type)))
        return err_set(err, SNUG_ERR_INPUT, "%s: model_type is \"%.60s\"; GGUF files are written of: %s",
                       j->d->config_path, model_type, gguf_family_list(true, list));
    gguf_put_text(&j->w, "general.architecture", j->family->architecture);
    gguf_put_text(&j->w, "general.type", "model");
    gguf_put_text(&j->w, "general.name", name && name[1] ? name + 1 : j->d->path);
    for (size_t i = 0; i < sizeof file_types / sizeof *file_types; i++)
        if (!strcmp(file_types[i].type, j->e->type->name))
            gguf_put_uint(&j->w, "general.file_type", file_types[i].id);
    gguf_put_uint(&j->w, "general.quantization_version", 2);
    return SNUG_OK;
}

static int export_opened(struct job *j, struct snug_err *err)
{
    TRY(take_text_model(j, err));
    const struct model_tensor *words = model_dir_find(j->d, "model.embed_tokens.weight");
    TRY(put_general(j, err));
    if (!words || words->tensor->ndim != 2)
        return err_set(err, SNUG_ERR_INPUT, "%s: no table of embeddings, model.embed_tokens.weight; give a whole model",
                       j->d->path);
    TRY(gguf_put_config(&j->w, j->d, j->family, &j->rotary, &j->experts, err));
    TRY(gguf_put_vocabulary(&j->w, j->d, words->tensor->shape[0], err));
    TRY(add_tensors(j, err));
    TRY(out_file_open(j->d->io, j->e->file, j->e->overwrite, &j->file, err));
    return write_file(j, err);
}

int export_gguf(const struct io *io, const struct gguf_export *e, int64_t *bytes, struct snug_err *err)
{
    struct model_dir d = {.note = e->note, .note_ctx = e->note_ctx};
    struct job *j = mem_alloc(sizeof *j);
    if (!j)
        return err_no_memory(err, sizeof *j);
    j->e = e;
    j->d = &d;
    int code = model_dir_open(io, e->model, &d, err);
    if (!code) {
        code = export_opened(j, err);
        *bytes = j->file.bytes;
        out_file_drop(&j->file);
        model_dir_close(&d);
    }
    gguf_writer_free(&j->w);
    arena_free(&j->names);
    mem_free(j->parts);
    mem_free(j->raw);
    mem_free(j->wide);
    mem_free(j);
    return code;
}
