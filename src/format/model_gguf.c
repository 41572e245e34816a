/* A GGUF file as a model folder. Its weights are those of one file with transformers' names; its configuration and its tokenizer are
 * made of its metadata. */
#include "format/gguf/model.h"
#include "format/model_dir.h"

/* Appends the text of `json`, which is given away. */
static int add_made(struct model_dir *d, const char *name, json_t *json, size_t flags, struct snug_err *err)
{
    char *text = json_dumps(json, flags | JSON_REAL_PRECISION(17));
    json_decref(json);
    if (!text)
        return err_no_memory(err, 1 << 16);
    d->made[d->n_made++] = (struct model_made){name, text};
    return SNUG_OK;
}

static int make_files(struct model_dir *d, const struct gguf_file *f, struct snug_err *err)
{
    json_t *made;
    TRY(gguf_config(f, &d->config, err));
    TRY(gguf_generation_config(f, &made, err));
    TRY(add_made(d, "generation_config.json", made, JSON_INDENT(2), err));
    if (!json_object_get(f->metadata, "tokenizer.ggml.model"))
        return SNUG_OK;
    TRY(gguf_tokenizer_config(f, &made, err));
    TRY(add_made(d, "tokenizer_config.json", made, JSON_INDENT(2), err));
    TRY(gguf_tokenizer(f, &made, err));
    return add_made(d, "tokenizer.json", made, JSON_COMPACT, err);
}

int model_gguf_open(struct model_dir *d, const char *file, struct snug_err *err)
{
    struct gguf_file f;
    if (!(d->config_path = mem_strdup(file)) || !(d->files = mem_alloc(sizeof *d->files)))
        return err_no_memory(err, sizeof *d->files);
    TRY(gguf_open(d->io, file, &f, err));
    int code = make_files(d, &f, err);
    if (code) {
        gguf_close(&f);
        return code;
    }
    TRY(gguf_as_tensors(&f, &d->files[0], err));
    d->n_files = 1;
    return model_dir_merge(d, err);
}
