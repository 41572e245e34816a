/* disentangled.cuh: attention_disentangled by the tiles of attention, with the products of contents and relative positions by cuBLASLt. For
 * kernels/attention_disentangled.cu, where disentangled_fits. Workspaces: bytes at these shapes. */
#ifndef CUDA_ATTENTION_DISENTANGLED_CUH
#define CUDA_ATTENTION_DISENTANGLED_CUH

#include "cuda/kernels/kernel.cuh"

/* Of heads of D elements of `dtype`, and R relative positions. */
bool disentangled_fits(int64_t D, int64_t R, double scale, enum dtype dtype);

int64_t disentangled_forward_workspace(const struct args_attention_disentangled *a, const struct cuda_call *c);
int64_t disentangled_backward_workspace(const struct args_attention_disentangled_bwd *a, const struct cuda_call *c);

/* T > 0. */
int disentangled_forward(const struct args_attention_disentangled *a, const struct cuda_call *c);
int disentangled_backward(const struct args_attention_disentangled_bwd *a, const struct cuda_call *c);

#endif
