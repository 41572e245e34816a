/* operators.h: for the files of the interpreter. An operator gets its inputs and fills `y`: type, shape and numbers, in new memory. */
#ifndef TESTS_OUTPUT_ONNX_OPERATORS_H
#define TESTS_OUTPUT_ONNX_OPERATORS_H

#include "read.h"

typedef void run_fn(const struct operation *o, const struct array *const *in, struct array *y);
run_fn run_Shape, run_Reshape, run_Unsqueeze, run_Squeeze, run_Transpose, run_Range, run_Gather, run_GatherElements,
    run_Concat, run_Split, run_CumSum, run_ReduceSum;

void sized(struct array *a); /* memory for its shape, zeroed */
/* The shape that n arrays are broadcast to. */
void broadcast_shape(struct array *y, const struct array *const *a, int n);
int64_t axis_of(const struct operation *o, int rank, int64_t fallback);
int64_t behind(const struct array *a, int64_t axis); /* elements behind an axis */

#endif
