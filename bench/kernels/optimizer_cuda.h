/* optimizer_cuda.h: what the checks (optimizer_cuda.c) and the timing (optimizer_cuda_time.c) of bench-optimizer-cuda share. */
#ifndef BENCH_OPTIMIZER_CUDA_H
#define BENCH_OPTIMIZER_CUDA_H

#include "../../tests/op/cases.h"
#include "base/mem.h"
#include "cuda/kernels.h"

#include <cuda_runtime_api.h>

enum { MAX_TENSORS = 600 };

extern struct cuda_call call; /* of every launch; its workspace is whoever launches' */

/* Ends the program with a line unless `code`, a cudaError_t, is 0. */
void require(int code, const char *what);

/* An op of CUDA_BATCHED over the n tensors of a list. */
typedef int launcher(const union args_any *const *a, int n);
launcher launch_sumsq, launch_adamw, launch_sgd, launch_adafactor, launch_adamw8bit;

/* Bytes that `call` must have for all of them together. */
int64_t workspace_bytes(enum op op, const union args_any *args, int n);

struct tensor tensor(enum dtype t, int64_t n);       /* without data */
struct tensor on_device(enum dtype type, int64_t n); /* zeros, of cudaMalloc */

/* Times each optimizer over BERT-large's weights, and prints medians. */
void time_all(int repetitions);

#endif
