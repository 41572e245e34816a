/* inspect.h: what `snug inspect` shows of a safetensors file, a GGUF file or a model folder. */
#ifndef FORMAT_INSPECT_H
#define FORMAT_INSPECT_H

#include "base/io.h"
#include "base/str.h"

/* Appends a report to `out`: metadata, every tensor with dtype, shape and bytes, and totals; for a folder also the main
 * facts of config.json, its files, and what is odd about them. `json`: one line, keys sorted, no blanks; else a table
 * for people, which fits so many columns where it can (0: as wide as it is). All headers are checked, no tensor is
 * read; a file or folder that is not valid gives the error of st_open or model_dir_open and nothing in `out`. A folder
 * without weights is shown without tensors. */
int inspect(const struct io *io, const char *path, bool json, int columns, struct str *out, struct snug_err *err);

#endif
