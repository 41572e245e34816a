/* export_gguf.h: a model folder as one GGUF file, as llama.cpp's convert_hf_to_gguf.py makes it. */
#ifndef OUTPUT_GGUF_EXPORT_GGUF_H
#define OUTPUT_GGUF_EXPORT_GGUF_H

#include "format/gguf/family.h"
#include "format/gguf/write.h"
#include "format/model_dir.h"
#include "model/rotary.h"

struct gguf_export {
    const char *model, *file;
    const struct gguf_type *type; /* of matrices: F32, F16, BF16, Q8_0; norms and biases are F32 */
    bool overwrite;
    void (*note)(void *ctx, const char *line);
    void *note_ctx;
};

/* *bytes: of the file, which is there once it is whole. SNUG_ERR_INPUT: the folder is none that a GGUF file can say, or not whole.
 * SNUG_ERR_USAGE: the file is there already; a weight is beyond fp16. */
int export_gguf(const struct io *io, const struct gguf_export *e, int64_t *bytes, struct snug_err *err);

/* ---- For the files of this folder ---- */

/* What some scalings divide rotary frequencies by, a number a pair, which is a tensor of the file: Llama 3.1's one, LongRoPE's two. */
struct gguf_divisors {
    const char *tensor;
    int64_t n;
    float x[ROTARY_PAIRS];
};
struct gguf_rotary {
    int n;
    struct gguf_divisors of[2];
};

/* What config.json says, as pairs of metadata and *rotary; *experts: of a layer, 0 where there are none. SNUG_ERR_INPUT: llama.cpp would
 * run another model. */
int gguf_put_config(struct gguf_writer *w, const struct model_dir *d, const struct gguf_family *family,
                    struct gguf_rotary *rotary, int64_t *experts, struct snug_err *err);

/* The tokenizer of the folder, for a table of embeddings of so many rows. Added tokens beyond it are left out. */
int gguf_put_vocabulary(struct gguf_writer *w, const struct model_dir *d, int64_t vocab_size, struct snug_err *err);

#endif
