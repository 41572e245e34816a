/* token_cache.h: tokens made from a text file, kept for the next run.
 *
 * A cache file belongs to a key: the hash of the data file's content, of the tokenizer and of every option that matters
 * (dataset.c makes it). It is found by that name, read at once, and used only if it belongs to this user, its checksum
 * is right and every number in it can be of this run: lengths of rows, ids, counts, labels and their names. Otherwise the
 * tokens are made again. A file of more than dataset_options.in_memory is mapped: it is never changed, only replaced. It
 * can be deleted at any time, and nothing else ever deletes it.
 *
 *     header (token_cache.c)   n_rows n_tokens … checksum over header and all that follows
 *     offsets  int64  (n_rows + 1)
 *     ids      int32  (n_tokens)
 *     labels   int32  (n_rows)  or  float (n_rows, num_labels)  or nothing; of sources and targets: tokens of each row's source
 *     types    uint8  (n_tokens)  or nothing
 *     mask     uint8  (n_tokens)  or nothing: what is learned, 0 or 1
 *     names    of the labels, each with a 0 byte behind it                                                           */
#ifndef DATA_TOKEN_CACHE_H
#define DATA_TOKEN_CACHE_H

#include "base/str.h"
#include "data/files/columns.h"

enum { TOKEN_CACHE_FORMAT = 4 }; /* goes into the key: a change of format, or of how rows are read, makes new files */

/* In the folder `dir` (base/cache_dir.h). */
int token_cache_file(const char *dir, struct hash128 key, struct str *path, struct snug_err *err);

/* `o` is what the data are read with, `task` what was made of TASK_AUTO, `columns` those of the file. True: *d
 * is filled, all but the fingerprint, and dataset_close gives it back. False: there is none (why->code is 0), or why
 * not. */
bool token_cache_load(const struct io *io, const char *path, struct hash128 key, const struct dataset_options *o,
                      enum data_task task, const struct columns *columns, struct dataset *d, struct snug_err *why);

/* Makes the folder and replaces the file in one step. Not flushed to disk: after a crash the checksum decides. Removes
 * what a dead process left there an hour ago or earlier. */
int token_cache_store(const struct io *io, const char *path, struct hash128 key, const struct dataset *d,
                      struct snug_err *err);

#endif
