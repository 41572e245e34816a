/* interpret.h: runs an ONNX program as the operators' specification has it (github.com/onnx/onnx, docs/Operators.md), one element after
 * another and in double. Knows the operators that exported models have. */
#ifndef TESTS_OUTPUT_ONNX_INTERPRET_H
#define TESTS_OUTPUT_ONNX_INTERPRET_H

#include "read.h"

/* `inputs`: (f->n_inputs) in the file's order, whose names and types are set here. Gives (f->n_outputs) arrays, which the caller frees with
 * free_arrays. */
struct array *interpret(const struct onnx_file *f, struct array *inputs);
void free_arrays(struct array *a, int n);

#endif
