/* What a folder is that has no model which snug reads, and how to get one from it. */
#include "format/model_dir.h"

#include <string.h>

/* A model's folder in the hub's cache: that of a snapshot is meant, which is named if it is the only one. */
static int in_hub_cache(const struct model_dir *d, const char *snapshots, struct snug_err *err)
{
    struct arena a = {0};
    const char *const *names;
    size_t n;
    if (io_list(d->io, snapshots, &a, &names, &n, NULL))
        n = 0;
    int code = err_set(err, SNUG_ERR_INPUT, "%s: the hub's cache of a model; give its folder %s/%s", d->path, snapshots,
                       n == 1 ? names[0] : "REVISION");
    arena_free(&a);
    return code;
}

/* The model that an adapter was made for, as its file says it, else BASE. What is wrong in the file is for whoever reads it as an
 * adapter. */
int model_dir_refuse_adapter(const struct model_dir *d, struct snug_err *err)
{
    enum { CONFIG_BYTES = 16 << 20 };
    bool found;
    json_t *config = NULL;
    TRY(model_dir_has(d, "adapter_config.json", &found, err));
    if (!found)
        return SNUG_OK;
    char *path = model_dir_file(d, "adapter_config.json");
    if (!path)
        return err_no_memory(err, strlen(d->path) + 32);
    if (json_read_object(d->io, path, CONFIG_BYTES, &config, NULL))
        config = NULL;
    const char *base = json_string_value(json_object_get(config, "base_model_name_or_path"));
    base = base && *base ? base : "BASE";
    int code = err_set(
        err, SNUG_ERR_INPUT,
        "%s: an adapter, not a whole model; give --model %s --adapter %s, or make one model of both with 'snug merge'",
        d->path, base, d->path);
    json_decref(config);
    mem_free(path);
    return code;
}

int model_dir_no_config(const struct model_dir *d, struct snug_err *err)
{
    bool is_checkpoint, is_cache;
    TRY(model_dir_has(d, "MANIFEST.json", &is_checkpoint, err));
    TRY(model_dir_has(d, "snapshots", &is_cache, err));
    if (is_checkpoint)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: a checkpoint, not a model folder; make one of it: snug export %s --output-dir DIR", d->path,
                       d->path);
    TRY(model_dir_refuse_adapter(d, err));
    if (is_cache) {
        char *snapshots = model_dir_file(d, "snapshots");
        int code = snapshots ? in_hub_cache(d, snapshots, err) : err_no_memory(err, 0);
        mem_free(snapshots);
        return code;
    }
    return err_set(err, SNUG_ERR_INPUT, "config.json not found in %s; expected a Hugging Face model folder", d->path);
}

/* A folder with config.json is taken at its word; of its GGUF files the first is named. */
static int only_gguf(const struct model_dir *d, struct snug_err *err)
{
    struct arena a = {0};
    const char *const *names;
    size_t n;
    int code = SNUG_OK;
    if (io_list(d->io, d->path, &a, &names, &n, NULL))
        n = 0;
    for (size_t i = 0; i < n && !code; i++) {
        size_t length = strlen(names[i]);
        if (length > 5 && !strcmp(names[i] + length - 5, ".gguf"))
            code =
                err_set(err, SNUG_ERR_INPUT, "%s: no weights beside config.json but in GGUF form; give the file: %s/%s",
                        d->path, d->path, names[i]);
    }
    arena_free(&a);
    return code;
}

int model_dir_no_weights(const struct model_dir *d, struct snug_err *err)
{
    static const struct {
        const char *name, *kind;
    } others[] = {
        {"pytorch_model.bin", "pickle"}, {"pytorch_model.bin.index.json", "pickle"},
        {"tf_model.h5", "TensorFlow"},   {"flax_model.msgpack", "Flax"},
        {"model.onnx", "ONNX"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool found;
        TRY(model_dir_has(d, others[i].name, &found, err));
        if (found)
            return err_set(err, SNUG_ERR_INPUT, "%s: has only %s: %s weights are not loaded; %s", d->path,
                           others[i].name, others[i].kind,
                           i < 4 ? "convert with transformers: from_pretrained, then save_pretrained"
                                 : "get model.safetensors of the same model");
    }
    TRY(only_gguf(d, err));
    TRY(model_dir_refuse_adapter(d, err));
    return err_set(
        err, SNUG_ERR_INPUT,
        "%s: no weights; looked for model.safetensors and model.safetensors.index.json; give the right folder",
        d->path);
}
