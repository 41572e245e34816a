/* export_onnx.h: a model folder of an encoder as a folder with an ONNX model, as optimum writes it: model.onnx, config.json and the
 * tokenizer's files. Names of inputs and outputs are optimum's. */
#ifndef OUTPUT_ONNX_EXPORT_ONNX_H
#define OUTPUT_ONNX_EXPORT_ONNX_H

#include "base/io.h"

#include <stdbool.h>
#include <stdint.h>

struct onnx_export {
    const char *model, *dir;
    bool overwrite; /* what `dir` has of another model is replaced */
    int64_t
        limit; /* of the bytes of model.onnx; 0: what readers take. What is larger has its weights in model.onnx_data */
    void (*note)(void *ctx, const char *line);
    void *note_ctx;
};

struct onnx_report {
    const char *gives; /* its outputs, with commas between */
    const char *of;    /* the class of the model */
    int64_t bytes, beside;
    char text[160]; /* what `of` may point at */
};

/* SNUG_ERR_INPUT: the folder is no encoder's, or not whole. SNUG_ERR_USAGE: `dir` holds what is not replaced; the model has what no
 * ONNX file is written of. */
int export_onnx(const struct io *io, const struct onnx_export *e, struct onnx_report *r, struct snug_err *err);

#endif
