/* safetensors.h: the safetensors container (https://github.com/huggingface/safetensors), read with pread after the
 * whole header has been checked against the file's size, and written byte for byte as the reference library writes it.
 *
 * A file is: 8 bytes N, little-endian; N bytes of JSON, name -> {dtype, shape, data_offsets [begin, end)}, and perhaps
 * "__metadata__" -> {string: string}; then the data, which the offsets count from and cover without hole or overlap.
 *
 * Reading is as strict as the reference and, in what no real file does, stricter. A name may stand there only once. A
 * tensor has no other fields than the three, and at most 8 dimensions, each below 2^48. Complex and sub-byte elements are
 * refused, and floats of 8 bits but E4M3 and E5M2. There are at most a million tensors, and as many pairs of metadata. */
#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include "base/dtype.h"
#include "base/hash.h"
#include "base/io.h"

enum { ST_MAX_DIMS = 8, ST_MAX_HEADER = 100000000, ST_MAX_TENSORS = 1000000 };

struct st_tensor {
    const char *name;
    enum dtype dtype;
    int ndim;
    int64_t shape[ST_MAX_DIMS]; /* outermost first */
    int64_t at, bytes;          /* place in the file; when writing, filled by st_create */
};

/* Where bytes of tensors come from that do not lie in a safetensors file as they are read (format/gguf). */
struct st_source {
    /* As st_read_part; offset and bytes are of whole elements. */
    int (*read)(void *state, const struct st_tensor *t, int64_t offset, void *to, size_t bytes, struct snug_err *err);
    void (*close)(void *state);
};

struct st_file {
    const struct io *io;
    char *path;
    int fd; /* -1 after st_detach */
    int64_t file_bytes, header_bytes;
    struct stat identity;      /* as it was opened */
    struct st_tensor *tensors; /* in the order of the data */
    size_t n_tensors;
    const struct st_tensor **by_name; /* the same, sorted by the bytes of the name */
    size_t n_metadata;                /* pairs of __metadata__ */
    const char **metadata;            /* key, value, key, value ..., sorted by key */
    char *header;                     /* holds all names and metadata */
    const struct st_source *source;   /* NULL: the tensors lie in the file itself */
    void *source_state;
};

/* Opens and validates. SNUG_ERR_INPUT for a bad file, SNUG_ERR_IO where reading fails. st_close is for after success;
 * a failed st_open leaves nothing to close. */
int st_open(const struct io *io, const char *path, struct st_file *f, struct snug_err *err);
const struct st_tensor *st_find(const struct st_file *f, const char *name); /* NULL if absent; O(log n) */

/* t->bytes raw bytes; or `bytes` of them from byte `offset` of the tensor on. */
int st_read(const struct st_file *f, const struct st_tensor *t, void *to, struct snug_err *err);
int st_read_part(const struct st_file *f, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                 struct snug_err *err);

/* Closes the descriptor but keeps the header: from then on each read opens the file for itself and fails with
 * SNUG_ERR_IO when it is not the file that was checked. For models of a thousand shards. */
void st_detach(struct st_file *f);
void st_close(struct st_file *f);

/* Elements of a tensor. */
int64_t st_elements(const struct st_tensor *t);

/* "[2, 3]" */
const char *st_shape_text(const struct st_tensor *t, char text[200]);

/* Writing: st_create makes the file (which must not exist), sorts `tensors` into file order (name, dtype, ndim, shape
 * given), fills at and bytes, reserves the room and writes the header; if it fails, no file is left. `metadata` is
 * n_metadata pairs in any order; they are written sorted. Then st_write each tensor once, in any order, in pieces if
 * need be; st_finish fsyncs and closes, and gives the XXH3-128 of the whole file when `hash` was true (then st_write
 * must come in file order). When st_write or st_finish fails: st_abandon, which also removes the file. */
struct st_writer {
    const struct io *io;
    char *path;
    int fd;
    int64_t file_bytes, written_bytes; /* header included */
    struct hash_state *hash;
};
int st_create(const struct io *io, const char *path, struct st_tensor *tensors, size_t n, const char *const *metadata,
              size_t n_metadata, bool hash, struct st_writer *w, struct snug_err *err);
int st_write(struct st_writer *w, const struct st_tensor *t, int64_t offset, const void *from, size_t bytes,
             struct snug_err *err);
int st_finish(struct st_writer *w, struct hash128 *hash, struct snug_err *err);
void st_abandon(struct st_writer *w);

#endif
