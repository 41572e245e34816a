/* linear_experts_sm90.h: products of experts for compute capability 9.0 (linear_experts_sm90.cu). There is at least one row. `fits` says
 * whether the kernel takes these operands on this device. */
#ifndef CUDA_KERNELS_EXPERTS_LINEAR_EXPERTS_SM90_H
#define CUDA_KERNELS_EXPERTS_LINEAR_EXPERTS_SM90_H

#include "cuda/kernels/kernel.cuh"

bool cuda_linear_experts_sm90_fits(const struct args_linear_experts *a, const struct cuda_call *c);
int cuda_linear_experts_sm90(const struct args_linear_experts *a, const struct cuda_call *c);
bool cuda_linear_experts_dx_sm90_fits(const struct args_linear_experts_dx *a, const struct cuda_call *c);
int cuda_linear_experts_dx_sm90(const struct args_linear_experts_dx *a, const struct cuda_call *c);

#endif
