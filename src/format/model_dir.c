#include "format/model_dir.h"

#include "format/gguf/model.h"
#include "format/quantised/quantised.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT = 16 << 20 }; /* bytes; real ones have a few thousand, or a megabyte with many labels */

const char *const model_dir_carried[MODEL_DIR_CARRIED] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "target.spm",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "2_Dense/model.safetensors",
    "2_Dense/pytorch_model.bin",
    "2_Normalize/config.json",
    "3_Dense/config.json",
    "3_Dense/model.safetensors",
    "3_Dense/pytorch_model.bin",
    "3_Normalize/config.json",
    "4_Normalize/config.json",
};

char *model_dir_file(const struct model_dir *d, const char *name)
{
    size_t bytes = strlen(d->path) + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    if (path)
        snprintf(path, bytes, "%s/%s", d->path, name);
    return path;
}

void model_dir_note(const struct model_dir *d, const char *format, ...)
{
    if (!d->note)
        return;
    char line[1024];
    struct snug_err clean; /* escapes and cuts as errors are */
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    err_set(&clean, SNUG_OK, "%s", line);
    d->note(d->note_ctx, clean.text);
}

int model_dir_has(const struct model_dir *d, const char *name, bool *found, struct snug_err *err)
{
    struct stat st;
    char *path = model_dir_file(d, name);
    if (!path)
        return err_no_memory(err, strlen(d->path) + strlen(name) + 2);
    *found = d->io->lstat(d->io, path, &st) == 0;
    mem_free(path);
    return SNUG_OK;
}

static int open_folder(struct model_dir *d, struct snug_err *err)
{
    struct stat st;
    if (d->io->stat(d->io, d->path, &st) < 0) {
        if (errno == ENOENT)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: no such folder; give a Hugging Face model folder, or OWNER/NAME for one of the hub",
                           d->path);
        bool absent = errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG;
        return err_errno(err, absent ? SNUG_ERR_INPUT : SNUG_ERR_IO, d->path, "open the model folder", errno);
    }
    if (!S_ISDIR(st.st_mode))
        return err_set(err, SNUG_ERR_INPUT, "%s: not a folder; give a Hugging Face model folder, or a .gguf file",
                       d->path);
    return SNUG_OK;
}

static int no_adapter(const struct model_dir *d, const char *name, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "%s: has no %s; give the folder of an adapter that PEFT or snug has written",
                   d->path, name);
}

static int read_config(struct model_dir *d, struct snug_err *err)
{
    const char *name = d->adapter ? "adapter_config.json" : "config.json";
    if (!(d->config_path = model_dir_file(d, name)))
        return err_no_memory(err, strlen(d->path) + 32);
    struct stat st;
    if (d->io->lstat(d->io, d->config_path, &st) < 0 && errno == ENOENT)
        return d->adapter ? no_adapter(d, name, err) : model_dir_no_config(d, err);
    TRY(model_link_check(d, name, false, err));
    return json_read_object(d->io, d->config_path, CONFIG_LIMIT, &d->config, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct model_tensor *)a)->tensor->name, ((const struct model_tensor *)b)->tensor->name);
}

int model_dir_merge(struct model_dir *d, struct snug_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_files; i++)
        n += d->files[i].n_tensors;
    if (!(d->tensors = mem_alloc(n * sizeof *d->tensors)))
        return err_no_memory(err, n * sizeof *d->tensors);
    for (size_t i = 0; i < d->n_files; i++)
        for (size_t k = 0; k < d->files[i].n_tensors; k++)
            d->tensors[d->n_tensors++] = (struct model_tensor){&d->files[i].tensors[k], &d->files[i]};
    return model_dir_sort(d, err);
}

int model_dir_sort(struct model_dir *d, struct snug_err *err)
{
    qsort(d->tensors, d->n_tensors, sizeof *d->tensors, by_name);
    for (size_t i = 1; i < d->n_tensors; i++)
        if (!by_name(&d->tensors[i - 1], &d->tensors[i]))
            return err_set(err, SNUG_ERR_INPUT, "%s: tensor %.80s is here and in %s; get the model again",
                           d->tensors[i].file->path, d->tensors[i].tensor->name, d->tensors[i - 1].file->path);
    return SNUG_OK;
}

static int open_single(struct model_dir *d, const char *path, struct snug_err *err)
{
    if (!(d->files = mem_alloc(sizeof *d->files)))
        return err_no_memory(err, sizeof *d->files);
    TRY(st_open(d->io, path, &d->files[0], err));
    d->n_files = 1;
    st_detach(&d->files[0]);
    return model_dir_merge(d, err);
}

static bool is_float(enum dtype t)
{
    return t == DT_F64 || t == DT_F32 || t == DT_BF16 || t == DT_F16;
}

static void note_mixed_floats(const struct model_dir *d)
{
    const struct model_tensor *first = NULL;
    for (size_t i = 0; i < d->n_tensors; i++) {
        const struct model_tensor *t = &d->tensors[i];
        if (!is_float(t->tensor->dtype) || model_dir_has_quantized(d, t))
            continue;
        if (first && t->tensor->dtype != first->tensor->dtype) {
            model_dir_note(d, "%s: mixed weights: %.60s is %s, %.60s is %s; each is converted as it is read", d->path,
                           first->tensor->name, dtype_name(first->tensor->dtype), t->tensor->name,
                           dtype_name(t->tensor->dtype));
            return;
        }
        first = first ? first : t;
    }
}

static int open_weights(struct model_dir *d, struct snug_err *err)
{
    bool single, index = false;
    const char *name = d->adapter ? "adapter_model.safetensors" : "model.safetensors";
    TRY(model_dir_has(d, name, &single, err));
    if (!d->adapter)
        TRY(model_dir_has(d, "model.safetensors.index.json", &index, err));
    if (!single && !index)
        return d->adapter ? no_adapter(d, name, err) : d->weights_optional ? SNUG_OK : model_dir_no_weights(d, err);
    name = single ? name : "model.safetensors.index.json";
    TRY(model_link_check(d, name, false, err));
    char *path = model_dir_file(d, name);
    int code = !path    ? err_no_memory(err, strlen(d->path) + 32)
               : single ? open_single(d, path, err)
                        : model_index_open(d, path, err);
    if (!code && !d->n_tensors)
        code = err_set(err, SNUG_ERR_INPUT, "%s: no tensors; give a file with weights", path);
    mem_free(path);
    TRY(code);
    if (single && index)
        model_dir_note(d, "%s: has model.safetensors and an index of shards; the single file is used", d->path);
    return SNUG_OK;
}

static int find_carried(struct model_dir *d, struct snug_err *err)
{
    for (size_t i = 0; i < MODEL_DIR_CARRIED; i++) {
        bool found;
        TRY(model_dir_has(d, model_dir_carried[i], &found, err));
        TRY(model_link_check(d, model_dir_carried[i], false, err));
        if (found)
            d->carried[d->n_carried++] = model_dir_carried[i];
    }
    return SNUG_OK;
}

int model_dir_open(const struct io *io, const char *path, struct model_dir *d, struct snug_err *err)
{
    *d = (struct model_dir){.weights_optional = d->weights_optional,
                            .adapter = d->adapter,
                            .check_finite = d->check_finite,
                            .note = d->note,
                            .note_ctx = d->note_ctx,
                            .io = io,
                            .path = mem_strdup(path)};
    if (!d->path)
        return err_no_memory(err, strlen(path) + 1);
    for (size_t n = strlen(path); n > 1 && d->path[n - 1] == '/'; n--)
        d->path[n - 1] = 0;
    char *gguf = NULL;
    int code;
    if (!d->adapter)
        TRY_TO(done, gguf_find_file(io, path, &gguf, err));
    if (gguf) {
        code = model_gguf_open(d, gguf, err);
        goto done;
    }
    TRY_TO(done, open_folder(d, err));
    TRY_TO(done, read_config(d, err));
    TRY_TO(done, open_weights(d, err));
    TRY_TO(done, quantised_open(d, err));
    note_mixed_floats(d);
    code = find_carried(d, err);
done:
    mem_free(gguf);
    if (code)
        model_dir_close(d);
    return code;
}

void model_dir_close(struct model_dir *d)
{
    if (d->numbers)
        st_close(d->numbers);
    mem_free(d->numbers);
    for (size_t i = 0; i < d->n_files; i++)
        st_close(&d->files[i]);
    model_made_free(d->made, d->n_made);
    mem_free(d->files);
    mem_free(d->tensors);
    json_decref(d->config);
    mem_free(d->config_path);
    mem_free(d->path);
    *d = (struct model_dir){0};
}

const struct model_tensor *model_dir_find(const struct model_dir *d, const char *name)
{
    const struct st_tensor key = {.name = name};
    const struct model_tensor wanted = {.tensor = &key};
    return d->n_tensors ? bsearch(&wanted, d->tensors, d->n_tensors, sizeof *d->tensors, by_name) : NULL;
}

/* The first of n values that is NaN or Inf (all bits of the exponent set), or -1. The common case is one quick pass. */
static int64_t first_nonfinite(const void *values, enum dtype t, int64_t n)
{
    const unsigned char *p = values;
    uint64_t exponent = t == DT_F64 ? 0x7FF0000000000000u : t == DT_F32 ? 0x7F800000 : t == DT_BF16 ? 0x7F80 : 0x7C00;
    int64_t bytes = dtype_bytes(t, 1);
    bool found = false;
#define SCAN(type)                                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        type bits;                                                                                                     \
        memcpy(&bits, p + i * (int64_t)sizeof bits, sizeof bits);                                                      \
        found |= (bits & (type)exponent) == (type)exponent;                                                            \
    }
    if (bytes == 8)
        SCAN(uint64_t)
    else if (bytes == 4)
        SCAN(uint32_t)
    else
        SCAN(uint16_t)
#undef SCAN
    for (int64_t i = 0; found && i < n; i++) {
        uint64_t bits = 0; /* little-endian, as everywhere in snug */
        memcpy(&bits, p + i * bytes, (size_t)bytes);
        if ((bits & exponent) == exponent)
            return i;
    }
    return -1;
}

/* Notes or refuses the first NaN or Inf of n values, which begin at element `at` of t. */
static int check_finite(struct model_dir *d, const struct model_tensor *t, const void *values, int64_t n, int64_t at,
                        struct snug_err *err)
{
    if (d->noted_nonfinite || !is_float(t->tensor->dtype))
        return SNUG_OK;
    int64_t i = first_nonfinite(values, t->tensor->dtype, n);
    if (i < 0)
        return SNUG_OK;
    if (d->check_finite)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: tensor %.100s holds NaN or Inf at element %lld; get the weights again, or leave out --check-finite",
            t->file->path, t->tensor->name, (long long)(at + i));
    model_dir_note(d, "%s: tensor %.100s holds NaN or Inf at element %lld", t->file->path, t->tensor->name,
                   (long long)(at + i));
    d->noted_nonfinite = true;
    return SNUG_OK;
}

int model_dir_read_part(struct model_dir *d, const struct model_tensor *t, enum dtype as, int64_t first, int64_t n,
                        void *to, struct snug_err *err)
{
    enum dtype from = t->tensor->dtype;
    if (from != as && !(is_float(from) && is_float(as)))
        return err_set(err, SNUG_ERR_INPUT, "%s: tensor %.100s is %s where %s is needed; convert it", t->file->path,
                       t->tensor->name, dtype_name(from), dtype_name(as));
    if (from == as) {
        TRY(st_read_part(t->file, t->tensor, dtype_bytes(from, first), to, (size_t)dtype_bytes(from, n), err));
        return check_finite(d, t, to, n, first, err);
    }
    size_t from_bytes = (size_t)dtype_bytes(from, 1), to_bytes = (size_t)dtype_bytes(as, 1);
    void *block = mem_realloc(NULL, MODEL_DIR_PIECE * from_bytes);
    int code = block ? SNUG_OK : err_no_memory(err, MODEL_DIR_PIECE * from_bytes);
    for (int64_t at = 0; at < n && !code; at += MODEL_DIR_PIECE) {
        int64_t count = n - at < MODEL_DIR_PIECE ? n - at : MODEL_DIR_PIECE;
        code = st_read_part(t->file, t->tensor, (first + at) * (int64_t)from_bytes, block, (size_t)count * from_bytes,
                            err);
        if (!code)
            code = check_finite(d, t, block, count, first + at, err);
        if (!code)
            dtype_convert((char *)to + (size_t)at * to_bytes, as, block, from, count);
    }
    mem_free(block);
    return code;
}

int model_dir_read(struct model_dir *d, const struct model_tensor *t, enum dtype as, void *to, struct snug_err *err)
{
    return model_dir_read_part(d, t, as, 0, st_elements(t->tensor), to, err);
}
