/* fuzz.h: what a fuzz target provides, and what it may use. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Gives the input to the code under test; checks what must hold for every input with MUST. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Optional: changes the input, keeping what a blind change would nearly always break. Returns the new size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* libFuzzer's own change, for a custom mutator; absent in the replay program. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));

#define MUST(x)                                                                                                        \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #x);                                         \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
