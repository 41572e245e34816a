/* processor.h: what the processor calls itself, and which of its instruction sets the kernels choose by. */
#ifndef BACKEND_PROCESSOR_H
#define BACKEND_PROCESSOR_H

#include <stddef.h>

enum { PROCESSOR_NAME_MAX = 64 };

/* "" or "unknown" where it does not say. */
void processor_name(char name[PROCESSOR_NAME_MAX]);

/* Up to `room` names of what the operating system lets programs use; returns how many. */
size_t processor_features(const char *names[], size_t room);

#endif
