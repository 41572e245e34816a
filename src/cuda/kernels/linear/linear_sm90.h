/* linear_sm90.h: linear layers with their activation in one kernel, for compute capability 9.0 (linear_sm90.cu). There is
 * at least one row. `fits` says whether the kernel can do this layer on this device; data pointers may be NULL there. */
#ifndef CUDA_KERNELS_LINEAR_SM90_H
#define CUDA_KERNELS_LINEAR_SM90_H

#include "cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As cuda_linear, without workspace. */
bool cuda_linear_sm90_fits(const struct args_linear *a, const struct cuda_call *c);
int cuda_linear_sm90(const struct args_linear *a, const struct cuda_call *c);

/* As cuda_linear_dx_act; the workspace may be smaller. */
bool cuda_linear_dx_act_sm90_fits(const struct args_linear_dx_act *a, const struct cuda_call *c);
int64_t cuda_linear_dx_act_sm90_workspace(const struct args_linear_dx_act *a);
int cuda_linear_dx_act_sm90(const struct args_linear_dx_act *a, const struct cuda_call *c);

#ifdef __cplusplus
}
#endif

#endif
