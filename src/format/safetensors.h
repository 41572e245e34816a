/* safetensors.h: the safetensors container (https://github.com/huggingface/safetensors), read with pread after the
 * whole header has been checked against the file's size, and written byte for byte as the reference library writes it.
 */
#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include "base/dtype.h"
#include "base/hash.h"
#include "base/io.h"

enum { ST_MAX_DIMS = 8 };

struct st_tensor {
    const char *name;
    enum dtype dtype;
    int ndim;
    int64_t shape[ST_MAX_DIMS]; /* outermost first */
    int64_t at, bytes;          /* place in the file; when writing, `at` is filled by st_create */
};

struct st_file {
    const struct io *io;
    const char *path;
    int fd;
    int64_t file_bytes;
    struct st_tensor *tensors; /* in the order of the data */
    size_t n_tensors;
    size_t n_metadata;           /* pairs of __metadata__ */
    const char *const *metadata; /* key, value, key, value …, sorted by key */
    struct arena arena;          /* owns everything above */
};

/* Opens and validates; specs: every rule of the format, plus no duplicate names and no dimension from 2^48 on.
 * SNUG_ERR_INPUT for a bad file, SNUG_ERR_IO where reading fails. st_close also after a failed open. */
int st_open(const struct io *io, const char *path, struct st_file *f, struct snug_err *err);
const struct st_tensor *st_find(const struct st_file *f, const char *name); /* NULL if absent; O(log n) */
int st_read(const struct st_file *f, const struct st_tensor *t, void *to,
            struct snug_err *err); /* t->bytes raw bytes */
void st_close(struct st_file *f);

/* Writing: st_create sorts `tensors` into file order (name, dtype, ndim, shape given), fills at and bytes, writes the
 * header; then st_write each tensor once, in any order, in pieces if need be; st_finish fsyncs, closes, and gives the
 * XXH3-128 of the bytes written in file order when hash is not NULL (then st_write must come in file order). On failure
 * the caller unlinks the path. */
struct st_writer {
    const struct io *io;
    const char *path;
    int fd;
    int64_t file_bytes;
    struct hash_state *hash;
};
int st_create(const struct io *io, const char *path, struct st_tensor *tensors, size_t n, const char *const *metadata,
              size_t n_metadata, bool hash, struct st_writer *w, struct snug_err *err);
int st_write(struct st_writer *w, const struct st_tensor *t, int64_t offset, const void *from, size_t bytes,
             struct snug_err *err);
int st_finish(struct st_writer *w, struct hash128 *hash, struct snug_err *err);
void st_abandon(struct st_writer *w); /* closes without promising anything */

#endif
