/* st_bytes.h: safetensors files as bytes. */
#ifndef TEST_FORMAT_ST_BYTES_H
#define TEST_FORMAT_ST_BYTES_H

#include "../failing_memory.h"
#include "../memory_io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(s) s, sizeof s - 1

/* malloc'ed, so that a sanitizer sees a read behind the end. */
static inline unsigned char *build(const char *header, size_t bytes, size_t data, size_t *total)
{
    *total = 8 + bytes + data;
    unsigned char *file = calloc(*total, 1);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)bytes >> 8 * i);
    memcpy(file + 8, header, bytes);
    return file;
}

#endif
