/* enqueue.h: what a library puts on the emulated device's stream. */
#ifndef EMULATOR_ENQUEUE_H
#define EMULATOR_ENQUEUE_H

#include <stddef.h>

/* Runs it now, or with the graph that is being captured, on a copy of the data. */
void emulator_enqueue(void (*run)(const void *data), const void *data, size_t bytes);

#endif
