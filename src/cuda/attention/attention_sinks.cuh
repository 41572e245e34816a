/* attention_sinks.cuh: puts a node's sinks into the o and lse that its kernel has written (attention_sinks.cu). Enqueues alone. */
#ifndef CUDA_ATTENTION_SINKS_CUH
#define CUDA_ATTENTION_SINKS_CUH

#include "cuda/kernels/kernel.cuh"

void attention_add_sinks(const struct args_attention *a, const struct cuda_call *c);

#endif
