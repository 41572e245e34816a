/* write.h: writing a GGUF file, version 3. Pairs of metadata and tensors are listed in memory, in the order in which they shall
 * stand; gguf_write_start writes all of it, and then the tensors' bytes follow in the same order, in pieces of any size.
 *
 *     struct gguf_writer w = {0};
 *     gguf_put_text(&w, "general.architecture", "llama");
 *     gguf_put_tensor(&w, "token_embd.weight", gguf_type_named("F16"), 2, shape);
 *     code = gguf_write_start(&w, &file, err);
 *     ... gguf_write_elements(&w, floats, n, err) ...
 *     gguf_writer_free(&w);
 *
 * Memory that runs out while listing is told by gguf_write_start. */
#ifndef FORMAT_GGUF_WRITE_H
#define FORMAT_GGUF_WRITE_H

#include "base/out_file.h"
#include "base/str.h"
#include "format/gguf/gguf.h"

struct gguf_writer {
    struct str pairs, tensors;
    uint64_t n_pairs, n_tensors;
    int64_t data_bytes; /* with what fills up to the alignment */
    struct out_file *file;
    const struct gguf_type **types; /* (n_tensors) */
    int64_t *elements;
    size_t types_cap, elements_cap;
    size_t at; /* the tensor whose elements come next */
    int64_t done;
};
void gguf_writer_free(struct gguf_writer *w); /* also after an error; the file is the caller's */

/* A pair of metadata. Key and value are copied. A real is stored as a float. */
void gguf_put_uint(struct gguf_writer *w, const char *key, uint32_t x);
void gguf_put_float(struct gguf_writer *w, const char *key, double x);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool x);
void gguf_put_text(struct gguf_writer *w, const char *key, const char *text);

/* An array of n values, each from `get`: texts, numbers of the type I32, or floats. */
void gguf_put_texts(struct gguf_writer *w, const char *key, size_t n, const char *(*get)(void *ctx, size_t i),
                    void *ctx);
void gguf_put_ints(struct gguf_writer *w, const char *key, size_t n, const int32_t *x);
void gguf_put_floats(struct gguf_writer *w, const char *key, size_t n, const float *x);

/* Shapes outermost first. The type is F32, F16, BF16 or Q8_0. */
void gguf_put_tensor(struct gguf_writer *w, const char *name, const struct gguf_type *type, int ndim,
                     const int64_t *shape);

/* Writes everything before the data. The file stays the caller's, open until the last element is written. SNUG_ERR_IO; SNUG_ERR_ENV:
 * no memory, then or while listing. */
int gguf_write_start(struct gguf_writer *w, struct out_file *file, struct snug_err *err);
/* The next n elements of the data, whole blocks of one tensor. SNUG_ERR_IO; SNUG_ERR_USAGE where the tensor is F16 and a finite
 * element is beyond it, which the message says of `name`. */
int gguf_write_elements(struct gguf_writer *w, const char *name, const float *x, int64_t n, struct snug_err *err);

#endif
