/* A GGUF file as a model folder. Its weights are those of one file with transformers' names; its configuration and its tokenizer are
 * made of its metadata. */
#include "format/gguf/model.h"
#include "format/model_dir.h"

#include <stdlib.h>

/* Appends the text of `json`, which is given away. */
static int add_made(struct model_made *made, size_t *n, const char *name, json_t *json, size_t flags,
                    struct snug_err *err)
{
    char *text = json_dumps(json, flags | JSON_REAL_PRECISION(17));
    json_decref(json);
    if (!text)
        return err_no_memory(err, 1 << 16);
    made[(*n)++] = (struct model_made){name, text};
    return SNUG_OK;
}

static int make_files(const struct gguf_file *f, struct model_made *made, size_t *n, struct snug_err *err)
{
    json_t *json;
    TRY(gguf_generation_config(f, &json, err));
    TRY(add_made(made, n, "generation_config.json", json, JSON_INDENT(2), err));
    if (!json_object_get(f->metadata, "tokenizer.ggml.model"))
        return SNUG_OK;
    TRY(gguf_tokenizer_config(f, &json, err));
    TRY(add_made(made, n, "tokenizer_config.json", json, JSON_INDENT(2), err));
    TRY(gguf_tokenizer(f, &json, err));
    return add_made(made, n, "tokenizer.json", json, JSON_COMPACT, err);
}

void model_made_free(struct model_made *made, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(made[i].text);
}

int model_made_read(const struct io *io, const char *path, struct model_made made[MODEL_DIR_MADE], size_t *n,
                    struct snug_err *err)
{
    struct gguf_file f;
    char *file;
    *n = 0;
    TRY(gguf_find_file(io, path, &file, err));
    int code = file ? gguf_open(io, file, &f, err) : SNUG_OK;
    if (file && !code) {
        code = make_files(&f, made, n, err);
        gguf_close(&f);
    }
    mem_free(file);
    if (code)
        model_made_free(made, *n);
    return code;
}

int model_gguf_open(struct model_dir *d, const char *file, struct snug_err *err)
{
    struct gguf_file f;
    if (!(d->config_path = mem_strdup(file)) || !(d->files = mem_alloc(sizeof *d->files)))
        return err_no_memory(err, sizeof *d->files);
    TRY(gguf_open(d->io, file, &f, err));
    int code = gguf_config(&f, &d->config, err);
    if (!code)
        code = make_files(&f, d->made, &d->n_made, err);
    if (code) {
        gguf_close(&f);
        return code;
    }
    TRY(gguf_as_tensors(&f, &d->files[0], err));
    d->n_files = 1;
    return model_dir_merge(d, err);
}
