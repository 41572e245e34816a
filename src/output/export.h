/* export.h: writing a Hugging Face model folder: model.safetensors, config.json and the tokenizer files, as
 * transformers reads them. */
#ifndef OUTPUT_EXPORT_H
#define OUTPUT_EXPORT_H

#include "format/model_dir.h"

/* config.json and what goes with it, languages among it; then what is made out of a GGUF file. */
enum { EXPORT_OWN = 6, EXPORT_TEXTS = EXPORT_OWN + MODEL_DIR_MADE };
struct export_text {
    const char *name, *text;
};

/* A file that its owner writes: to the end of an empty one, open as `fd`, which `path` is called meanwhile. */
struct export_written {
    const char *name;
    int (*write)(void *ctx, const struct io *io, int fd, const char *path, struct snug_err *err);
    void *ctx;
};

struct export_model {
    /* The weights. `read` gives `bytes` bytes of tensor t from `offset` on, in the dtype and shape listed here; it is
     * called tensor by tensor in the order of the file (the array is sorted into it), each from front to back. */
    struct st_tensor *tensors;
    size_t n_tensors;
    int (*read)(void *ctx, const struct st_tensor *t, int64_t offset, void *to, size_t bytes, struct snug_err *err);
    void *ctx;

    struct export_text texts[EXPORT_TEXTS]; /* in place of a file of that name below; text NULL: not written */

    /* Files copied byte for byte from another folder: NAME, or FOLDER/NAME. One that is not there is left out. */
    const char *source_dir;
    const char *const *files;
    size_t n_files;

    /* In place of the weights, in this order: a model in another format. */
    const struct export_written *written;
    size_t n_written;

    const char *weights_name; /* of the file; NULL: model.safetensors */
    bool replaces;            /* the other parts that a model in `dir` had are removed */
};

/* The files that readers of a folder take for parts of its model, whether or not this one has them: another tokenizer's, another
 * model's template, the weights beside an adapter. NULL behind the last one. */
const char *export_part(size_t i);

/* Writes into the existing folder `dir`. Every file is written under a temporary name and synced before the first one
 * is renamed, and the weights, or the last file in their place, come last. After a crash each file is the old one or the new one. New
 * weights mean that all is new, and that nothing is left that `replaces` removes. After a failure before the renames nothing has changed.
 * SNUG_ERR_IO when the folder cannot be written, or what `read` returns. */
int export_folder(const struct io *io, const char *dir, struct export_model *model, struct snug_err *err);

#endif
