/* enqueue.h: what a library puts on a stream of the emulated device. */
#ifndef EMULATOR_ENQUEUE_H
#define EMULATOR_ENQUEUE_H

#include <stddef.h>

struct CUstream_st;

/* Runs it now, or with the graph that is being captured, on a copy of the data. */
void emulator_enqueue(struct CUstream_st *stream, void (*run)(const void *data), const void *data, size_t bytes);

#endif
