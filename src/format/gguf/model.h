/* model.h: a GGUF file as a model folder: what config.json, tokenizer.json, tokenizer_config.json and generation_config.json
 * would say, and tensors under the names of transformers, dequantised while they are read. */
#ifndef FORMAT_GGUF_MODEL_H
#define FORMAT_GGUF_MODEL_H

#include "format/gguf/family.h"
#include "format/gguf/gguf.h"
#include "format/safetensors.h"

/* *file: the GGUF file that `path` stands for, in new memory for mem_free: itself, if it is a file whose name ends in .gguf;
 * the only one in a folder without config.json. NULL where it stands for none. SNUG_ERR_INPUT where a folder has several. */
int gguf_find_file(const struct io *io, const char *path, char **file, struct snug_err *err);

/* Each gives a new reference, for json_decref. What the file lacks or is not supported is SNUG_ERR_INPUT. */
int gguf_config(const struct gguf_file *f, json_t **config, struct snug_err *err); /* config.c */
int gguf_generation_config(const struct gguf_file *f, json_t **config, struct snug_err *err);
int gguf_tokenizer(const struct gguf_file *f, json_t **tokenizer, struct snug_err *err); /* tokenizer.c */
int gguf_tokenizer_config(const struct gguf_file *f, json_t **config, struct snug_err *err);

/* The file's row; SNUG_ERR_INPUT for an architecture that has none, and for one part of a split file. */
int gguf_family_of_file(const struct gguf_file *f, const struct gguf_family **family, struct snug_err *err);

/* The tensors of `f` as an open file of the model's (st_read and the others work on it): F32, or F16, BF16, F64 where the file
 * has them so. Takes over what f holds: st_close closes it, also after a failure. */
int gguf_as_tensors(struct gguf_file *f, struct st_file *out, struct snug_err *err);

#endif
