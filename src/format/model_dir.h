/* model_dir.h: a Hugging Face model folder: config.json, weights in one safetensors file or in shards with an index,
 * and the tokenizer's files; or a GGUF file, or a folder with one, which says the same in its own way. Opening reads and checks
 * the configuration's JSON and all headers of all weight files; a tensor's bytes are read only by model_dir_read. What
 * config.json means is for src/model. */
#ifndef FORMAT_MODEL_DIR_H
#define FORMAT_MODEL_DIR_H

#include "format/json.h"
#include "format/safetensors.h"

struct model_tensor {
    const struct st_tensor *tensor;
    const struct st_file *file;
};

/* How bitsandbytes has quantised a model. */
struct model_bits {
    int bits;         /* 4 or 8; 0: it has not */
    bool fp4, nested; /* of 4 */
};

enum { MODEL_DIR_CARRIED = 31 };
/* The files of tokenizer, pictures and generation, and of a sentence-embedding model's other modules, which a result takes over as they are.
 * Those of modules lie in folders of their own: FOLDER/NAME. */
extern const char *const model_dir_carried[MODEL_DIR_CARRIED];

/* A file of tokenizer or generation that a result gets and no folder has: it is written out of a GGUF file. */
enum { MODEL_DIR_MADE = 3 };
struct model_made {
    const char *name; /* of model_dir_carried */
    char *text;       /* the C library's free */
};

/* Those that `path` stands for, for model_made_free; *n 0: it is no GGUF file, or folder with one. After a failure there is nothing
 * to free. */
int model_made_read(const struct io *io, const char *path, struct model_made made[MODEL_DIR_MADE], size_t *n,
                    struct snug_err *err);
void model_made_free(struct model_made *made, size_t n);

/* What stands before a weight's name in the file of an adapter, as PEFT wraps a model. */
#define ADAPTER_PREFIX "base_model.model."

struct model_dir {
    /* Set by the caller before model_dir_open; zero is fine. */
    bool weights_optional; /* a folder without safetensors is accepted; then n_tensors is 0 */
    bool adapter;          /* the folder is an adapter's: adapter_config.json and adapter_model.safetensors */
    bool check_finite;     /* model_dir_read refuses a tensor with NaN or Inf, instead of noting the first */
    void (*note)(void *ctx, const char *line); /* one line, no newline: what is odd but accepted */
    void *note_ctx;

    /* Filled by model_dir_open; model_dir_close frees all of it. */
    const struct io *io;
    char *path, *config_path; /* config_path: the GGUF file, where there is one */
    json_t *config;           /* an object */
    struct st_file *files;
    size_t n_files;
    struct model_tensor *tensors; /* of all files, sorted by the bytes of the name; names are unique */
    size_t n_tensors;
    struct model_bits bits;                 /* as config.json had it, which has no quantization_config then */
    struct st_file *numbers;                /* those of quantised weights: F32; NULL: there are none */
    struct st_file *unpacked;               /* those of weights in MXFP4: BF16; NULL: there are none */
    const char *carried[MODEL_DIR_CARRIED]; /* those of model_dir_carried that are there */
    size_t n_carried;
    struct model_made made[MODEL_DIR_MADE];
    size_t n_made;
    bool noted_nonfinite;
};

/* SNUG_ERR_INPUT for what is missing or wrong in the folder, SNUG_ERR_IO where reading fails. model_dir_close is for
 * after success; a failed open leaves nothing to close. */
int model_dir_open(const struct io *io, const char *path, struct model_dir *d, struct snug_err *err);
void model_dir_close(struct model_dir *d);

const struct model_tensor *model_dir_find(const struct model_dir *d, const char *name); /* NULL if absent; O(log n) */

/* Whether bitsandbytes has quantised this one. */
static inline bool model_dir_has_quantized(const struct model_dir *d, const struct model_tensor *t)
{
    return t->file == d->numbers;
}

/* What the scales of such a tensor are made of where they are codes: their mean, and a number for each block of 256 of them; for
 * mem_free. *n 0: there is nothing of the kind. */
int model_dir_read_nested(const struct model_dir *d, const struct model_tensor *t, float **floats, int64_t *n,
                          struct snug_err *err);

/* The whole tensor as dtype `as`: converted when both are of F64, F32, BF16 and F16; any other difference is
 * SNUG_ERR_INPUT. `to` has room for st_elements of them. Not for two threads at once. */
int model_dir_read(struct model_dir *d, const struct model_tensor *t, enum dtype as, void *to, struct snug_err *err);
/* Elements [first, first + n) of it; `first` a multiple of MODEL_DIR_PIECE. */
enum { MODEL_DIR_PIECE = 1 << 16 };
int model_dir_read_part(struct model_dir *d, const struct model_tensor *t, enum dtype as, int64_t first, int64_t n,
                        void *to, struct snug_err *err);

/* Whether it is a snapshot in the hub's cache, models--OWNER--NAME/snapshots/COMMIT; then the repository, OWNER/NAME, and the
 * commit. */
enum { MODEL_HUB_NAME = 256, MODEL_HUB_COMMIT = 41 };
bool model_dir_of_hub(const struct model_dir *d, char name[MODEL_HUB_NAME], char commit[MODEL_HUB_COMMIT]);

/* Whether it is a sentence-embedding model's: it has modules.json. */
bool model_dir_has_modules(const struct model_dir *d);
/* Its first module that has files of its own, none of which is carried, into `path`; "" where there is none. What cannot be read in
 * modules.json is nobody's module: the file goes along unread. */
void model_dir_unknown_module(const struct model_dir *d, char path[64]);

/* ---- For the files of this folder ------------------------------------------------------------------------------- */

/* "path/name" in new memory, for mem_free; NULL when memory is out. */
char *model_dir_file(const struct model_dir *d, const char *name);
void model_dir_note(const struct model_dir *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether there is something of this name, whatever it is. */
int model_dir_has(const struct model_dir *d, const char *name, bool *found, struct snug_err *err);

/* SNUG_ERR_INPUT that says what the folder is instead, where that can be seen, and how to get one that is read. */
int model_dir_no_config(const struct model_dir *d, struct snug_err *err);
int model_dir_no_weights(const struct model_dir *d, struct snug_err *err);

/* SNUG_ERR_INPUT with the options that take it, where the folder is an adapter's; SNUG_OK where it is not. */
int model_dir_refuse_adapter(const struct model_dir *d, struct snug_err *err);

/* Opens the shards of model.safetensors.index.json into d->files and d->tensors, and compares them with the index. */
int model_index_open(struct model_dir *d, const char *index_path, struct snug_err *err);

/* Refuses, with SNUG_ERR_INPUT, a file that is a link out of the model's folder, where strangers chose what is linked: every
 * file of a snapshot in the hub's cache, which belongs to models--X, and every shard, whose name the index gives. Other
 * files of a user's own folder may be links to anywhere. */
int model_link_check(const struct model_dir *d, const char *name, bool shard, struct snug_err *err);

/* Opens a GGUF file as all that a folder has. */
int model_gguf_open(struct model_dir *d, const char *file, struct snug_err *err);

/* Makes d->tensors from d->files; a name in two files is SNUG_ERR_INPUT. */
int model_dir_merge(struct model_dir *d, struct snug_err *err);
int model_dir_sort(struct model_dir *d, struct snug_err *err); /* the same where d->tensors are there, in any order */

/* Puts numbers in the place of what bitsandbytes has quantised, where it has. */
int model_bitsandbytes_open(struct model_dir *d, struct snug_err *err);

/* Likewise where config.json says that experts are in MXFP4. */
int model_mxfp4_open(struct model_dir *d, struct snug_err *err);

#endif
