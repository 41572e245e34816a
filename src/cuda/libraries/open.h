/* open.h: libraries of NVIDIA's that are opened when they are needed: linked in, they would be mapped by every `snug --help`, and snug
 * could not start without them. */
#ifndef CUDA_LIBRARIES_OPEN_H
#define CUDA_LIBRARIES_OPEN_H

#include "base/err.h"

#include <stddef.h>

/* The first of n names that opens, as dlopen gives it: where the system looks for libraries, in CUDA_HOME and in /usr/local/cuda.
 * *out is NULL where there is none. */
int cuda_library_open(const char *const *names, size_t n, void **out, struct snug_err *err);

#endif
