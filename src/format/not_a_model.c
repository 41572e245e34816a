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

int model_dir_no_config(const struct model_dir *d, struct snug_err *err)
{
    bool is_checkpoint, is_adapter, is_cache;
    TRY(model_dir_has(d, "MANIFEST.json", &is_checkpoint, err));
    TRY(model_dir_has(d, "adapter_config.json", &is_adapter, err));
    TRY(model_dir_has(d, "snapshots", &is_cache, err));
    if (is_checkpoint)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: a checkpoint, not a model folder; make one of it: snug export %s --output-dir DIR", d->path,
                       d->path);
    if (is_adapter)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: an adapter, not a whole model; put it into its base with peft: merge_and_unload, then "
                       "save_pretrained",
                       d->path);
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
    return err_set(
        err, SNUG_ERR_INPUT,
        "%s: no weights; looked for model.safetensors and model.safetensors.index.json; give the right folder",
        d->path);
}
