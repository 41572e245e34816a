/* gguf.h: the GGUF container of llama.cpp (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3,
 * little-endian. It is read with pread after everything before the data has been checked against the file's size.
 *
 * A file begins with "GGUF", a version (u32), the numbers of tensors and of pairs of metadata (u64). Then come the pairs: a
 * key, a type (u32), a value. For each tensor there is a name, the number of dimensions (u32), these (u64, innermost first), a
 * type (u32) and an offset (u64). At the next multiple of general.alignment begin the data, which the offsets count from. A
 * string is a length (u64) and bytes.
 *
 * Stricter than llama.cpp, in what no real file does: keys and texts are UTF-8 without NUL, a key stands there only once, tensors
 * do not overlap, at most a million tensors, four million values of metadata and 256 MiB before the data. */
#ifndef FORMAT_GGUF_GGUF_H
#define FORMAT_GGUF_GGUF_H

#include "base/dtype.h"
#include "format/json.h"

enum {
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_TENSORS = 1000000,
    GGUF_MAX_VALUES = 4 << 20,
    GGUF_MAX_HEADER = 256 << 20, /* bytes */
    GGUF_MAX_TEXT = 64 << 20,    /* bytes of one string */
};

/* What to do about most defects of a file. */
#define GGUF_AGAIN "; get the file again"

/* How the elements of a tensor are stored: blocks of so many elements and bytes. */
struct gguf_type {
    const char *name; /* "Q4_K" */
    int id;           /* in files */
    int block;        /* elements; 0: known by name only, and not read */
    int block_bytes;
    enum dtype dtype; /* what reading gives */
    /* From stored blocks to floats, as ggml's reference code computes them in float; NULL: they are stored as dtype. */
    void (*dequantize)(const unsigned char *from, int64_t blocks, float *to);
};
const struct gguf_type *gguf_type(int64_t id); /* NULL: unknown */
const struct gguf_type *gguf_type_named(const char *name);

struct gguf_tensor {
    const char *name;
    const struct gguf_type *type;
    int ndim;
    int64_t shape[GGUF_MAX_DIMS]; /* outermost first, as everywhere else here */
    int64_t elements;
    int64_t at, bytes; /* place in the file */
};

struct gguf_file {
    const struct io *io;
    char *path;
    int fd;
    int64_t file_bytes, data_at;
    int version;
    /* An object, key to value. Floats and doubles are reals; what is not finite is null; of u64 beyond int64 a real. */
    json_t *metadata;
    struct gguf_tensor *tensors; /* sorted by the bytes of the name */
    size_t n_tensors;
    struct arena arena; /* the names */
};

/* Opens and validates. SNUG_ERR_INPUT for a bad file, SNUG_ERR_IO where reading fails. gguf_close is for after success; a
 * failed gguf_open leaves nothing to close. */
int gguf_open(const struct io *io, const char *path, struct gguf_file *f, struct snug_err *err);
void gguf_close(struct gguf_file *f);

const struct gguf_tensor *gguf_find(const struct gguf_file *f, const char *name); /* NULL if absent; O(log n) */

/* Elements [first, first + count) of t as t->type->dtype. */
int gguf_read(const struct gguf_file *f, const struct gguf_tensor *t, int64_t first, int64_t count, void *to,
              struct snug_err *err);

#endif
