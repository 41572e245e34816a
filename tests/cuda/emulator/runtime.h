/* runtime.h: the emulated CUDA runtime: the part of it that snug uses, over the host's memory. What is enqueued is done at once,
 * or recorded while a graph is captured, whose streams then go ahead as far as they need not wait (stream.c). It takes the place of
 * libcudart in programs that it is linked into,
 * and finds the kernels' PTX in their object files, where -Demulated_gpu=true leaves it uncompressed (launch.c). The device says that
 * it is of compute capability 8.0 (device.c). */
#ifndef EMULATOR_RUNTIME_H
#define EMULATOR_RUNTIME_H

#include <stddef.h>

/* Ends the program. */
_Noreturn void emulator_stop(const char *what);
/* Memory of the host; without any it ends the program. Aligned as cudaMalloc's; zeroed; p, larger. */
void *emulator_reserve(size_t bytes);
void *emulator_zeroed(size_t n, size_t bytes);
void *emulator_resize(void *p, size_t n, size_t bytes);

/* The device does one thing at a time, whichever of the host's threads asks. A kernel that waits for another thread's lets it go on
 * (grid.c: pause_grid). */
void emulator_lock(void);
void emulator_unlock(void);

#endif
