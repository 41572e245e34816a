/* varint.h: whole numbers of 7 bits a byte, the lowest first. */
#ifndef FORMAT_PARQUET_VARINT_H
#define FORMAT_PARQUET_VARINT_H

#include <stdbool.h>
#include <stdint.h>

/* false: the bytes end before it does, or it is longer than 64 bits. */
static inline bool varint_read(const uint8_t **p, const uint8_t *end, uint64_t *x)
{
    *x = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        uint8_t byte = *(*p)++;
        *x |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* 0, -1, 1, -2, … as 0, 1, 2, 3, … */
static inline int64_t zigzag(uint64_t x)
{
    return (int64_t)(x >> 1) ^ -(int64_t)(x & 1);
}

#endif
