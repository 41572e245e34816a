/* errors.h: what an error of CUDA's runtime becomes: a code and a line. */
#ifndef CUDA_ERRORS_H
#define CUDA_ERRORS_H

#include "base/err.h"

/* Of `code`, a cudaError_t: SNUG_OK, or a line that names the op and what the runtime says. SNUG_ERR_ENV: the device has no
 * memory left; else SNUG_ERR_CHECKPOINT: what was on it is lost, and the run goes on from a checkpoint.
 * The runtime forgets the error, so that the next launch is not blamed for it. */
int cuda_check(int code, const char *op, struct snug_err *err);
#define CUDA(what, call) TRY(cuda_check((int)(call), what, err))

/* While the device is opened nothing is lost yet: SNUG_ERR_ENV whatever fails, such as that another program has the
 * device to itself. */
int cuda_check_opening(int code, int device, struct snug_err *err);
#define OPENING(device, call) TRY(cuda_check_opening((int)(call), device, err))

#endif
