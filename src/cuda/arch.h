/* arch.h: for which devices there are kernels. Compute capabilities are times ten. */
#ifndef CUDA_ARCH_H
#define CUDA_ARCH_H

#include "base/err.h"

#include <stdbool.h>

int cuda_arch_read(int device, int *arch);           /* a cudaError_t */
int cuda_arch_code(int arch);                        /* whose code such a device runs; 0: none that was built */
bool cuda_arch_sm90(int arch);                       /* whether kernels of NAME_sm90.cu may be used */
int cuda_arch_check(int arch, struct snug_err *err); /* that it is not too old, and has code */

#endif
