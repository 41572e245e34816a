/* write.h: a program as the bytes of an ONNX file (ModelProto of onnx.proto), and of a second one with its weights where one message
 * has no room for them. No weight is in memory longer than it takes to write it. */
#ifndef OUTPUT_ONNX_WRITE_H
#define OUTPUT_ONNX_WRITE_H

#include "base/io.h"
#include "base/str.h"
#include "format/model_dir.h"
#include "output/onnx/program.h"

#define ONNX_FILE "model.onnx"
#define ONNX_FILE_BESIDE "model.onnx_data"

/* A message of protocol buffers has less than 2 GiB, in readers in C++ at least. */
enum { ONNX_LIMIT = INT32_MAX };

/* Says where each tensor is written: with more than `limit` bytes in all, weights go into a file of their own. *bytes and *beside:
 * of the two; *beside 0: there is none. */
int onnx_layout(struct onnx *x, int64_t limit, int64_t *bytes, int64_t *beside, struct snug_err *err);

/* To the end of an empty file. Weights come from `d`, as fp32. */
int onnx_write(struct onnx *x, struct model_dir *d, const struct io *io, int fd, const char *path,
               struct snug_err *err);
int onnx_write_beside(struct onnx *x, struct model_dir *d, const struct io *io, int fd, const char *path,
                      struct snug_err *err);

/* ---- Messages (messages.c) ---- */

void onnx_put_before(struct str *m);                              /* of ModelProto: all but the graph */
void onnx_put_nodes(struct str *m, const struct onnx *x);         /* of GraphProto */
void onnx_put_ends(struct str *m, const struct onnx *x);          /* likewise: inputs and outputs */
void onnx_put_tensor(struct str *m, const struct onnx_tensor *t); /* TensorProto, without its numbers */

/* ---- Weights (weights.c) ---- */

/* SNUG_ERR_INPUT where a weight is missing or has another shape than the program wants. */
int onnx_check_weights(const struct onnx *x, const struct model_dir *d, struct snug_err *err);

/* Reads one weight, front to back, as it lies in the file. */
struct onnx_reader {
    struct onnx *x;
    struct model_dir *d;
    int (*put)(void *ctx, const void *bytes, size_t n, struct snug_err *err);
    void *ctx;
};
int onnx_read_weight(const struct onnx_reader *r, const struct onnx_tensor *t, struct snug_err *err);

#endif
